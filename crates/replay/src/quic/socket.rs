//! A UDP socket for quinn that counts QUIC packets as they cross it, without offloads.

use std::fmt::{self, Debug, Formatter};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use socket2::SockRef;
use tokio::io::Interest;

use super::table::QuicTable;
use crate::sockets::FourTuple;

/// What is asked of the kernel for datagrams that wait, in bytes; it grants `net.core.rmem_max` at most.
/// TCP's buffers grow with its windows, those of UDP do not.
const BUFFER_BYTES: usize = 8 << 20;

/// Which end of connections a socket is.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// A client of one address of its own.
    Client(Ipv4Addr),
    /// The origins behind one port.
    Origin,
}

pub(super) struct CountedSocket {
    socket: tokio::net::UdpSocket,
    state: UdpSocketState,
    port: u16,
    end: End,
    table: Arc<QuicTable>,
}

impl CountedSocket {
    /// To be called inside the runtime.
    pub(super) fn new(socket: UdpSocket, end: End, table: Arc<QuicTable>) -> io::Result<Self> {
        let reference = SockRef::from(&socket);
        // SO_RCVBUFFORCE, for the root of the machine: that is a virtual engine's.
        let _ = fastopen_netns::udp::force_receive_buffer(&socket, BUFFER_BYTES)
            .or_else(|_| reference.set_recv_buffer_size(BUFFER_BYTES));
        let _ = reference.set_send_buffer_size(BUFFER_BYTES);
        let port = socket.local_addr()?.port();
        let state = UdpSocketState::new((&socket).into())?;
        // Which that has enabled, with megabytes of buffers for each socket.
        let _ = fastopen_netns::udp::disable_receive_offload(&socket);
        Ok(Self { socket: tokio::net::UdpSocket::from_std(socket)?, state, port, end, table })
    }

    /// The connection of a datagram to or from `peer`; `own` is the address of this end.
    fn four_tuple(&self, peer: SocketAddr, own: Option<IpAddr>) -> Option<FourTuple> {
        let SocketAddr::V4(peer) = peer else { return None };
        match (self.end, own) {
            (End::Client(own), _) => {
                Some(FourTuple { client: SocketAddrV4::new(own, self.port), origin: peer })
            }
            (End::Origin, Some(IpAddr::V4(own))) => {
                Some(FourTuple { client: peer, origin: SocketAddrV4::new(own, self.port) })
            }
            _ => None,
        }
    }
}

impl AsyncUdpSocket for CountedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable { socket: self, waits: None })
    }

    fn try_send(&self, transmit: &Transmit) -> io::Result<()> {
        let socket = &self.socket;
        socket.try_io(Interest::WRITABLE, || self.state.send(socket.into(), transmit))?;
        if let Some(four_tuple) = self.four_tuple(transmit.destination, transmit.src_ip) {
            let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
            transmit.contents.chunks(size).for_each(|datagram| self.table.sent(four_tuple, datagram));
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let socket = &self.socket;
        let count = loop {
            ready!(socket.poll_recv_ready(context))?;
            let receive = || self.state.recv(socket.into(), buffers, meta);
            // Other errors are of earlier datagrams (ICMP), and gone with this call.
            if let Ok(count) = socket.try_io(Interest::READABLE, receive) {
                break count;
            }
        };
        if count < meta.len() {
            // It was emptied, and epoll tells of what comes next: no call that returns EAGAIN.
            let _ = socket.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
        for (buffer, meta) in buffers.iter().zip(meta.iter()).take(count) {
            if let Some(four_tuple) = self.four_tuple(meta.addr, meta.dst_ip) {
                let datagrams = buffer[..meta.len].chunks(meta.stride.max(1));
                datagrams.for_each(|datagram| self.table.received(four_tuple, datagram));
            }
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

/// Waits until a socket takes datagrams again.
struct Writable {
    socket: Arc<CountedSocket>,
    waits: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>>,
}

impl UdpPoller for Writable {
    fn poll_writable(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        let socket = self.socket.clone();
        let waits = self.waits.get_or_insert_with(|| Box::pin(async move { socket.socket.writable().await }));
        let outcome = ready!(waits.as_mut().poll(context));
        self.waits = None;
        Poll::Ready(outcome)
    }
}

impl Debug for Writable {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        self.socket.fmt(to)
    }
}

impl Debug for CountedSocket {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "CountedSocket(port {}, {:?})", self.port, self.end)
    }
}
