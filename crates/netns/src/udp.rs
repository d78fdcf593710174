//! Datagrams with the kernel's receive timestamps, and datagrams many at a time.

use std::io::{self, IoSliceMut};
use std::mem;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::task::{Context, Poll, ready};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::check;

/// A datagram socket with receive timestamps.
pub struct StampedSocket(UdpSocket);

impl StampedSocket {
    /// Enables timestamps (`SO_TIMESTAMPNS`).
    ///
    /// # Errors
    /// As `setsockopt`.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
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

/// Received datagrams in one call, at most.
const RECEIVE_BATCH: usize = 16;
/// Sent datagrams in one call, at most.
const SEND_BATCH: usize = 64;

/// Room for the control messages of a datagram: `IP_TOS` and `IP_PKTINFO`. Aligned as `cmsghdr`.
type Control = [u64; 8];

/// What the kernel says of a received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// Its length.
    pub length: usize,
    /// Who sent it.
    pub peer: SocketAddrV4,
    /// To which address of this machine, where the socket asks for it.
    pub own: Option<Ipv4Addr>,
    /// Its ECN codepoint (RFC 3168).
    pub ecn: u8,
}

impl Default for Received {
    fn default() -> Self {
        Self { length: 0, peer: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), own: None, ecn: 0 }
    }
}

/// How a datagram leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// To whom; None for a connected socket.
    pub peer: Option<SocketAddrV4>,
    /// From which address of this machine; None for the one of the route or connection.
    pub own: Option<Ipv4Addr>,
    /// With which ECN codepoint.
    pub ecn: u8,
}

/// A UDP socket of a tokio runtime, without fragmentation, that takes and gives many datagrams in one system
/// call.
#[derive(Debug)]
pub struct BatchSocket {
    /// Registered for readiness to receive alone: epoll would tell of room to send after each datagram that
    /// has left.
    socket: AsyncFd<UdpSocket>,
    local: SocketAddrV4,
}

impl BatchSocket {
    /// A socket of `port` (0: the kernel's choice) of all addresses, that asks for the address of each
    /// datagram; or that talks to `peer` alone. The kernel keeps `buffer_bytes` of what waits, or what
    /// `net.core.rmem_max` allows. To be called inside the runtime.
    ///
    /// # Errors
    /// As `bind`, `connect` and `setsockopt`.
    pub fn bind(port: u16, peer: Option<SocketAddrV4>, buffer_bytes: usize) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
        socket.set_nonblocking(true)?;
        // SO_RCVBUFFORCE, for the root of the machine: that is a virtual engine's.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &buffer_bytes)
            .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &buffer_bytes));
        let _ = setsockopt(&socket, sockopt::SndBuf, &buffer_bytes);
        setsockopt(&socket, sockopt::IpRecvTos, &true)?;
        let probe = libc::IP_PMTUDISC_PROBE;
        // SAFETY: the option's value is an int, which lives until the call ends.
        check(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                (&raw const probe).cast(),
                size_of_val(&probe) as libc::socklen_t,
            )
        })?;
        match peer {
            Some(peer) => socket.connect(peer)?,
            None => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
        }
        let SocketAddr::V4(local) = socket.local_addr()? else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        // SAFETY: the AsyncFd owns the socket, whose descriptor stays the same and open as long as it lives.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
        Ok(Self { socket: socket.map_err(io::Error::from)?, local })
    }

    /// Its own address and port.
    pub fn local(&self) -> SocketAddrV4 {
        self.local
    }

    /// Receives what waits, a datagram in each buffer, as many as there are of `received` at most. Returns
    /// how many.
    ///
    /// # Errors
    /// If the runtime has ended.
    pub fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut],
        received: &mut [Received],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(context))?;
            match self.receive(buffers, received) {
                Ok((count, emptied)) => {
                    if emptied {
                        // epoll tells of what comes next: no call that returns EAGAIN.
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                // Of earlier datagrams (ICMP), and gone with this call.
                Err(_) => {}
            }
        }
    }

    /// Receives what waits. Returns how many datagrams, and whether no more was waiting.
    fn receive(&self, buffers: &mut [IoSliceMut], received: &mut [Received]) -> io::Result<(usize, bool)> {
        let most = buffers.len().min(received.len()).min(RECEIVE_BATCH);
        // SAFETY: zeroed mmsghdr, sockaddr_in and control messages are valid; an `IoSliceMut` is an iovec;
        // the pointers live until the call ends.
        unsafe {
            let mut names: [libc::sockaddr_in; RECEIVE_BATCH] = mem::zeroed();
            let mut controls: [Control; RECEIVE_BATCH] = mem::zeroed();
            let mut messages: [libc::mmsghdr; RECEIVE_BATCH] = mem::zeroed();
            for number in 0..most {
                let header = &mut messages[number].msg_hdr;
                header.msg_name = (&raw mut names[number]).cast();
                header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
                header.msg_iov = (&raw mut buffers[number]).cast();
                header.msg_iovlen = 1;
                header.msg_control = (&raw mut controls[number]).cast();
                header.msg_controllen = size_of::<Control>() as _;
            }
            let count = check(libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                most as u32,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            ))? as usize;
            for number in 0..count {
                let (own, ecn) = control_messages(&messages[number].msg_hdr);
                received[number] = Received {
                    length: (messages[number].msg_len as usize).min(buffers[number].len()),
                    peer: peer_of(&names[number]),
                    own,
                    ecn,
                };
            }
            Ok((count, count < most))
        }
    }

    /// Sends datagrams that leave alike, in order. Returns how many left.
    ///
    /// # Errors
    /// What the kernel says of the first.
    pub fn send(&self, leaving: Leaving, datagrams: &[&[u8]]) -> io::Result<usize> {
        let most = datagrams.len().min(SEND_BATCH);
        // SAFETY: zeroed mmsghdr, sockaddr_in, iovec and control messages are valid; the pointers live until
        // the call ends.
        unsafe {
            let mut name: libc::sockaddr_in = mem::zeroed();
            let mut control: Control = mem::zeroed();
            let control_bytes = write_control_messages(leaving, &mut control);
            if let Some(peer) = leaving.peer {
                name.sin_family = libc::AF_INET as libc::sa_family_t;
                name.sin_port = peer.port().to_be();
                name.sin_addr.s_addr = u32::from_ne_bytes(peer.ip().octets());
            }
            let mut vectors: [libc::iovec; SEND_BATCH] = mem::zeroed();
            let mut messages: [libc::mmsghdr; SEND_BATCH] = mem::zeroed();
            for (number, datagram) in datagrams.iter().take(most).enumerate() {
                vectors[number] =
                    libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
                let header = &mut messages[number].msg_hdr;
                header.msg_iov = &raw mut vectors[number];
                header.msg_iovlen = 1;
                if leaving.peer.is_some() {
                    header.msg_name = (&raw mut name).cast();
                    header.msg_namelen = size_of_val(&name) as libc::socklen_t;
                }
                if control_bytes > 0 {
                    header.msg_control = (&raw mut control).cast();
                    header.msg_controllen = control_bytes as _;
                }
            }
            let count = check(libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                most as u32,
                libc::MSG_DONTWAIT as _,
            ))?;
            Ok(count as usize)
        }
    }
}

