//! Reads `TCP_INFO` of other processes' sockets (`sock_diag`) while they are open, and at their destruction.
//!
//! This needs no privilege. Duplicates of the sockets would also give `TCP_INFO`, but keep the sockets open.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr as Address};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_DUMP, NetlinkBuffer};
use netlink_sys::{Socket, protocols::NETLINK_SOCK_DIAG};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use crate::netlink::{Netlink, payloads};
use crate::socket;
use crate::tcp::{LISTEN, TcpInfo};

/// `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY` of `include/uapi/linux/sock_diag.h`.
const DESTROY_GROUPS: [u32; 2] = [1, 3];
/// `SOCK_DIAG_BY_FAMILY` of `include/uapi/linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `INET_DIAG_INFO` of `include/uapi/linux/inet_diag.h`.
const INET_DIAG_INFO: u16 = 2;
// Size of `struct inet_diag_msg`, and the offsets of its fields, in bytes: ports and addresses of both ends,
// `id.idiag_cookie` and `idiag_inode`.
const MESSAGE_BYTES: usize = 72;
const LOCAL_PORT: usize = 4;
const PEER_PORT: usize = 6;
const LOCAL_ADDRESS: usize = 8;
const PEER_ADDRESS: usize = 24;
const COOKIE: usize = 44;
const INODE: usize = 68;

/// The kernel's report on a TCP socket that is open or has just been destroyed.
pub struct SocketReport {
    /// The kernel's ID of the socket (`SO_COOKIE`).
    pub cookie: u64,
    /// Address of this end. A mapped IPv6 address (RFC 4291 section 2.5.5.2) is converted to IPv4.
    pub local: Address,
    /// Address of the other end; unspecified for a listener.
    pub peer: Address,
    /// Inode number, for finding the socket's processes; 0 if the socket is destroyed or not yet accepted.
    pub inode: u32,
    /// Outcome of the socket's connection.
    pub outcome: Outcome,
}

/// The outcome of a connection, as far as the kernel's counters show it.
#[derive(Debug)]
pub enum Outcome {
    /// The kernel's counters are valid: the connection is open or has ended, or the socket is a listener.
    Known(TcpInfo),
    /// The connection was never established, and the kernel has cleared its counters.
    Failed,
    /// The connection was established, but an abortive close (`SO_LINGER` 0) has cleared its counters.
    /// Callers also use this value if no report of the destroyed socket arrived.
    Unknown,
}

/// Receives a report when a TCP socket of a network namespace is destroyed.
pub struct DestroyEvents {
    socket: Socket,
    buffer: Vec<u8>,
    /// True if reports of destroyed sockets were lost because the receive buffer was full.
    pub overrun: bool,
}

impl DestroyEvents {
    /// Subscribes to reports of destroyed TCP sockets in the calling thread's network namespace.
    pub fn subscribe() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        // Capped by net.core.rmem_max.
        let _ = socket.set_rx_buf_sz(4 << 20);
        for group in DESTROY_GROUPS {
            socket.add_membership(group)?;
        }
        Ok(Self { socket, buffer: vec![0; 32 << 10], overrun: false })
    }

    /// Returns the ID of the network namespace whose sockets are observed.
    pub fn namespace(&self) -> u64 {
        socket::namespace_cookie(&self.socket)
    }

    /// Returns the next report of a destroyed socket without waiting; None if no report has arrived.
    pub fn try_next(&mut self) -> Option<SocketReport> {
        loop {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => {
                    let message = NetlinkBuffer::new_checked(&self.buffer[..length]).ok();
                    if let Some(report) = message.and_then(|message| parse(message.payload())) {
                        return Some(report);
                    }
                }
                Err(Errno::ENOBUFS) => self.overrun = true,
                Err(Errno::EINTR) => {}
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for DestroyEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns all open TCP sockets of this network namespace.
pub fn open_sockets() -> io::Result<Vec<SocketReport>> {
    let mut netlink = Netlink::open(NETLINK_SOCK_DIAG)?;
    let mut reports = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        // `struct inet_diag_req_v2`: family, protocol, attributes in answers; `idiag_states`: all.
        let mut request = [0; 56];
        request[..3].copy_from_slice(&[family as u8, libc::IPPROTO_TCP as u8, 1 << (INET_DIAG_INFO - 1)]);
        request[4..8].fill(0xff);
        let answers = netlink.exchange(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &[request])?;
        reports.extend(answers.iter().filter_map(|answer| parse(&answer.payload)));
    }
    Ok(reports)
}

/// Parses a `struct inet_diag_msg` with its attributes; None if it is truncated or has no `TCP_INFO`.
fn parse(payload: &[u8]) -> Option<SocketReport> {
    let (message, attributes) = payload.split_at_checked(MESSAGE_BYTES)?;
    let cookie = u64::from_ne_bytes(message[COOKIE..COOKIE + 8].try_into().ok()?);
    let inode = u32::from_ne_bytes(message[INODE..INODE + 4].try_into().ok()?);
    let (local, peer) = (end(message, LOCAL_ADDRESS, LOCAL_PORT)?, end(message, PEER_ADDRESS, PEER_PORT)?);
    let info = TcpInfo::from_bytes(payloads(attributes, INET_DIAG_INFO).next()?);
    // A failed connect and an abortive close call tcp_disconnect (net/ipv4/tcp.c), which clears the peer's
    // port and the counters, but not tcpi_rcv_space, which is 0 unless the connection was established.
    let cleared = info.state != LISTEN && info.segments_out == 0 && peer.port() == 0;
    let outcome = match (cleared, info.receive_space) {
        (false, _) => Outcome::Known(info),
        (true, 0) => Outcome::Failed,
        (true, _) => Outcome::Unknown,
    };
    Some(SocketReport { cookie, local, peer, inode, outcome })
}

/// Returns the address and port at these offsets of a `struct inet_diag_msg`.
fn end(message: &[u8], address: usize, port: usize) -> Option<Address> {
    let port = u16::from_be_bytes(*message[port..].first_chunk()?);
    let address = if i32::from(message[0]) == libc::AF_INET {
        IpAddr::from(*message[address..].first_chunk::<4>()?)
    } else {
        Ipv6Addr::from(*message[address..].first_chunk::<16>()?).to_canonical()
    };
    Some(Address::new(address, port))
}
