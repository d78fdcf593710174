//! Why a job could not be done: whose fault it is, what was wrong, and what to do about it.

use std::fmt::Display;
use std::io;

use fastopen_netns::{Errno, Operation, sysctl};
use fastopen_replay::tls;

use crate::contract::{Fault, Record};

/// How to allow namespaces to ordinary users.
const ALLOW_NAMESPACES: &str = "as root: sysctl -w user.max_user_namespaces=15000 \
    user.max_net_namespaces=15000; on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0; on old \
    Debian kernels kernel.unprivileged_userns_clone=1; in a container, allow unshare in its seccomp profile";

/// Why a job could not be done.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Who is at fault.
    pub fault: Fault,
    /// What was wrong, and where.
    pub message: String,
    /// What to do about it; may be empty.
    pub remedy: String,
}

impl Failure {
    /// A failure without a remedy.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), remedy: String::new() }
    }

    /// Returns the record of this failure of a job; None: the program failed before the first job.
    pub fn record(&self, job: Option<String>) -> Record {
        let Self { fault, message, remedy } = self.clone();
        Record::Error { job, fault, message, remedy }
    }

    /// A name that this kernel does not know; `kernel.modprobe` is there where it has modules to load.
    fn unknown_congestion_control(name: &str) -> Self {
        let known = sysctl::get("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
        let known = known.split_whitespace().collect::<Vec<_>>().join(", ");
        let load = match sysctl::get("kernel.modprobe") {
            Ok(_) => format!("; as root, modprobe tcp_{name} may load it"),
            Err(_) => String::new(),
        };
        let message = format!("this kernel has no congestion control {name}");
        Self { fault: Fault::Input, message, remedy: format!("it has {known}{load}") }
    }
}

/// Makes any error a [`Failure`].
pub trait Blame<T> {
    /// Adds who is at fault and what was being done.
    ///
    /// # Errors
    /// The failure.
    fn blame(self, fault: Fault, doing: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> Blame<T> for Result<T, E> {
    fn blame(self, fault: Fault, doing: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(fault, format!("{doing}: {error}")))
    }
}

/// What to do about an error that any operation may meet.
pub fn remedy_of(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => Some("the limit of processes is reached: end some, or raise it (ulimit -u)"),
        Some(Errno::ENOMEM) => Some("there is no memory left: run fewer worlds at once (--jobs)"),
        Some(Errno::EMFILE | Errno::ENFILE) => {
            Some("the limit of open files is reached: raise it (ulimit -n)")
        }
        // A container's /proc/sys: namespaces of its own have settings of their own, which it hides.
        Some(Errno::EROFS) => Some(
            "in a container: podman run --security-opt unmask=ALL (docker: systempaths=unconfined), or \
             --engine virtual",
        ),
        _ => None,
    }
}

/// The machine is at fault, but for a name that its kernel does not know; the remedy follows from the
/// operation and its errno.
impl From<fastopen_netns::Error> for Failure {
    fn from(error: fastopen_netns::Error) -> Self {
        let (message, remedy) = match (&error.operation, error.errno()) {
            (
                Operation::EnterSandbox,
                Some(Errno::EPERM | Errno::EACCES | Errno::ENOSPC | Errno::EUSERS | Errno::ENOSYS),
            ) => (error.to_string(), ALLOW_NAMESPACES.to_owned()),
            (Operation::AddQdisc { kind, .. }, Some(Errno::ENOENT)) => (
                format!("this kernel has no {kind}, which a link of its own or an upstream RTT needs"),
                format!(
                    "load it as root (modprobe sch_{kind}), or do without (--link program, no --upstream-rtt)"
                ),
            ),
            (Operation::AddRoute { congestion_control: Some(name), .. }, Some(Errno::EINVAL)) => {
                return Self::unknown_congestion_control(name);
            }
            _ => (error.to_string(), remedy_of(&error.source).unwrap_or_default().to_owned()),
        };
        Self { fault: Fault::Machine, message, remedy }
    }
}

impl From<tls::Error> for Failure {
    fn from(error: tls::Error) -> Self {
        Self::new(Fault::Internal, error.to_string())
    }
}
