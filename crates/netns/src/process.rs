//! Controls the lifetime, forks, resource limits and scheduling of processes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::poll::PollFlags;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid};

use crate::clock::monotonic_ns;
use crate::cores::TICK_NS;
use crate::poll::{Timer, wait_readable};
use crate::{Doing, Result, check};

/// Asks the kernel to kill this process when the thread that forked it ends (`PR_SET_PDEATHSIG`). Fails if
/// the parent ends during the call, but does not detect that the parent ended earlier.
pub fn die_with_parent() -> Result<()> {
    tie_to(getppid()).doing(|| "tying this process to its parent".into())
}

/// Makes the kernel kill the child process of `command` when the thread that spawned the child ends.
pub fn tie_to_parent(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let parent = nix::unistd::getpid();
    // SAFETY: two system calls without memory or locks, which are allowed between fork and exec.
    unsafe { command.pre_exec(move || tie_to(parent)) };
}

fn tie_to(parent: Pid) -> io::Result<()> {
    prctl::set_pdeathsig(Some(Signal::SIGKILL))?;
    // If the parent ended before the prctl, the kernel sends no signal.
    if getppid() == parent { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
}

/// Makes malloc keep freed memory and request memory from the kernel in pieces of 16 MiB. This is for kernels
/// with slow system calls and page faults, such as User-Mode Linux.
pub fn tune_malloc() {
    const PIECE: libc::c_int = 16 << 20;
    let choices = [
        (libc::M_ARENA_MAX, 1),
        (libc::M_TOP_PAD, PIECE),
        (libc::M_TRIM_THRESHOLD, libc::c_int::MAX),
        (libc::M_MMAP_THRESHOLD, PIECE),
    ];
    for (choice, value) in choices {
        // SAFETY: mallopt sets a parameter under the allocator's lock, and rejects unknown parameters.
        unsafe { libc::mallopt(choice, value) };
    }
}

/// A temporary folder of mode 0700. A child process, `cleanup`, creates it, and removes it when this process
/// drops the value, ends or is killed. If `cleanup` is killed, this process removes the folder. If both are
/// killed, the next process that creates a folder with the same prefix removes it.
pub struct PrivateFolder {
    path: PathBuf,
    /// Write end of an unused pipe. `cleanup` sees it close when this process ends or drops the folder.
    alive: Option<OwnedFd>,
    lock: Option<Flock<File>>,
    pid: Pid,
}

impl PrivateFolder {
    /// Creates a folder whose name begins with `prefix`. Removes folders with this prefix that killed
    /// processes left behind.
    ///
    /// # Panics
    /// If this process has other threads: locks that they hold would stay locked in the forked `cleanup`.
    pub fn make(prefix: &str) -> io::Result<Self> {
        assert_single_threaded();
        let template = std::env::temp_dir().join(format!("{prefix}XXXXXX"));
        let (ended, alive) = pipe()?;
        let (made, tell) = pipe()?;
        // SAFETY: the process has one thread, so the child's copy of memory is consistent.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop((alive, made));
                let _ = prctl::set_name(c"cleanup");
                let _ = close_standard_streams();
                // Leave the terminal's foreground process group, to which Ctrl-C sends its signal.
                let _ = nix::unistd::setsid();
                let folder = make_locked(&template);
                let _ = match &folder {
                    Ok((path, _)) => File::from(tell).write_all(path.as_os_str().as_bytes()),
                    // A NUL marks an error, since no path begins with it.
                    Err(errno) => File::from(tell).write_all(format!("\0{}", *errno as i32).as_bytes()),
                };
                remove_left_behind(&template);
                while wait_readable(&[ended.as_fd()], None).is_ok_and(|ready| ready[0].is_empty()) {}
                let _ = folder.map(|(path, _lock)| std::fs::remove_dir_all(path));
                std::process::exit(0);
            }
            ForkResult::Parent { child } => {
                drop(tell);
                let mut folder = Self { path: PathBuf::new(), alive: Some(alive), lock: None, pid: child };
                let mut answer = Vec::new();
                File::from(made).read_to_end(&mut answer)?;
                folder.path = path_or_errno(answer)?;
                folder.lock = lock(&folder.path, FlockArg::LockShared);
                Ok(folder)
            }
        }
    }

    /// Returns the path of this temporary folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates a folder with mkdtemp(3), and locks it. The lock is `None` if the file system lacks locks.
