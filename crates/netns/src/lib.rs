//! Kernel interfaces behind safe functions: namespaces, netlink, packet sockets, socket options, counters.
//!
//! With `fastopen-intercept` the only crate of the project with `unsafe` in it. Nothing here knows of pages
//! or loads.
#![allow(unsafe_code)]

pub mod bpf;
pub mod clock;
pub mod cores;
pub mod counters;
pub mod init;
pub mod namespace;
mod netlink;
pub mod packet;
pub mod poll;
pub mod process;
pub mod qdisc;
pub mod route;
pub mod sandbox;
pub mod sock_diag;
pub mod socket;
pub mod sysctl;
pub mod system_calls;
pub mod tcp;
pub mod tcp_metrics;
pub mod udp;

use std::io;
use std::net::Ipv4Addr;

pub use nix::errno::Errno;

/// An operation that the kernel refused, and why.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {source}")]
pub struct Error {
    /// What was tried, on which object.
    pub operation: Operation,
    /// The kernel's error.
    pub source: io::Error,
}

impl Error {
    /// An error of an [`Operation::Other`].
    pub fn other(operation: impl Into<String>, source: io::Error) -> Self {
        Self { operation: Operation::Other(operation.into()), source }
    }

    /// The kernel's error number; None where the error is not the kernel's.
    pub fn errno(&self) -> Option<Errno> {
        self.source.raw_os_error().map(Errno::from_raw)
    }
}

/// What was tried. Variants of their own have those whose errors callers match on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Operation {
    /// [`namespace::enter_sandbox`].
    #[error("making user, mount, network and PID namespaces")]
    EnterSandbox,
    /// [`route::RouteSocket::replace_route`].
    #[error("adding the route to {}/{}", destination.0, destination.1)]
    AddRoute {
        /// Network and length of its prefix, in bits.
        destination: (Ipv4Addr, u8),
        /// The route's congestion control, where it has one.
        congestion_control: Option<String>,
    },
    /// [`route::RouteSocket::add_qdiscs`].
    #[error("putting {kind} on {interface}")]
    AddQdisc {
        /// Its kind, as `netem`.
        kind: &'static str,
        /// On which interface.
        interface: String,
    },
    /// Any other operation, in words.
    #[error("{0}")]
    Other(String),
}

/// Result of an operation on the kernel.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds the operation to an I/O error.
pub(crate) trait Doing<T>: Sized {
    /// Adds the operation that `operation` makes.
    fn operation(self, operation: impl FnOnce() -> Operation) -> Result<T>;

    /// Adds an [`Operation::Other`] of these words.
    fn doing(self, words: impl FnOnce() -> String) -> Result<T> {
        self.operation(|| Operation::Other(words()))
    }
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn operation(self, operation: impl FnOnce() -> Operation) -> Result<T> {
        self.map_err(|error| Error { operation: operation(), source: error.into() })
    }
}

/// The result of a system call: `errno` where it returned a negative value.
pub(crate) fn check(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
