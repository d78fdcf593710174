//! Processes that end with their parent.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid};

use crate::clock::monotonic_ns;
use crate::poll::{Timer, wait_readable};
use crate::{Doing, Result};

/// Has the kernel kill this process when the thread that made it ends (`PR_SET_PDEATHSIG`).
///
/// # Errors
/// Where the parent ended meanwhile.
pub fn die_with_parent() -> Result<()> {
    let parent = getppid();
    prctl::set_pdeathsig(Some(Signal::SIGKILL)).doing(|| "tying this process to its parent".into())?;
    if getppid() == parent {
        return Ok(());
    }
    Err(io::Error::other("the parent is gone")).doing(|| "tying this process to its parent".into())
}

/// Has the kernel kill what `command` starts when the thread that starts it ends.
pub fn tie_to_parent(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let parent = nix::unistd::getpid();
    let tie = move || {
        prctl::set_pdeathsig(Some(Signal::SIGKILL))?;
        // A parent that ended before that sent no signal.
        if getppid() == parent { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    // SAFETY: two system calls without memory or locks, which are allowed between fork and exec.
    unsafe { command.pre_exec(tie) };
}

/// Makes a folder that only this user can look into, where temporary files belong.
///
/// # Errors
/// Where there is no room or right to.
pub fn private_folder(prefix: &str) -> io::Result<std::path::PathBuf> {
    let template = std::env::temp_dir().join(format!("{prefix}XXXXXX"));
    Ok(nix::unistd::mkdtemp(&template)?)
}

/// Has this process keep the memory it got, and get it in large pieces: where a system call or a page fault costs much more than the
/// memory.
pub fn keep_memory() {
    const PIECE: libc::c_int = 16 << 20;
    let choices = [
        (libc::M_ARENA_MAX, 1),
        (libc::M_TOP_PAD, PIECE),
        (libc::M_TRIM_THRESHOLD, libc::c_int::MAX),
        (libc::M_MMAP_THRESHOLD, PIECE),
    ];
    for (choice, value) in choices {
        // SAFETY: sets a number of the allocator's own, under its own lock; one that it does not know it refuses.
        unsafe { libc::mallopt(choice, value) };
    }
}

/// A process that removes a folder when this one has ended, however it ended: a signal that cannot be caught leaves no time to tidy up.
pub struct Janitor {
    /// Nothing is written: it says by its end that this process has ended, or let go of the folder.
    alive: Option<io::PipeWriter>,
    pid: Pid,
}

impl Janitor {
    /// Starts it.
    ///
    /// # Errors
    /// Where the kernel cannot fork.
    ///
    /// # Panics
    /// If the process has other threads.
    pub fn of(folder: &std::path::Path) -> io::Result<Self> {
        assert_single_threaded();
        let (ended, alive) = io::pipe()?;
        // SAFETY: the process has one thread, so the child's copy of memory is consistent.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop(alive);
                // Whoever reads what this process writes waits for its end, not for the janitor's.
                let nothing = std::fs::File::options().read(true).write(true).open("/dev/null");
                for descriptor in 0..3 {
                    // SAFETY: the descriptors are this process's own, and nobody in it uses them any more.
                    nothing.iter().for_each(|null| unsafe {
                        libc::dup2(null.as_raw_fd(), descriptor);
                    });
                }
                // A terminal's interrupt is for those who work.
                let _ = nix::unistd::setsid();
                let mut polled = [PollFd::new(ended.as_fd(), PollFlags::empty())];
                while poll(&mut polled, PollTimeout::NONE) == Err(nix::errno::Errno::EINTR) {}
                let _ = std::fs::remove_dir_all(folder);
                std::process::exit(0);
            }
            ForkResult::Parent { child } => Ok(Self { alive: Some(alive), pid: child }),
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.alive = None;
        let _ = waitpid(self.pid, None);
    }
}

/// Waits until `child` has ended or `until_ns` of the monotonic clock is past; false: it has not. It is still to be waited for.
///
/// # Errors
/// Where there are no descriptors left.
pub fn wait_until_ended(child: &std::process::Child, until_ns: u64) -> io::Result<bool> {
    // SAFETY: no pointers.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    if handle < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor for us alone.
    let handle = unsafe { OwnedFd::from_raw_fd(handle as i32) };
    let mut timer = Timer::new()?;
    timer.set(Some(until_ns))?;
    loop {
        wait_readable(&[handle.as_fd(), timer.as_fd()], None)?;
        let mut polled = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, PollTimeout::ZERO)? > 0 {
            return Ok(true);
        }
        if monotonic_ns() >= until_ns {
            return Ok(false);
        }
    }
}