fn make_locked(template: &Path) -> nix::Result<(PathBuf, Option<Flock<File>>)> {
    loop {
        let path = nix::unistd::mkdtemp(template)?;
        let lock = lock(&path, FlockArg::LockShared);
        // Another process may have removed the folder before it was locked.
        if path.is_dir() {
            return Ok((path, lock));
        }
    }
}

fn lock(folder: &Path, how: FlockArg) -> Option<Flock<File>> {
    Flock::lock(File::open(folder).ok()?, how).ok()
}

/// Removes this user's folders whose names match `template` (mkdtemp(3)) and that no process has locked.
fn remove_left_behind(template: &Path) {
    let (Some(place), Some(name)) = (template.parent(), template.file_name()) else { return };
    let prefix = name.as_bytes().strip_suffix(b"XXXXXX").unwrap_or(name.as_bytes());
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let alike = entry.file_name().len() == name.len() && entry.file_name().as_bytes().starts_with(prefix);
        // For a symbolic link this is the metadata of the link itself.
        let own =
            || entry.metadata().is_ok_and(|of| of.is_dir() && of.uid() == nix::unistd::getuid().as_raw());
        if alike && own() {
            let free = lock(&entry.path(), FlockArg::LockExclusiveNonblock);
            let _ = free.map(|_lock| std::fs::remove_dir_all(entry.path()));
        }
    }
}

/// Parses the message of a [`PrivateFolder`]'s `cleanup` process: the path, or NUL and an error number.
fn path_or_errno(answer: Vec<u8>) -> io::Result<PathBuf> {
    match answer.split_first() {
        None => Err(io::Error::other("the process that makes it ended")),
        Some((0, errno)) => {
            let errno = std::str::from_utf8(errno).ok().and_then(|text| text.parse().ok());
            Err(io::Error::from_raw_os_error(errno.unwrap_or(libc::EIO)))
        }
        Some(_) => Ok(OsString::from_vec(answer).into()),
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        self.alive = None;
        let cleanup_was_killed =
            waitpid(self.pid, None).is_ok_and(|status| matches!(status, WaitStatus::Signaled(..)));
        if cleanup_was_killed && !self.path.as_os_str().is_empty() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Replaces the standard streams with /dev/null, so that their readers do not wait for this process to end.
pub fn close_standard_streams() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    replace_standard_streams(&null, &null, &null)
}

/// Replaces standard input, output and error with these descriptors.
pub fn replace_standard_streams(input: impl AsFd, output: impl AsFd, error: impl AsFd) -> io::Result<()> {
    nix::unistd::dup2_stdin(input)?;
    nix::unistd::dup2_stdout(output)?;
    Ok(nix::unistd::dup2_stderr(error)?)
}

/// Returns a descriptor of a process or, with the flag `PIDFD_THREAD`, of a thread. Unlike an ID, the
/// descriptor never refers to another process or thread later. Fails with ESRCH if the process or thread has
/// ended, and with EINVAL if the kernel does not know the flags.
pub fn pidfd_open(id: i32, flags: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, id, flags) })
}

/// Duplicates a descriptor of the process behind `pidfd`. Fails with EPERM if Yama or the process's dumpable
/// flag forbids it, EBADF if there is no such descriptor, and ESRCH if the process has ended.
pub fn pidfd_getfd(pidfd: &OwnedFd, descriptor: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), descriptor, 0) })
}

/// Returns the entries of a folder in `/proc` whose names are numbers: the number and the path of each.
pub(crate) fn numbered<P: AsRef<Path>>(folder: P) -> impl Iterator<Item = (i32, PathBuf)> + use<P> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

