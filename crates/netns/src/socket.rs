//! Reads and sets socket options that the standard library and tokio lack, for any kind of socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::check;

/// Returns true for a TCP socket over IPv4 or IPv6, and false for other files and for Multipath TCP.
pub fn is_tcp(descriptor: impl AsFd) -> bool {
    protocol(descriptor) == Some(libc::IPPROTO_TCP)
}

/// Returns true for a Multipath TCP socket.
pub fn is_mptcp(descriptor: impl AsFd) -> bool {
    protocol(descriptor) == Some(libc::IPPROTO_MPTCP)
}

/// Returns the protocol of a socket (`SO_PROTOCOL`); `None` for a file that is not a socket.
fn protocol(descriptor: impl AsFd) -> Option<i32> {
    get(&descriptor, libc::SOL_SOCKET, libc::SO_PROTOCOL).ok().map(i32::from_ne_bytes)
}

/// Returns the kernel's ID of a socket (`SO_COOKIE`, unrelated to Fast Open's cookies). Fails with ENOTSOCK
/// if the file is not a socket.
pub fn cookie(socket: impl AsFd) -> io::Result<u64> {
    get(&socket, libc::SOL_SOCKET, libc::SO_COOKIE).map(u64::from_ne_bytes)
}

/// Returns the ID of a socket's network namespace (`SO_NETNS_COOKIE`); 0 before Linux 5.14.
pub fn namespace_cookie(socket: impl AsFd) -> u64 {
    get(&socket, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE).map_or(0, u64::from_ne_bytes)
}

/// Reads a socket option of at most `N` bytes (getsockopt(2)). Bytes that the kernel does not fill are 0.
pub(crate) fn get<const N: usize>(socket: &impl AsFd, level: i32, name: i32) -> io::Result<[u8; N]> {
    let mut value = [0; N];
    let mut length = N as libc::socklen_t;
    let (descriptor, to) = (socket.as_fd().as_raw_fd(), value.as_mut_ptr().cast());
    // SAFETY: the kernel writes at most `length` bytes to `value`.
    check(unsafe { libc::getsockopt(descriptor, level, name, to, &raw mut length) })?;
    Ok(value)
}

pub(crate) fn set<T>(socket: &impl AsFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let (descriptor, length) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads the value, whose size is given, during the call.
    check(unsafe { libc::setsockopt(descriptor, level, name, (&raw const *value).cast(), length) }).map(drop)
}
