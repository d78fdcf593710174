//! What is done to fetched sockets, and their addresses as system calls pass them.

use std::io;
use std::mem;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{MsgFlags, SockaddrIn, SockaddrStorage, send, sockopt};

/// Sends the SYN of a connection that waits for its first write, with the cookie and without data.
pub(crate) fn begin_handshake(socket: impl AsFd) {
    // Returns EINPROGRESS.
    let _ = send(socket.as_fd().as_raw_fd(), &[], MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
}

/// Whether `getpeername` succeeds, as on an established connection.
pub(crate) fn has_peer(socket: impl AsFd) -> bool {
    nix::sys::socket::getpeername::<()>(socket.as_fd().as_raw_fd()).is_ok()
}

/// The address that the socket is bound to; none where it is not bound, or not to IPv4 or IPv6.
pub(crate) fn local(socket: impl AsFd) -> Option<SocketAddr> {
    let name = nix::sys::socket::getsockname::<SockaddrStorage>(socket.as_fd().as_raw_fd()).ok()?;
    let v4 = name.as_sockaddr_in().map(|name| SocketAddr::V4((*name).into()));
    v4.or_else(|| name.as_sockaddr_in6().map(|name| SocketAddr::V6((*name).into())))
        .filter(|address| address.port() != 0)
}

/// Binds an IPv4 socket to a port (none: a free one of the kernel's choice).
pub(crate) fn bind(socket: impl AsFd, port: Option<u16>) -> io::Result<()> {
    let socket = socket.as_fd();
    if port.is_some() {
        // An earlier load's socket may be bound to the port, on another address.
        nix::sys::socket::setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    }
    let address = SockaddrIn::new(0, 0, 0, 0, port.unwrap_or(0));
    Ok(nix::sys::socket::bind(socket.as_raw_fd(), &address)?)
}

/// Reads a `sockaddr_in` or `sockaddr_in6`. None: of another family, or too short.
pub(crate) fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        libc::AF_INET => {
            let ip = <[u8; 4]>::try_from(bytes.get(4..8)?).ok()?;
            Some(SocketAddr::new(ip.into(), port))
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?);
            let flow = u32::from_ne_bytes(bytes[4..8].try_into().ok()?);
            // Left out by the oldest programs (RFC 2133).
            let scope = bytes
                .get(24..28)
                .map_or(0, |scope| u32::from_ne_bytes([scope[0], scope[1], scope[2], scope[3]]));
            Some(SocketAddrV6::new(ip, port, flow, scope).into())
        }
        _ => None,
    }
}

/// Writes an address as `getpeername` does; the inverse of [`address`].
pub(crate) fn name(address: SocketAddr) -> Vec<u8> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut bytes = (family as u16).to_ne_bytes().to_vec();
    bytes.extend(address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes.extend(v4.ip().octets());
            bytes.resize(mem::size_of::<libc::sockaddr_in>(), 0);
        }
        SocketAddr::V6(v6) => {
            bytes.extend(v6.flowinfo().to_ne_bytes());
            bytes.extend(v6.ip().octets());
            bytes.extend(v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_programs_write_them() {
        let family = |number: i32| (number as u16).to_ne_bytes().to_vec();
        let v4 = [family(libc::AF_INET), vec![0, 80, 192, 0, 2, 1], vec![0; 8]].concat();
        let mut last = vec![0; 16];
        last[15] = 1;
        let v6 = [family(libc::AF_INET6), vec![1, 187], vec![0; 4], last, vec![0; 4]].concat();
        assert_eq!(address(&v4), Some("192.0.2.1:80".parse().expect("it is one")));
        assert_eq!(address(&v6), Some("[::1]:443".parse().expect("it is one")));
        for bytes in [v4, v6.clone()] {
            assert_eq!(address(&bytes).map(name), Some(bytes));
        }
        for odd in [family(libc::AF_UNSPEC), family(libc::AF_INET), v6[..20].to_vec(), vec![2]] {
            assert_eq!(address(&odd), None, "{odd:?}");
        }
    }
}
