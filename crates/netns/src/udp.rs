//! Opens UDP sockets with the kernel's receive timestamps, or with large buffers for QUIC.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A UDP socket that gets the kernel's receive time with each datagram.
pub struct StampedSocket(UdpSocket);

impl StampedSocket {
    /// Wraps a UDP socket, and makes the kernel timestamp each received datagram (`SO_TIMESTAMPNS`).
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        Ok(Self(socket))
    }

    /// Receives one datagram. Returns its length and its receive time in nanoseconds since 1970.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, u64)> {
        let mut control = nix::cmsg_space!(TimeSpec);
        let mut slices = [IoSliceMut::new(buffer)];
        let message = recvmsg::<()>(self.0.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::empty())?;
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(time) => {
                Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
            }
            _ => None,
        });
        Ok((message.bytes, stamp.ok_or_else(|| io::Error::other("the kernel gave no time stamp"))?))
    }
}

/// Binds a UDP socket to `local` (port 0: the kernel's choice), and connects it to `peer` if given. Requests
/// kernel buffers of `buffer_bytes`, which the system may limit (`net.core.rmem_max`, `wmem_max`). Registers
/// the socket with tokio for reading only: otherwise epoll would report room to send after each datagram.
/// Call this inside a tokio runtime.
pub fn bind(
    local: SocketAddr,
    peer: Option<SocketAddr>,
    buffer_bytes: usize,
) -> io::Result<AsyncFd<UdpSocket>> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM.nonblocking(), None)?;
    if local.is_ipv6() {
        // A world with both versions of IP has one socket for each version.
        socket.set_only_v6(true)?;
    }
    socket.bind(&local.into())?;
    let socket = UdpSocket::from(socket);
    // SO_RCVBUFFORCE only works for the machine's root user, such as in a kernel of the virtual engine.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &buffer_bytes)
        .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &buffer_bytes));
    let _ = setsockopt(&socket, sockopt::SndBuf, &buffer_bytes);
    peer.map_or(Ok(()), |peer| socket.connect(peer))?;
    // SAFETY: the AsyncFd owns the socket, whose descriptor stays open and unchanged while it lives.
    let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

/// Makes the kernel deliver each datagram separately, even if several arrived together (disables `UDP_GRO`).
pub fn receive_one_by_one(socket: &UdpSocket) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::UdpGroSegment, &false)?)
}
