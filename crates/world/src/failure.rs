//! Why a job could not be done: whose fault it is, what was wrong, and what to do about it.

use fastopen_netns::sysctl;
use fastopen_replay::tls;

use crate::contract::{Fault, Job};

/// Why a job could not be done.
#[derive(Debug, thiserror::Error)]
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
}

impl From<fastopen_netns::Error> for Failure {
    fn from(error: fastopen_netns::Error) -> Self {
        Self::new(Fault::Machine, error.to_string())
    }
}

impl From<tls::Error> for Failure {
    fn from(error: tls::Error) -> Self {
        Self::new(Fault::Internal, error.to_string())
    }
}

/// A kernel says "no such file" of a queueing discipline that it does not have.
pub fn no_discipline(error: fastopen_netns::Error) -> Failure {
    let missing = error.source.kind() == std::io::ErrorKind::NotFound;
    let Some(name) = ["netem", "tbf"].into_iter().find(|name| missing && error.doing.contains(name)) else {
        return error.into();
    };
    Failure {
        fault: Fault::Machine,
        message: format!("this kernel has no {name}, which a link of its own needs"),
        remedy: format!(
            "load it as root (modprobe sch_{name}), or leave the link to fastopen (--link program)"
        ),
    }
}

/// Says what to do where the kernel's word alone does not.
pub fn explain(error: fastopen_netns::Error, job: &Job) -> Failure {
    let algorithm = &job.tcp.congestion_control;
    let available = sysctl::get("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    if !error.doing.contains("congestion control") || available.split(' ').any(|name| name == algorithm) {
        return error.into();
    }
    Failure {
        fault: Fault::Machine,
        message: format!("this kernel has no congestion control {algorithm} (it has {available})"),
        remedy: format!("load it as root (modprobe tcp_{algorithm}) or choose another"),
    }
}
