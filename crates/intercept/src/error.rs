//! Defines the errors of running a command with intercepted system calls, with remedies and exit codes.

use std::io;

use fastopen_netns::Errno;

/// The reason why a command could not be run with intercepted system calls.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Error {
    #[error("net.ipv4.tcp_fastopen is {0}: TCP Fast Open is off on this machine")]
    FastOpenOff(u32),
    #[error("seccomp user notification: {reason} ({0})", reason = seccomp_advice(.0).0)]
    Seccomp(io::Error),
    #[error("{0}: no such command")]
    NoSuchCommand(String),
    #[error("{0}: {1}")]
    Spawn(String, io::Error),
    /// The kernel refused another operation that is necessary to intercept the command's system calls.
    #[error(transparent)]
    Kernel(#[from] fastopen_netns::Error),
}

impl Error {
    /// Returns a remedy to print after the message; empty if there is none.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::FastOpenOff(_) => "as root: sysctl -w net.ipv4.tcp_fastopen=3",
            Self::Seccomp(error) => seccomp_advice(error).1,
            _ => "",
        }
    }

    /// Returns the exit code: 127 (no such command) or 126 (it cannot be run), like `env`; otherwise 3.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NoSuchCommand(_) => 127,
            Self::Spawn(..) => 126,
            _ => 3,
        }
    }

    pub(crate) fn kernel<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> Self {
        move |error| fastopen_netns::Error::other(operation, error.into()).into()
    }
}

/// Returns the reason why the seccomp filter could not be installed, and a remedy (empty if none is known).
fn seccomp_advice(error: &io::Error) -> (&'static str, &'static str) {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EBUSY) => (
            "there is a listener already",
            "run it outside of fastopen exec, and of containers whose engine has a listener",
        ),
        Some(Errno::EINVAL | Errno::ENOSYS) => ("this kernel lacks it", "use Linux 5.9 or newer"),
        _ => ("the kernel refuses it", ""),
    }
}
