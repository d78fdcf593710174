//! TCP Fast Open for any program: its `connect`, `listen` and `getpeername` calls are held (seccomp user
//! notification), the socket is fetched (`pidfd_getfd`), the option set, and the call resumed. Evidence is
//! each socket's `TCP_INFO`.
//!
//! With `fastopen-netns` the only crate with `unsafe` in it. See docs/real-network.md and
//! docs/decisions/interception.md.
#![allow(unsafe_code)]

mod command;
mod deferred;
mod descriptor;
mod error;
mod filter;
mod listener;
mod report;
mod supervisor;
mod tally;
mod task;
mod watch;

pub use command::{Invocation, adopt, run, run_here};
pub use error::Error;
pub use report::{Record, Report, Traffic, write_line};
pub use supervisor::Opened;
pub use tally::Tally;
pub use watch::{Started, Watch};
