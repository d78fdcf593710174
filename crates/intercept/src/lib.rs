//! Enables TCP Fast Open in any program. This crate suspends the program's `connect`, `listen` and
//! `getpeername` calls, and calls that send with `MSG_FASTOPEN` (seccomp user notification). Then it
//! duplicates the socket (`pidfd_getfd`), sets the Fast Open option, and resumes the call. `TCP_INFO` shows
//! the effect.
//!
//! Only this crate and `fastopen-netns` have `unsafe` code. See docs/real-network.md and
//! docs/decisions/interception.md.
#![allow(unsafe_code)]

mod command;
mod descriptor;
mod error;
mod filter;
mod listener;
mod report;
mod supervisor;
mod tally;
mod task;
mod watch;

pub use command::{Invocation, Reaped, adopt, run, run_here};
pub use error::Error;
pub use report::{Record, Report, Traffic, write_line};
pub use supervisor::Opened;
pub use tally::Tally;
pub use watch::{Started, Watch};