/// Returns a duplicate of the socket with this inode, from any process in `/proc` that has it open. None if
/// no process with readable descriptors has it open.
pub fn socket_of_inode(inode: u32) -> Option<OwnedFd> {
    let link = format!("socket:[{inode}]");
    numbered("/proc").find_map(|(pid, process)| {
        let is_it = |(_, path): &(i32, PathBuf)| {
            std::fs::read_link(path).is_ok_and(|target| target.as_os_str() == link.as_str())
        };
        let (descriptor, _) = numbered(process.join("fd")).find(is_it)?;
        pidfd_getfd(&pidfd_open(pid, 0).ok()?, descriptor).ok()
    })
}

fn owned(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = check(descriptor as i32)?;
    // SAFETY: the call has just made this descriptor (close-on-exec); nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Waits until `child` ends, without reaping it. Returns false if monotonic time reaches `until_ns` first.
pub fn wait_until_ended(child: &std::process::Child, until_ns: u64) -> io::Result<bool> {
    let handle = pidfd_open(child.id() as i32, 0)?;
    let mut timer = Timer::new()?;
    timer.set(Some(until_ns))?;
    loop {
        let ended = wait_readable(&[handle.as_fd(), timer.as_fd()], None)?[0].contains(PollFlags::POLLIN);
        if ended || monotonic_ns() >= until_ns {
            return Ok(ended);
        }
    }
}

/// Limits the stack of the process that `command` starts, and of each of its threads, to `bytes`.
pub fn limit_stack(command: &mut std::process::Command, bytes: u64) {
    use std::os::unix::process::CommandExt;
    let limit = move || Ok(setrlimit(Resource::RLIMIT_STACK, bytes, bytes)?);
    // SAFETY: the closure calls nothing but setrlimit between fork and exec.
    unsafe { command.pre_exec(limit) };
}

/// Kills all processes of the group that `child` leads, including `child`.
pub fn kill_group(child: &std::process::Child) {
    // The kernel reuses the ID only if the child is reaped and no process of its group is left, and then only
    // after all higher IDs. ESRCH means that no process is left.
    let _ = nix::sys::signal::killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
}

fn is_init() -> bool {
    nix::unistd::getpid() == Pid::from_raw(1)
}

/// Kills and reaps all other processes of this PID namespace. Does nothing unless the caller is PID 1 of the
/// namespace, which becomes the parent of every orphan.
pub fn end_all_others() {
    if !is_init() {
        return;
    }
    kill_all_others();
    while !matches!(waitpid(None::<Pid>, None), Err(nix::errno::Errno::ECHILD)) {}
}

/// Disables core files for this process and its children (`RLIMIT_CORE` of 0).
pub fn disable_core_dumps() {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
}

/// Sums the anonymous and shared memory of all other processes of this PID namespace, in bytes. Counts shared
/// memory once for each process that uses it. Returns 0 if the caller is not PID 1, because other processes
/// may then be unrelated.
pub fn memory_of_others() -> u64 {
    if !is_init() {
        return 0;
    }
    let kibibytes = |path: PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let wanted = |line: &&str| line.starts_with("RssAnon:") || line.starts_with("RssShmem:");
        let counts = status.lines().filter(wanted).filter_map(|line| line.split_whitespace().nth(1));
        counts.filter_map(|count| count.parse::<u64>().ok()).sum::<u64>()
    };
    numbered("/proc").filter(|(pid, _)| *pid != 1).map(|(_, path)| kibibytes(path)).sum::<u64>() << 10
}

/// Kills all other processes of this PID namespace; their parents must reap them. Does nothing unless the
/// caller is PID 1 of the namespace.
pub fn kill_all_others() {
    if is_init() {
        // PID -1: every process but the caller and PID 1.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
}

/// Blocks all signals for this thread and the threads that it starts.
pub fn block_signals() -> Result<()> {
    SigSet::all().thread_block().doing(|| "blocking signals".into())
}

/// Makes the calling thread run before all threads with ordinary scheduling (`SCHED_FIFO`). Needs
/// `CAP_SYS_NICE` or a limit `RLIMIT_RTPRIO` above 0.
pub fn run_first() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads the structure during the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) }).map(drop)
}

