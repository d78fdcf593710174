//! A TCP stream that leaves its `TCP_INFO` behind when it ends, and a stream over any other that remembers when bytes went and came.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::tcp::{self, TcpInfo};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::awaited::Awaited;

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
pub struct Connections(Awaited<Inner>);

#[derive(Debug, Default)]
struct Inner {
    alive: BTreeMap<Ends, Weak<TcpStream>>,
    ended: BTreeMap<Ends, TcpInfo>,
}

impl Connections {
    /// What the kernel says of every connection since the last call of [`Connections::forget`].
    pub fn evidence(&self) -> BTreeMap<Ends, TcpInfo> {
        self.0.with(|inner| {
            let mut evidence = inner.ended.clone();
            for (ends, stream) in &inner.alive {
                if let Some(info) = stream.upgrade().and_then(|stream| tcp::info(&*stream).ok()) {
                    evidence.insert(*ends, info);
                }
            }
            evidence
        })
    }

    /// Ends the connections that are alive with a reset, as soon as their owner lets go.
    pub fn reset_on_close(&self) {
        self.with_alive(|socket| drop(socket.set_linger(Some(Duration::ZERO))));
    }

    /// Ends all connections that are alive, with a reset: what is under way on them is lost.
    pub fn reset(&self) {
        self.reset_on_close();
        // Whoever owns it reads its end, lets go, and so closes it.
        self.with_alive(|socket| drop(socket.shutdown(std::net::Shutdown::Both)));
    }

    fn with_alive(&self, act: impl Fn(SockRef)) {
        self.0.with(|inner| {
            inner.alive.values().filter_map(Weak::upgrade).for_each(|stream| act(SockRef::from(&*stream)));
        });
    }

    /// Waits until no connection is alive, or `patience` is over. Says whether none is.
    pub fn wait_until_ended(&self, patience: Duration) -> bool {
        self.0.wait_until(patience, |inner| inner.alive.is_empty())
    }

    /// Forgets the connections that ended.
    pub fn forget(&self) {
        self.0.with(|inner| inner.ended.clear());
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
        connections.0.with(|inner| inner.alive.insert(ends, Arc::downgrade(&stream)));
        Self { stream, ends, connections }
    }

    /// Has the next read wait for the kernel's word instead of asking it in vain: a read that got less than it had room for
    /// left nothing, and what comes later is told. An end that has been told of stays known.
    fn has_been_emptied(&self) {
        let _ = self.stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
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
            let room = buffer.initialize_unfilled();
            let wanted = room.len();
            match self.stream.try_read(room) {
                Ok(count) => {
                    buffer.advance(count);
                    if 0 < count && count < wanted {
                        self.has_been_emptied();
                    }
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

    /// Whoever ends a stream here lets go of it as well, and that closes it in both directions.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for ObservedStream {
    fn drop(&mut self) {
        self.connections.0.change(|inner| {
            if let Ok(info) = tcp::info(&*self.stream) {
                inner.ended.insert(self.ends, info);
            }
            inner.alive.remove(&self.ends);
        });
    }
}

/// An account of what crosses a stream.
pub trait Account: Default + Send + 'static {
    /// These bytes were written.
    fn wrote(&mut self, at_ns: u64, bytes: &[u8]);
    /// These bytes were read.
    fn read(&mut self, at_ns: u64, bytes: &[u8]);
}

impl Account for Traffic {
    fn wrote(&mut self, at_ns: u64, bytes: &[u8]) {
        self.first_write_ns.get_or_insert(at_ns);
        self.last_write_ns = Some(at_ns);
        self.bytes_written += bytes.len() as u64;
        if self.bytes_read == 0 {
            self.bytes_written_first += bytes.len() as u64;
        }
    }

    fn read(&mut self, at_ns: u64, bytes: &[u8]) {
        self.first_read_ns.get_or_insert(at_ns);
        self.last_read_ns = Some(at_ns);
        self.bytes_read += bytes.len() as u64;
        if self.bytes_written == 0 {
            self.bytes_read_first += bytes.len() as u64;
        }
    }
}

/// What a [`WatchedStream`] may lie over: TCP itself, or TLS.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A stream whose [`Watch`] tells what crossed it while somebody else owns it.
pub struct WatchedStream<A = Traffic> {
    stream: Box<dyn Duplex>,
    account: Arc<Mutex<A>>,
}

/// A look at a stream's account from outside.
#[derive(Debug)]
pub struct Watch<A = Traffic>(Arc<Mutex<A>>);

impl<A> Clone for Watch<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A: Account> Watch<A> {
    /// Starts a new account: for the next request on the stream.
    pub fn restart(&self) {
        *lock(&self.0) = A::default();
    }

    /// Asks the account so far.
    pub fn ask<T>(&self, question: impl FnOnce(&A) -> T) -> T {
        question(&lock(&self.0))
    }
}

impl Watch {
    /// The account so far.
    pub fn traffic(&self) -> Traffic {
        self.ask(|traffic| *traffic)
    }
}

fn lock<A>(account: &Mutex<A>) -> MutexGuard<'_, A> {
    account.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl<A: Account> WatchedStream<A> {
    /// Watches `stream`, from now on.
    pub fn new(stream: impl Duplex + 'static) -> Self {
        Self { stream: Box::new(stream), account: Arc::default() }
    }

    /// A look at its account that stays valid when somebody else owns the stream.
    pub fn watch(&self) -> Watch<A> {
        Watch(self.account.clone())
    }

    /// Takes note of a write of the beginning of `slices`.
    fn wrote<'a>(
        &self,
        written: Poll<io::Result<usize>>,
        slices: impl IntoIterator<Item = &'a [u8]>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = written {
            let (now, mut left) = (monotonic_ns(), count);
            let mut account = lock(&self.account);
            for slice in slices {
                let part = &slice[..left.min(slice.len())];
                left -= part.len();
                account.wrote(now, part);
            }
        }
        written
    }
}

impl<A: Account> AsyncRead for WatchedStream<A> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        if !read.is_empty() {
            lock(&self.account).read(monotonic_ns(), read);
        }
        Poll::Ready(Ok(()))
    }
}

impl<A: Account> AsyncWrite for WatchedStream<A> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(written, [bytes])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wrote(written, slices.iter().map(|slice| &**slice))
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
