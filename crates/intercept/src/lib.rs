//! TCP Fast Open for any program: its `connect`, `listen` and `getpeername` calls are held (seccomp user notification), the
//! socket is fetched (`pidfd_getfd`), the option set, and the call goes on. What the kernel then did is read per socket.
//!
//! Beside `fastopen-netns` the only crate with `unsafe` in it. See docs/exec.md and docs/decisions/interception.md.
#![allow(unsafe_code)]

mod command;
mod descriptor;
mod diag;
mod filter;
mod listener;
mod report;
mod supervisor;
mod tally;
mod task;
mod waiting;
mod watch;

pub use command::{adopt, run, run_here};
pub use report::{Record, Report, Traffic};
pub use supervisor::Opened;
pub use tally::Tally;
pub use watch::{Started, Watch};

/// Why a command could not be run under interception.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it; may be empty.
    pub remedy: String,
    /// The exit code that goes with it: 127 no such command, 126 it cannot be run, 3 this machine cannot do it.
    pub code: i32,
}

impl Failure {
    /// What this machine does not let us do.
    pub(crate) fn machine(doing: &str, error: &dyn std::fmt::Display) -> Self {
        Self { message: format!("{doing}: {error}"), remedy: String::new(), code: 3 }
    }
}