/// Ends whatever else is in this PID namespace, and waits for its end. To be called by its first process, which is the parent of
/// all that is left; elsewhere nothing happens.
pub fn end_all_others() {
    if nix::unistd::getpid() != Pid::from_raw(1) {
        return;
    }
    // All but the caller.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    while !matches!(waitpid(None::<Pid>, None), Err(nix::errno::Errno::ECHILD)) {}
}

/// Has neither this process nor what it starts leave a core file behind.
pub fn leave_no_core() {
    use nix::sys::resource::{Resource, setrlimit};
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
}

/// Blocks all signals for this thread and those that it will start.
///
/// # Errors
/// As `sigprocmask`.
pub fn block_signals() -> Result<()> {
    SigSet::all().thread_block().doing(|| "blocking signals".into())
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
    run_forked(child, |child| {
        loop {
            match waitpid(child, None) {
                Err(nix::errno::Errno::EINTR) => {}
                waited => {
                    if let Some(code) = code_of(waited.doing(|| "waiting for the child".into())?) {
                        return Ok(code);
                    }
                }
            }
        }
    })
}

/// As [`run_in_child`], and passes on what other processes send: to be called with all signals blocked. What a terminal sends, the
/// child gets by itself.
///
/// # Errors
/// As [`run_in_child`].
pub fn run_in_child_with_signals(child: impl FnOnce() -> i32) -> Result<i32> {
    let doing = || "taking signals".into();
    let signals = SignalFd::with_flags(&SigSet::all(), SfdFlags::SFD_CLOEXEC).doing(doing)?;
    run_forked(child, |child| {
        loop {
            let Some(signal) = signals.read_signal().doing(doing)? else { continue };
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(Signal::SIGCHLD) => {
                    let waited = waitpid(child, Some(WaitPidFlag::WNOHANG)).doing(doing)?;
                    if let Some(code) = code_of(waited) {
                        return Ok(code);
                    }
                }
                Ok(other) if signal.ssi_code <= libc::SI_USER => drop(kill(child, other)),
                _ => {}
            }
        }
    })
}

/// The exit code of a child that has ended.
fn code_of(status: WaitStatus) -> Option<i32> {
    match status {
        WaitStatus::Exited(_, code) => Some(code),
        WaitStatus::Signaled(_, signal, _) => Some(128 + signal as i32),
        _ => None,
    }
}

fn run_forked(child: impl FnOnce() -> i32, outlast: impl FnOnce(Pid) -> Result<i32>) -> Result<i32> {
    assert_single_threaded();
    // Nothing is written: it says by its end that the parent has ended.
    let (parents_end, parent_lives) = io::pipe().doing(|| "making a pipe".into())?;
    // SAFETY: the process has one thread, so the child's copy of memory is consistent.
    match unsafe { fork() }.doing(|| "forking".into())? {
        ForkResult::Child => {
            drop(parent_lives);
            let tied = prctl::set_pdeathsig(Some(Signal::SIGKILL)).is_ok();
            // A parent that ended before that sent no signal, and its PID does not show in a new PID namespace.
            if !tied || has_ended(&parents_end) {
                std::process::exit(70);
            }
            drop(parents_end);
            std::process::exit(child());
        }
        ForkResult::Parent { child } => outlast(child),
    }
}

fn assert_single_threaded() {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    assert_eq!(threads, 1, "fork needs a single-threaded process");
}

/// Whether nobody holds the other end of a pipe any more.
fn has_ended(pipe: &io::PipeReader) -> bool {
    let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
    poll(&mut polled, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

/// Has the scheduler prefer this process, and all that it starts, to the rest of the machine (nice -20). Only root may; elsewhere
/// nothing changes.
pub fn prefer_to_others() {
    // SAFETY: no pointers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// The nice value of the calling thread.
pub fn nice() -> i32 {
    // SAFETY: no pointers. A process may always ask for its own.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Asks the scheduler to run the calling thread soon after each wake-up, at the price of turns of no more than `slice_ns`, which
/// Linux 6.12 and newer honour without privilege. Where the kernel does not, nothing changes.
pub fn run_in_short_turns(slice_ns: u64) {
    let attributes = SchedAttr {
        size: std::mem::size_of::<SchedAttr>() as u32,
        policy: 0,
        flags: 0,
        nice: nice(),
        priority: 0,
        runtime_ns: slice_ns,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: the kernel reads the structure during the call; PID 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
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

/// Lets this process and its children open as many files as the system allows at most.
pub fn allow_many_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
