//! Stores the TCP sockets of one end (client or origins) of the emulated network, keyed by four-tuple: the
//! open sockets, and the last `TCP_INFO` of closed sockets.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fastopen_netns::tcp::{self, TcpInfo};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::watch_cell::WatchCell;

/// Addresses and ports of both ends, which identify a connection. The client's port is not enough, because
/// the kernel uses the same port for several destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FourTuple {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The origin's address and port.
    pub origin: SocketAddr,
}

/// The TCP sockets of one end (client or origins) of the emulated network.
#[derive(Debug, Default)]
pub struct SocketTable(WatchCell<Sockets>);

#[derive(Debug, Default)]
struct Sockets {
    open: BTreeMap<FourTuple, Weak<TcpStream>>,
    closed: BTreeMap<FourTuple, TcpInfo>,
}

impl Sockets {
    fn open(&self) -> impl Iterator<Item = (FourTuple, TcpInfo)> {
        let info = |stream: &Weak<TcpStream>| tcp::info(&*stream.upgrade()?).ok();
        self.open.iter().filter_map(move |(four_tuple, stream)| Some((*four_tuple, info(stream)?)))
    }
}

impl SocketTable {
    /// Returns the latest `TCP_INFO` of every connection since the last call of [`SocketTable::forget`].
    pub fn evidence(&self) -> BTreeMap<FourTuple, TcpInfo> {
        self.0.with(|sockets| sockets.closed.clone().into_iter().chain(sockets.open()).collect())
    }

    /// Returns the four-tuple and `TCP_INFO` of each open connection.
    pub fn open(&self) -> Vec<(FourTuple, TcpInfo)> {
        self.0.with(|sockets| sockets.open().collect())
    }

    /// Makes the open sockets send RST on close (`SO_LINGER` of 0 s).
    pub fn reset_on_close(&self) {
        self.with_open(|socket| drop(socket.set_linger(Some(Duration::ZERO))));
    }

    /// Resets all open connections. Data in flight is lost.
    pub fn reset(&self) {
        self.reset_on_close();
        // After shutdown(2), each owner reads the end of the stream, drops the socket, and so closes it.
        self.with_open(|socket| drop(socket.shutdown(std::net::Shutdown::Both)));
    }

    fn with_open(&self, act: impl Fn(SockRef)) {
        self.0.with(|sockets| {
            sockets.open.values().filter_map(Weak::upgrade).for_each(|stream| act(SockRef::from(&*stream)));
        });
    }

    /// Waits until no socket is open or `timeout` has passed. Returns true if no socket is open.
    pub fn wait_until_closed(&self, timeout: Duration) -> bool {
        self.0.wait_until(timeout, |sockets| sockets.open.is_empty())
    }

    /// Forgets the closed sockets and their `TCP_INFO`.
    pub fn forget(&self) {
        self.0.with(|sockets| sockets.closed.clear());
    }
}

/// A TCP socket that stores its `TCP_INFO` in a [`SocketTable`] when it is dropped.
pub struct ObservedStream {
    stream: Arc<TcpStream>,
    four_tuple: FourTuple,
    table: Arc<SocketTable>,
}

impl ObservedStream {
    /// Wraps `stream`, and adds it to the open sockets of `table`.
    pub fn new(stream: TcpStream, four_tuple: FourTuple, table: Arc<SocketTable>) -> Self {
        let stream = Arc::new(stream);
        table.0.with(|sockets| sockets.open.insert(four_tuple, Arc::downgrade(&stream)));
        Self { stream, four_tuple, table }
    }

    /// Wraps a newly accepted connection like [`ObservedStream::new`]. Prevents the read that tokio would try
    /// immediately, which costs a system call. There must be no `await` between accept and this call: epoll
    /// reports available data only once, and an earlier report would be lost.
    pub fn accepted(stream: TcpStream, four_tuple: FourTuple, table: Arc<SocketTable>) -> Self {
        let stream = Self::new(stream, four_tuple, table);
        stream.clear_readiness();
        stream
    }

    /// Limits the number of unsent bytes in the kernel's send buffer (`TCP_NOTSENT_LOWAT`).
    pub fn limit_unsent(&self, bytes: u32) {
        let _ = SockRef::from(&*self.stream).set_tcp_notsent_lowat(bytes);
    }

    /// Waits for the first received bytes, and returns true if they start with `bytes`, which must be at most
    /// 4 bytes and arrive together. Does not consume the received bytes.
    pub async fn begins_with(&self, bytes: &[u8]) -> bool {
        let mut first = [0; 4];
        self.stream.peek(&mut first).await.is_ok_and(|count| first[..count].starts_with(bytes))
    }

    /// Makes the next read wait until epoll reports new data, unless the end of the stream was reported. This
    /// saves a system call that returns EAGAIN if no data is left, such as after a short read.
    fn clear_readiness(&self) {
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
                // With TCP_FASTOPEN_CONNECT the first write sends the SYN. Without a cookie the SYN carries
                // no data, and the write returns EINPROGRESS.
                write(SockRef::from(&*self.stream)).map_err(|error| match error.raw_os_error() {
                    Some(libc::EINPROGRESS) => io::ErrorKind::WouldBlock.into(),
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

impl AsyncRead for ObservedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            let room = buffer.initialize_unfilled();
            let capacity = room.len();
            match self.stream.try_read(room) {
                Ok(count) => {
                    buffer.advance(count);
                    if 0 < count && count < capacity {
                        self.clear_readiness();
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

    /// Does nothing, because the owner drops the stream next, which closes both directions.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for ObservedStream {
    fn drop(&mut self) {
        self.table.0.update(|sockets| {
            if let Ok(info) = tcp::info(&*self.stream) {
                sockets.closed.insert(self.four_tuple, info);
            }
            sockets.open.remove(&self.four_tuple);
        });
    }
}
