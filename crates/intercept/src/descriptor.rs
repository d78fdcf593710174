//! Binds the sockets of other processes, and converts addresses from and to the format of system calls.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::{ptr, slice};

use socket2::{SockAddr, SockRef};

/// Binds a socket to `port` of the unspecified address (`0.0.0.0`, or `::` if `peer` is an IPv6 address), to
/// connect it to `peer` later. If `port` is `None`, the kernel chooses the port.
pub(crate) fn bind(socket: impl AsFd, peer: IpAddr, port: Option<u16>) -> io::Result<()> {
    let socket = SockRef::from(&socket);
    if port.is_some() {
        // A socket of an earlier load may be bound to the same port on another address.
        socket.set_reuse_address(true)?;
    }
    let any = match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    socket.bind(&SocketAddr::new(any, port.unwrap_or(0)).into())
}

/// Reads a `sockaddr_in` or `sockaddr_in6`; `None` if the bytes are incomplete or of another address family.
pub(crate) fn address(bytes: &[u8]) -> Option<SocketAddr> {
    // SAFETY: the bytes fit into the storage, whose rest is 0.
    let read = unsafe {
        SockAddr::try_init(|storage, length| {
            *length = bytes.len().min(*length as usize) as libc::socklen_t;
            ptr::copy_nonoverlapping(bytes.as_ptr(), storage.cast(), *length as usize);
            Ok(())
        })
    };
    let address = read.ok()?.1.as_socket()?;
    // Very old programs omit `sin6_scope_id`, which RFC 2133 does not have: 24 bytes are enough for IPv6.
    (bytes.len() >= if address.is_ipv4() { 8 } else { 24 }).then_some(address)
}

/// Returns an address in the format of `getpeername`: the inverse of [`address`].
pub(crate) fn name(address: SocketAddr) -> Vec<u8> {
    let name = SockAddr::from(address);
    // SAFETY: the structure has this many bytes.
    unsafe { slice::from_raw_parts(name.as_ptr().cast::<u8>(), name.len() as usize) }.to_vec()
}

#[cfg(test)]
#[path = "../tests/unit/descriptor.rs"]
mod tests;
