//! Processes that end with their parent.

use std::io;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid};

use crate::{Doing, Result};

/// Has the kernel kill this process when the thread that made it ends (`PR_SET_PDEATHSIG`). A parent that is gone already
/// counts as ended.
///
/// # Errors
/// Where the parent has already ended.
pub fn die_with_parent(expected_parent: Option<i32>) -> Result<()> {
    prctl::set_pdeathsig(Some(Signal::SIGKILL)).doing(|| "tying this process to its parent".into())?;
    match expected_parent {
        Some(pid) if getppid() != Pid::from_raw(pid) => {
            Err(io::Error::other("the parent is gone")).doing(|| "tying this process to its parent".into())
        }
        _ => Ok(()),
    }
}

/// Runs `child` in a forked process (the first process of the PID namespace if one was just made) that dies with this one,
/// waits for it and returns its exit code (128 + signal if a signal ended it).
///
/// # Errors
/// Where the kernel cannot fork.
///
/// # Panics
/// If the process has other threads: a forked copy of them would hold their locks for ever.
pub fn run_in_child(child: impl FnOnce() -> i32) -> Result<i32> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    assert_eq!(threads, 1, "fork needs a single-threaded process");
    // SAFETY: the process has one thread, so the child's copy of memory is consistent.
    match unsafe { fork() }.doing(|| "forking".into())? {
        ForkResult::Child => {
            // The parent's PID is 0 as seen from a new PID namespace, or the real one without.
            if prctl::set_pdeathsig(Some(Signal::SIGKILL)).is_err() {
                std::process::exit(70);
            }
            std::process::exit(child());
        }
        ForkResult::Parent { child } => loop {
            match waitpid(child, None) {
                Ok(WaitStatus::Exited(_, code)) => return Ok(code),
                Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(128 + signal as i32),
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error).doing(|| "waiting for the child".into()),
            }
        },
    }
}

/// Lets this process and its children ask for real-time scheduling later, also where they have lost the privilege by then.
/// Only root may; elsewhere nothing changes.
pub fn allow_real_time() {
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_RTPRIO, 1, 1);
}

/// How the scheduler treats a thread that asked to [`run_promptly`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promptness {
    /// Real-time (SCHED_FIFO): it runs as soon as it wakes.
    RealTime,
    /// As any thread, with short turns, so that it soon gets one after waking.
    ShortTurns,
    /// As any thread.
    Ordinary,
}

/// Asks the scheduler to run the calling thread soon after each wake-up: real-time where allowed, else a slice of 0.1 ms, which
/// Linux 6.12 and newer honour without privilege. Says what was granted.
pub fn run_promptly() -> Promptness {
    const SCHED_NORMAL: u32 = 0;
    const SCHED_FIFO: u32 = 1;
    let granted = |policy, priority, runtime_ns| {
        let attributes = SchedAttr {
            size: std::mem::size_of::<SchedAttr>() as u32,
            policy,
            flags: 0,
            nice: 0,
            priority,
            runtime_ns,
            deadline_ns: 0,
            period_ns: 0,
        };
        // SAFETY: the kernel reads the structure during the call; PID 0 is the calling thread.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
    };
    if granted(SCHED_FIFO, 1, 0) {
        Promptness::RealTime
    } else if granted(SCHED_NORMAL, 0, 100_000) {
        Promptness::ShortTurns
    } else {
        Promptness::Ordinary
    }
}

/// `struct sched_attr` of include/uapi/linux/sched/types.h, its first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}
