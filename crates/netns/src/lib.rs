//! The kernel's odd corners, behind safe functions: namespaces, netlink, packet sockets, socket options, counters.
//!
//! With `fastopen-intercept` the only crate of the project with `unsafe` in it. Each module is one corner; nothing here knows
//! of pages or loads.
#![allow(unsafe_code)]

pub mod clock;
pub mod counters;
pub mod init;
pub mod namespace;
mod netlink;
pub mod packet;
pub mod poll;
pub mod process;
pub mod qdisc;
pub mod route;
pub mod sysctl;
pub mod tcp;
pub mod tcp_metrics;
pub mod udp;

use std::io;

/// What this crate could not do, and on which object.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub struct Error {
    /// What was being done, with the object's name.
    pub doing: String,
    /// What the kernel said.
    pub source: io::Error,
}

/// Result of an operation on the kernel.
pub type Result<T> = std::result::Result<T, Error>;

/// Says of an I/O error what was being done.
pub(crate) trait Doing<T> {
    /// Wraps the error with the text that `doing` makes.
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error { doing: doing(), source: error.into() })
    }
}

/// Turns a C return value into a result: negative means `errno`.
pub(crate) fn check(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
