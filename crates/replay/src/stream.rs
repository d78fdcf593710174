//! A TCP stream that leaves its `TCP_INFO` behind when it ends, and a stream over any other that remembers when bytes went and came.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::tcp::{self, TcpInfo};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// When bytes crossed a stream, in nanoseconds of the monotonic clock, and how many.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traffic {
    /// First write since the account began.
    pub first_write_ns: Option<u64>,
    /// First read after that write.
    pub first_read_ns: Option<u64>,
    /// Latest read.
    pub last_read_ns: Option<u64>,
    /// Bytes read since then.
    pub bytes_read: u64,
    /// Latest write.
    pub last_write_ns: Option<u64>,
    /// Bytes written since the account began.
    pub bytes_written: u64,
    /// Of these, what was written before anything was read.
    pub bytes_written_first: u64,
    /// What was read before anything was written.
    pub bytes_read_first: u64,
}

/// The addresses of a connection. The client's alone does not tell: the kernel gives the same port for several destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// The client's address.
    pub client: SocketAddrV4,
    /// The origin's address.
    pub origin: SocketAddrV4,
}

/// The connections of one end: those alive, and what the kernel said last of those that ended.
#[derive(Debug, Default)]
pub struct Connections {
    inner: Mutex<Inner>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    alive: BTreeMap<Ends, Weak<TcpStream>>,
    ended: BTreeMap<Ends, TcpInfo>,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What the kernel says of every connection since the last call of [`Connections::forget`].
    pub fn evidence(&self) -> BTreeMap<Ends, TcpInfo> {
        let inner = self.lock();
        let mut evidence = inner.ended.clone();
        for (ends, stream) in &inner.alive {
            if let Some(info) = stream.upgrade().and_then(|stream| tcp::info(&*stream).ok()) {
                evidence.insert(*ends, info);
            }
        }
        evidence
    }

    /// Ends the connections that are alive with a reset, as soon as their owner lets go.
    pub fn reset_on_close(&self) {
        for stream in self.lock().alive.values().filter_map(Weak::upgrade) {
            let _ = SockRef::from(&*stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Waits until no connection is alive, or `patience` is over. Says whether none is.
    pub fn wait_until_ended(&self, patience: Duration) -> bool {
        let waited = self.ended.wait_timeout_while(self.lock(), patience, |inner| !inner.alive.is_empty());
        waited.is_ok_and(|(inner, _)| inner.alive.is_empty())
    }

    /// Forgets the connections that ended.
    pub fn forget(&self) {
        self.lock().ended.clear();
    }
}

/// The stream itself.
pub struct ObservedStream {
    stream: Arc<TcpStream>,
    ends: Ends,
    connections: Arc<Connections>,
}

impl ObservedStream {
    /// Takes `stream` into `connections`, as the one between `ends`.
    pub fn new(stream: TcpStream, ends: Ends, connections: Arc<Connections>) -> Self {
        let stream = Arc::new(stream);
        connections.lock().alive.insert(ends, Arc::downgrade(&stream));
        Self { stream, ends, connections }
    }

    fn poll_send(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(SockRef) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            let sent = self.stream.try_io(Interest::WRITABLE, || {
                // A SYN that could carry no data after all (the cookie went missing) says EINPROGRESS, once.
                write(SockRef::from(&*self.stream)).map_err(|error| match error.raw_os_error() {
                    Some(EINPROGRESS) => io::ErrorKind::WouldBlock.into(),
                    _ => error,
                })
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }
}

const EINPROGRESS: i32 = 115;

impl AsyncRead for ObservedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for ObservedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(context, |socket| socket.send(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, |socket| socket.send_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.stream).shutdown(std::net::Shutdown::Write))
    }
}

impl Drop for ObservedStream {
    fn drop(&mut self) {
        let mut inner = self.connections.lock();
        if let Ok(info) = tcp::info(&*self.stream) {
            inner.ended.insert(self.ends, info);
        }
        inner.alive.remove(&self.ends);
        self.connections.ended.notify_all();
    }
}

/// What a [`WatchedStream`] may lie over: TCP itself, or TLS.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A stream whose [`Watch`] tells what crossed it while hyper owns it.
pub struct WatchedStream {
    stream: Box<dyn Duplex>,
    traffic: Arc<Mutex<Traffic>>,
}

/// A look at a stream's traffic from outside.
#[derive(Debug, Clone)]
pub struct Watch(Arc<Mutex<Traffic>>);

impl Watch {
    /// Starts a new account: for the next request on the stream.
    pub fn restart(&self) {
        *lock(&self.0) = Traffic::default();
    }

    /// The account so far.
    pub fn traffic(&self) -> Traffic {
        *lock(&self.0)
    }
}

fn lock(traffic: &Mutex<Traffic>) -> MutexGuard<'_, Traffic> {
    traffic.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl WatchedStream {
    /// Watches `stream`, from now on.
    pub fn new(stream: impl Duplex + 'static) -> Self {
        Self { stream: Box::new(stream), traffic: Arc::default() }
    }

    /// A look at its traffic that stays valid when hyper owns the stream.
    pub fn watch(&self) -> Watch {
        Watch(self.traffic.clone())
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = written {
            let now = monotonic_ns();
            let mut traffic = lock(&self.traffic);
            traffic.first_write_ns.get_or_insert(now);
            traffic.last_write_ns = Some(now);
            traffic.bytes_written += count as u64;
            if traffic.bytes_read == 0 {
                traffic.bytes_written_first += count as u64;
            }
        }
        written
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let count = buffer.filled().len() - before;
        if count > 0 {
            let now = monotonic_ns();
            let mut traffic = lock(&self.traffic);
            traffic.first_read_ns.get_or_insert(now);
            traffic.last_read_ns = Some(now);
            traffic.bytes_read += count as u64;
            if traffic.bytes_written == 0 {
                traffic.bytes_read_first += count as u64;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
