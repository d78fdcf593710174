//! Why a command could not be run under interception, what to do about it, and the exit code that goes with
//! it.

use std::io;

use nix::errno::Errno;

/// Why a command could not be run under interception.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine's sysctl allows Fast Open neither to clients nor to servers.
    #[error("net.ipv4.tcp_fastopen is {0}: TCP Fast Open is off on this machine")]
    FastOpenOff(u32),
    /// The seccomp filter could not be installed.
    #[error("seccomp user notification: {reason} ({0})", reason = seccomp_reason(.0))]
    Seccomp(io::Error),
    /// There is no such command.
    #[error("{0}: no such command")]
    NoSuchCommand(String),
    /// The command could not be started.
    #[error("{command}: {source}")]
    Spawn {
        /// Its name.
        command: String,
        /// As `execve`.
        source: io::Error,
    },
    /// An operation of the supervisor failed.
    #[error("{operation}: {source}")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// As the kernel says.
        source: io::Error,
    },
    /// As above, in `fastopen-netns`.
    #[error(transparent)]
    Netns(#[from] fastopen_netns::Error),
}

impl Error {
    /// What to do about it; may be empty.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::FastOpenOff(_) => "as root: sysctl -w net.ipv4.tcp_fastopen=3",
            Self::Seccomp(error) => match errno(error) {
                Errno::EBUSY => "not inside another fastopen exec, or a container engine's",
                Errno::EINVAL | Errno::ENOSYS => "Linux 5.9 or newer is needed",
                _ => "",
            },
            _ => "",
        }
    }

    /// The exit code: as `env`, 127 where there is no such command and 126 where it cannot be run; 3 for all
    /// else.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NoSuchCommand(_) => 127,
            Self::Spawn { .. } => 126,
            _ => 3,
        }
    }

    /// For `map_err`: an [`Error::Io`] of this operation.
    pub(crate) fn io<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::Io { operation, source: error.into() }
    }

    /// An error of `execve` of this command.
    pub(crate) fn spawn(command: String, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound {
            Self::NoSuchCommand(command)
        } else {
            Self::Spawn { command, source }
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

fn seccomp_reason(error: &io::Error) -> &'static str {
    match errno(error) {
        Errno::EBUSY => "there is a listener already",
        Errno::EINVAL | Errno::ENOSYS => "this kernel has none",
        _ => "the kernel refuses",
    }
}
