//! Wraps kernel interfaces in safe functions: namespaces, netlink, packet sockets, socket options, counters.
//!
//! This crate uses no other crate of the project. Only it and `fastopen-intercept` have `unsafe` code.
#![allow(unsafe_code)]

pub mod actor;
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
#[cfg(target_arch = "x86_64")]
mod system_calls;
pub mod tcp;
pub mod tcp_metrics;
pub mod udp;

use std::io;
use std::net::IpAddr;

pub use nix::errno::Errno;

/// An operation that the kernel refused, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {source}")]
pub struct Error {
    /// The operation that failed, and its target.
    pub operation: Operation,
    /// The kernel's error.
    pub source: io::Error,
}

impl Error {
    /// Creates an error with an [`Operation::Other`]. `operation` describes the failed operation in words.
    pub fn other(operation: impl Into<String>, source: io::Error) -> Self {
        Self { operation: Operation::Other(operation.into()), source }
    }

    /// Returns the kernel's error number; None if the error does not come from the kernel.
    pub fn errno(&self) -> Option<Errno> {
        self.source.raw_os_error().map(Errno::from_raw)
    }
}

/// An operation that can fail. Operations whose errors callers distinguish have their own variants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Operation {
    /// Creating the namespaces of a sandbox ([`namespace::enter_sandbox`]).
    #[error("making user, mount, network and PID namespaces")]
    EnterSandbox,
    /// Adding or replacing a route ([`route::RouteSocket::replace_route`]).
    #[error("adding the route to {}/{}", destination.0, destination.1)]
    AddRoute {
        /// Network address and prefix length in bits.
        destination: (IpAddr, u8),
        /// Congestion control algorithm that the route sets, if any.
        congestion_control: Option<String>,
    },
    /// Installing a queueing discipline ([`route::RouteSocket::add_qdiscs`]).
    #[error("putting {kind} on {interface}")]
    AddQdisc {
        /// Kind of the queueing discipline, such as `netem`.
        kind: &'static str,
        /// Interface on which to install the discipline.
        interface: String,
    },
    /// Any other operation, described in words.
    #[error("{0}")]
    Other(String),
}

/// Result of an operation on the kernel.
pub type Result<T> = std::result::Result<T, Error>;

/// Converts the errors of a `Result` into [`Error`]s that name the failed operation.
pub(crate) trait Doing<T>: Sized {
    fn operation(self, operation: impl FnOnce() -> Operation) -> Result<T>;

    fn doing(self, words: impl FnOnce() -> String) -> Result<T> {
        self.operation(|| Operation::Other(words()))
    }
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn operation(self, operation: impl FnOnce() -> Operation) -> Result<T> {
        self.map_err(|error| Error { operation: operation(), source: error.into() })
    }
}

pub(crate) fn check(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