fn peer_of(name: &libc::sockaddr_in) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes()), u16::from_be(name.sin_port))
}

/// The address to which a datagram was sent, and its ECN codepoint.
///
/// # Safety
/// The header is one that `recvmmsg` has filled.
unsafe fn control_messages(header: &libc::msghdr) -> (Option<Ipv4Addr>, u8) {
    let (mut own, mut ecn) = (None, 0);
    // SAFETY: the kernel has written whole control messages, and the length of them all.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(&libc::cmsghdr { cmsg_level, cmsg_type, .. }) = message.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (cmsg_level, cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => ecn = *data & 0b11,
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    own = Some(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    (own, ecn)
}

/// Writes the control messages of a datagram that leaves so. Returns their length.
fn write_control_messages(leaving: Leaving, control: &mut Control) -> usize {
    let mut used = 0;
    let mut push = |kind: libc::c_int, data: &[u8]| {
        let free = &mut control[used / size_of::<u64>()..];
        // SAFETY: both messages together have 56 of the 64 bytes, and CMSG_SPACE is a multiple of a word.
        unsafe {
            let message = free.as_mut_ptr().cast::<libc::cmsghdr>();
            (*message).cmsg_level = libc::IPPROTO_IP;
            (*message).cmsg_type = kind;
            (*message).cmsg_len = libc::CMSG_LEN(data.len() as u32) as _;
            ptr::copy_nonoverlapping(data.as_ptr(), libc::CMSG_DATA(message), data.len());
            used += libc::CMSG_SPACE(data.len() as u32) as usize;
        }
    };
    if leaving.ecn != 0 {
        push(libc::IP_TOS, &libc::c_int::from(leaving.ecn).to_ne_bytes());
    }
    if let Some(own) = leaving.own {
        // `struct in_pktinfo`: interface (any), source address, and a destination that is not read.
        let mut info = [0; 12];
        info[4..8].copy_from_slice(&own.octets());
        push(libc::IP_PKTINFO, &info);
    }
    used
}
