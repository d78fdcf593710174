//! Datagrams with the kernel's receive timestamps.

use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;

/// A datagram socket with receive timestamps.
pub struct StampedSocket(UdpSocket);

impl StampedSocket {
    /// Enables timestamps (`SO_TIMESTAMPNS`).
    ///
    /// # Errors
    /// As `setsockopt`.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        Ok(Self(socket))
    }

    /// Receives one datagram. Returns its length and its timestamp, in nanoseconds since 1970.
    ///
    /// # Errors
    /// As `recvmsg`, or where a datagram has no timestamp.
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

/// Sets the receive buffer of a socket beyond `net.core.rmem_max` (`SO_RCVBUFFORCE`).
///
/// # Errors
/// As `setsockopt`: without `CAP_NET_ADMIN` in the first user namespace.
pub fn force_receive_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    Ok(setsockopt(socket, nix::sys::socket::sockopt::RcvBufForce, &bytes)?)
}

/// Has the kernel hand out each datagram by itself (`UDP_GRO`).
///
/// # Errors
/// As `setsockopt`.
pub fn disable_receive_offload(socket: &UdpSocket) -> io::Result<()> {
    Ok(setsockopt(socket, nix::sys::socket::sockopt::UdpGroSegment, &false)?)
}