/// Unblocks all signals of this thread.
pub fn unblock_signals() -> Result<()> {
    SigSet::all().thread_unblock().doing(|| "unblocking signals".into())
}

/// Returns the number of voluntary context switches of a process as a string; None if the process has ended.
pub fn voluntary_switches(pid: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).map(str::to_owned)
}

/// Returns the user-mode CPU time of a process; None if the process has ended.
pub fn user_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // `utime` is the 12th field after the name, which ends at the last `)` (proc_pid_stat(5)).
    let ticks: u64 = stat.rsplit(')').next()?.split_whitespace().nth(11)?.parse().ok()?;
    Some(Duration::from_nanos(ticks * TICK_NS))
}

/// Returns the user-mode CPU time of all processes of this PID namespace, or 0 if the caller is not PID 1,
/// because other processes may then be unrelated.
pub fn computed_in_namespace() -> Duration {
    if !is_init() {
        return Duration::ZERO;
    }
    numbered("/proc").filter_map(|(pid, _)| user_time(pid as u32)).sum()
}

/// Runs `child` in a forked process, and returns the child's exit code (128 + signal if a signal ended it).
/// The kernel kills the child when this process ends. After
/// [`enter_sandbox`](crate::namespace::enter_sandbox), the child is PID 1 of the new namespace.
///
/// # Panics
/// If this process has other threads: locks that they hold would stay locked in the forked copy.
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

/// Like [`run_in_child`], but forwards signals from other processes (`SI_USER`) to the child. All signals of
/// this process must be blocked. Does not forward the terminal's signals, which reach the child directly.
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

fn code_of(status: WaitStatus) -> Option<i32> {
    match status {
        WaitStatus::Exited(_, code) => Some(code),
        WaitStatus::Signaled(_, signal, _) => Some(128 + signal as i32),
        _ => None,
    }
}

fn run_forked(child: impl FnOnce() -> i32, wait: impl FnOnce(Pid) -> Result<i32>) -> Result<i32> {
    assert_single_threaded();
    // A pipe that is never written to. Its read end hangs up when the parent ends.
    let (parents_end, parent_lives) = pipe().doing(|| "making a pipe".into())?;
    // SAFETY: the process has one thread, so the child's copy of memory is consistent.
    match unsafe { fork() }.doing(|| "forking".into())? {
        ForkResult::Child => {
            drop(parent_lives);
            let tied = prctl::set_pdeathsig(Some(Signal::SIGKILL)).is_ok();
            // If the parent ended before the prctl, the kernel sends no signal. getppid cannot show this: in
            // a new PID namespace it is 0.
            let ended =
                wait_readable(&[parents_end.as_fd()], Some(0)).is_ok_and(|ready| !ready[0].is_empty());
            if !tied || ended {
                std::process::exit(70);
            }
            drop(parents_end);
            std::process::exit(child());
        }
        ForkResult::Parent { child } => wait(child),
    }
}

fn assert_single_threaded() {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    assert_eq!(threads, 1, "fork needs a single-threaded process");
}

/// Returns a pipe's read end and write end, both closed on exec.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(OFlag::O_CLOEXEC)?)
}

/// Sets the nice value of this process and its later children to -20, if this user may (`CAP_SYS_NICE`).
pub fn raise_priority() {
    // SAFETY: the call takes no pointers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// Returns the nice value of the calling thread.
pub fn nice() -> i32 {
    // SAFETY: the call takes no pointers.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Sets the calling thread's time slice (`sched_attr.sched_runtime`). A shorter slice has an earlier virtual
/// deadline, so the thread runs sooner after a wake-up. Linux 6.12 and newer apply it without privilege;
/// older kernels ignore it.
pub fn set_time_slice(slice_ns: u64) {
    // SAFETY: the structure is plain data.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_nice = nice();
    attributes.sched_runtime = slice_ns;
    // SAFETY: the kernel reads the structure during the call; PID 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Raises the soft limit of open files (`RLIMIT_NOFILE`) to the hard limit.
pub fn raise_file_limit() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
