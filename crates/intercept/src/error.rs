//! Why a command could not be run under interception, what to do about it, and the exit code that goes with
//! it.

use std::io;

use fastopen_netns::Errno;

/// Why a command could not be run under interception.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine's sysctl allows Fast Open neither to clients nor to servers.
    #[error("net.ipv4.tcp_fastopen is {0}: TCP Fast Open is off on this machine")]
    FastOpenOff(u32),
    /// The seccomp filter could not be installed.
    #[error("seccomp user notification: {reason} ({0})", reason = seccomp_advice(.0).0)]
    Seccomp(io::Error),
    /// There is no such command.
    #[error("{0}: no such command")]
    NoSuchCommand(String),
    /// The command, named first, could not be started (`execve`).
    #[error("{0}: {1}")]
    Spawn(String, io::Error),
    /// The kernel refused an operation of the supervisor.
    #[error(transparent)]
    Kernel(#[from] fastopen_netns::Error),
}

impl Error {
    /// What to do about it; may be empty.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::FastOpenOff(_) => "as root: sysctl -w net.ipv4.tcp_fastopen=3",
            Self::Seccomp(error) => seccomp_advice(error).1,
            _ => "",
        }
    }

    /// The exit code: as `env`, 127 where there is no such command and 126 where it cannot be run; 3 for all
    /// else.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NoSuchCommand(_) => 127,
            Self::Spawn(..) => 126,
            _ => 3,
        }
    }

    /// For `map_err`: an [`Error::Kernel`] of this operation.
    pub(crate) fn kernel<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> Self {
        move |error| fastopen_netns::Error::other(operation, error.into()).into()
    }

    /// An error of `execve` of this command.
    pub(crate) fn spawn(command: String, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NoSuchCommand(command),
            _ => Self::Spawn(command, error),
        }
    }
}

/// The reason and the remedy.
fn seccomp_advice(error: &io::Error) -> (&'static str, &'static str) {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EBUSY) => {
            ("there is a listener already", "not inside another fastopen exec, or a container engine's")
        }
        Some(Errno::EINVAL | Errno::ENOSYS) => ("this kernel has none", "Linux 5.9 or newer is needed"),
        _ => ("the kernel refuses", ""),
    }
}
