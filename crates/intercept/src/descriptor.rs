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
    // The oldest programs omit the scope of IPv6 (RFC 2133).
    (bytes.len() >= if address.is_ipv4() { 8 } else { 24 }).then_some(address)
}

/// Returns an address in the format of `getpeername`: the inverse of [`address`].
pub(crate) fn name(address: SocketAddr) -> Vec<u8> {
    let name = SockAddr::from(address);
    // SAFETY: the structure has this many bytes.
    unsafe { slice::from_raw_parts(name.as_ptr().cast::<u8>(), name.len() as usize) }.to_vec()
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
