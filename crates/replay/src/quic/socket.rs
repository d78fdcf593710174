//! A UDP socket for quinn, without offloads, that counts QUIC packets.

use std::fmt::{self, Debug, Formatter};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fastopen_link::ip;
use fastopen_netns::udp::{BatchSocket, Leaving, Received};
use quinn::udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use super::reactor;
use super::table::QuicTable;
use crate::sockets::FourTuple;

/// Socket buffer size to request, in bytes. TCP's buffers grow with its windows, UDP's do not.
const BUFFER_BYTES: usize = 8 << 20;

pub(super) struct CountedSocket {
    socket: Arc<BatchSocket>,
    /// Set for a client's connection.
    origin: Option<SocketAddr>,
    /// The [`reactor::turn`] at its creation.
    turn: u64,
    table: Arc<QuicTable>,
}

impl CountedSocket {
    /// Creates a socket of the origins at `local`, whose address is the unspecified one. Call it inside a
    /// [`reactor::Runtime`].
    ///
    /// # Errors
    /// Returns an error without a runtime, or if the port cannot be bound.
    pub(super) fn bound(local: SocketAddr, table: Arc<QuicTable>) -> io::Result<Self> {
        Self::new(local, None, table)
    }

    /// Creates a socket of a client's connection to `origin` from `port`; otherwise like
    /// [`CountedSocket::bound`].
    pub(super) fn connected(port: u16, origin: SocketAddr, table: Arc<QuicTable>) -> io::Result<Self> {
        Self::new(SocketAddr::new(ip::Version::of(origin.ip()).unspecified(), port), Some(origin), table)
    }

    fn new(local: SocketAddr, origin: Option<SocketAddr>, table: Arc<QuicTable>) -> io::Result<Self> {
        if !reactor::is_running() {
            return Err(io::Error::other("a QUIC endpoint needs the runtime that sends its datagrams"));
        }
        let socket = Arc::new(BatchSocket::bind(local, origin, BUFFER_BYTES)?);
        Ok(Self { socket, origin, turn: reactor::turn(), table })
    }

    /// Returns its own address and port.
    pub(super) fn local(&self) -> SocketAddr {
        self.socket.local()
    }

    /// Returns the connection of a datagram to or from `peer`; `own` is the address of this end.
    fn four_tuple(&self, peer: SocketAddr, own: Option<IpAddr>) -> Option<FourTuple> {
        match (self.origin, peer, own) {
            (Some(origin), ..) => Some(FourTuple { client: self.local(), origin }),
            (None, client, Some(own)) => {
                Some(FourTuple { client, origin: SocketAddr::new(own, self.local().port()) })
            }
            (None, _, None) => None,
        }
    }
}

impl AsyncUdpSocket for CountedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Begun(self))
    }

    fn try_send(&self, transmit: &Transmit) -> io::Result<()> {
        let ecn = transmit.ecn.map_or(0, |codepoint| codepoint as u8);
        let leaving = match self.origin {
            None => Leaving { peer: Some(transmit.destination), own: transmit.src_ip, ecn },
            Some(_) => Leaving { peer: None, own: None, ecn },
        };
        let four_tuple = self.four_tuple(transmit.destination, transmit.src_ip);
        let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for datagram in transmit.contents.chunks(size) {
            reactor::send(&self.socket, leaving, datagram);
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
        let mut received = [Received::default(); BATCH_SIZE];
        let most = meta.len().min(BATCH_SIZE);
        let count = ready!(self.socket.poll_receive(context, buffers, &mut received[..most]))?;
        for ((buffer, meta), received) in buffers.iter().zip(meta).zip(received).take(count) {
            *meta = RecvMeta {
                addr: received.peer,
                len: received.length,
                stride: received.length,
                ecn: EcnCodepoint::from_bits(received.ecn),
                dst_ip: received.own,
            };
            if let Some(four_tuple) = self.four_tuple(meta.addr, meta.dst_ip) {
                self.table.received(four_tuple, &buffer[..received.length]);
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

/// Delays the start of a client's connection until all ready tasks have run, so that its first flight holds
/// all early data. After that the socket is always writable: datagrams without room wait in the reactor.
#[derive(Debug)]
struct Begun(Arc<CountedSocket>);

impl UdpPoller for Begun {
    fn poll_writable(self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        if reactor::turn() > self.0.turn {
            return Poll::Ready(Ok(()));
        }
        reactor::wake_before_wait(context.waker());
        Poll::Pending
    }
}

impl Debug for CountedSocket {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "CountedSocket({})", self.local())
    }
}
