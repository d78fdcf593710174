//! Gives quinn UDP sockets without offloads, and counts the QUIC packets of each connection.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fastopen_netns::udp;
use quinn::udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::unix::AsyncFd;

use super::reactor;
use super::table::QuicTable;
use crate::sockets::FourTuple;

/// Size of a UDP socket's buffers in bytes. Large, because UDP's buffers, unlike TCP's, do not grow.
const BUFFER_BYTES: usize = 8 << 20;

/// A UDP socket in a tokio runtime, which never fragments datagrams.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: AsyncFd<UdpSocket>,
    state: UdpSocketState,
    local: SocketAddr,
}

impl Datagrams {
    /// Binds a UDP socket to `local` (port 0: the kernel's choice), and connects it to `peer` if given.
    pub(super) fn bind(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<Self> {
        let socket = udp::bind(local, peer, BUFFER_BYTES)?;
        let state = UdpSocketState::new(socket.get_ref().into())?;
        // If the kernel could merge datagrams, quinn would reserve 3 MB for each socket.
        udp::receive_one_by_one(socket.get_ref())?;
        let local = socket.get_ref().local_addr()?;
        Ok(Self { socket, state, local })
    }

    /// Sends a datagram. Fails with `WouldBlock` if the buffer is full, or with an earlier datagram's error.
    pub(super) fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.state.try_send(self.socket.get_ref().into(), transmit)
    }

    /// Receives datagrams into `buffers`, and returns their number. Fails if the runtime has ended.
    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(context))?;
            match self.state.recv(self.socket.get_ref().into(), buffers, meta) {
                Ok(count) => {
                    if count < buffers.len().min(meta.len()).min(BATCH_SIZE) {
                        // Wait for epoll before the next call, which could otherwise return EAGAIN.
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                // Earlier datagrams caused this error (ICMP), and this call has cleared it.
                Err(_) => {}
            }
        }
    }
}

/// The socket of an endpoint, which counts the packets of its connections in a [`QuicTable`].
#[derive(Debug)]
pub(super) struct CountedSocket {
    socket: Arc<Datagrams>,
    /// The address and port of the server, if this is a client's socket; `None` for a socket of servers.
    origin: Option<SocketAddr>,
    /// Value of [`reactor::turn`] when the socket was created. [`FirstFlight`] waits for a larger value.
    turn: u64,
    table: Arc<QuicTable>,
}

impl CountedSocket {
    /// Opens a UDP socket on a port of `0.0.0.0` or `[::]` (`local`), and counts its packets in `table`. A
    /// client's socket connects to `origin`; servers pass `None`. Fails outside of a [`reactor::Runtime`].
    pub(super) fn new(
        local: SocketAddr,
        origin: Option<SocketAddr>,
        table: Arc<QuicTable>,
    ) -> io::Result<Self> {
        if !reactor::is_running() {
            return Err(io::Error::other("a QUIC endpoint needs the runtime that sends its datagrams"));
        }
        let socket = Arc::new(Datagrams::bind(local, origin)?);
        Ok(Self { socket, origin, turn: reactor::turn(), table })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.socket.local
    }

    /// Returns the four-tuple of a datagram to or from `peer`; `own` is the address of this end. `None` for a
    /// socket of the origins if `own` is unknown.
    fn four_tuple(&self, peer: SocketAddr, own: Option<IpAddr>) -> Option<FourTuple> {
        match self.origin {
            Some(origin) => Some(FourTuple { client: self.local(), origin }),
            None => Some(FourTuple { client: peer, origin: SocketAddr::new(own?, self.local().port()) }),
        }
    }
}

impl AsyncUdpSocket for CountedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(FirstFlight(self))
    }

    fn try_send(&self, transmit: &Transmit) -> io::Result<()> {
        let four_tuple = self.four_tuple(transmit.destination, transmit.src_ip);
        let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for datagram in transmit.contents.chunks(size) {
            reactor::send(&self.socket, transmit, datagram);
            if let Some(four_tuple) = four_tuple {
                self.table.sent(four_tuple, datagram);
            }
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.socket.poll_receive(context, buffers, meta))?;
        for (buffer, meta) in buffers.iter().zip(meta).take(count) {
            if self.origin.is_some() {
                meta.dst_ip = None;
            }
            if let Some(four_tuple) = self.four_tuple(meta.addr, meta.dst_ip) {
                self.table.received(four_tuple, &buffer[..meta.len]);
            }
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local())
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// Delays a client's first datagram until all ready tasks have run, so that the first datagrams contain all
/// early data. After that, always reports that the socket is writable, because the reactor queues datagrams.
#[derive(Debug)]
struct FirstFlight(Arc<CountedSocket>);

impl UdpPoller for FirstFlight {
    fn poll_writable(self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        if reactor::turn() > self.0.turn {
            return Poll::Ready(Ok(()));
        }
        reactor::wake_before_wait(context.waker());
        Poll::Pending
    }
}

#[cfg(test)]
#[path = "../../tests/unit/socket.rs"]
mod tests;
