//! Defines this program's error type: a message, a remedy, and a fault, which determines the exit code.

use std::any::Any;
use std::fmt::Display;
use std::io;

use fastopen_netns::{Errno, Operation, sysctl};
use fastopen_replay::tls;

use crate::contract::Fault;

const ALLOW_NAMESPACES: &str = "allow them:\n  \
    any Linux: sudo sysctl -w user.max_user_namespaces=15000 user.max_net_namespaces=15000\n  \
    Ubuntu: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0\n  \
    old Debian: sudo sysctl -w kernel.unprivileged_userns_clone=1\n  \
    containers: allow unshare in the seccomp profile";

/// An error that prevents this program from running a job or completing another task.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The job or script that was running; None for a command, and if none was running.
    pub job: Option<String>,
    /// The kind of failure, which determines the exit code.
    pub fault: Fault,
    /// The operation or input that failed, and the problem.
    pub message: String,
    /// What the user can do about the failure; empty if no remedy is known.
    pub remedy: String,
}

impl Failure {
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { job: None, fault, message: message.into(), remedy: String::new() }
    }

    /// Adds what the user can do about the failure.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// Returns the failure for an unavailable congestion control `name`. The remedy lists the available ones.
    fn unknown_congestion_control(name: &str) -> Self {
        let known = sysctl::get("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
        let known = known.split_whitespace().collect::<Vec<_>>().join(", ");
        let loads = sysctl::get("kernel.modprobe").is_ok();
        let load = if loads { format!("; as root, modprobe tcp_{name} may load it") } else { String::new() };
        Self::new(Fault::Input, format!("this kernel has no congestion control {name}"))
            .with_remedy(format!("it has {known}{load}"))
    }
}

/// Converts the error of a `Result` to a [`Failure`].
pub trait Blame<T> {
    /// Converts the error to a [`Failure`] with the message `DOING: ERROR`, where `doing` names the failed
    /// operation. For `Fault::Machine`, an [`io::Error`] also gets its remedy from [`remedy_of`], if any.
    fn blame(self, fault: Fault, doing: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display + 'static> Blame<T> for Result<T, E> {
    fn blame(self, fault: Fault, doing: impl Display) -> Result<T, Failure> {
        self.map_err(|error| {
            let of_system = (&error as &dyn Any).downcast_ref().and_then(remedy_of);
            let remedy = of_system.filter(|_| fault == Fault::Machine).unwrap_or_default();
            Failure::new(fault, format!("{doing}: {error}")).with_remedy(remedy)
        })
    }
}

/// Returns the remedy for an error that many system calls can return, such as EMFILE; None for other errors.
pub fn remedy_of(error: &io::Error) -> Option<&'static str> {
    Some(match error.raw_os_error().map(Errno::from_raw)? {
        Errno::EAGAIN => "the limit of processes is reached: end some, or raise the limit (ulimit -u)",
        Errno::ENOMEM => "no memory is left: run fewer worlds in parallel (--jobs)",
        Errno::EMFILE | Errno::ENFILE => "the limit of open files is reached: raise the limit (ulimit -n)",
        // In a container, /proc/sys is read-only, even in namespaces that a process in the container creates.
        Errno::EROFS => {
            "in a container: podman run --security-opt unmask=ALL (docker: systempaths=unconfined), or \
             --engine virtual"
        }
        _ => return None,
    })
}

/// Converts the error. The fault is `Machine` or, if the kernel lacks the job's congestion control, `Input`.
impl From<fastopen_netns::Error> for Failure {
    fn from(error: fastopen_netns::Error) -> Self {
        let (message, remedy) = match (&error.operation, error.errno()) {
            (
                Operation::EnterSandbox,
                Some(Errno::EPERM | Errno::EACCES | Errno::ENOSPC | Errno::EUSERS | Errno::ENOSYS),
            ) => {
                let message = format!("user namespaces are disabled or used up: {}", error.source);
                (message, ALLOW_NAMESPACES.to_owned())
            }
            (Operation::AddQdisc { kind, .. }, Some(Errno::ENOENT)) => (
                format!("this kernel has no {kind}, which --link kernel and --upstream-rtt need"),
                format!(
                    "load it as root (modprobe sch_{kind}), or use --link program without --upstream-rtt"
                ),
            ),
            (Operation::AddRoute { congestion_control: Some(name), .. }, Some(Errno::EINVAL)) => {
                return Self::unknown_congestion_control(name);
            }
            _ => (error.to_string(), remedy_of(&error.source).unwrap_or_default().to_owned()),
        };
        Self::new(Fault::Machine, message).with_remedy(remedy)
    }
}

impl From<tls::Error> for Failure {
    fn from(error: tls::Error) -> Self {
        Self::new(Fault::Internal, error.to_string())
    }
}
