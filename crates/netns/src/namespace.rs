//! Creates user, mount, PID and network namespaces, without root if the system allows it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::process::pipe;
use crate::sandbox::mount_tmpfs;
use crate::{Doing, Operation, Result};

/// Moves the calling process, which must have one thread, into new user, mount, network, IPC and UTS
/// namespaces, where it is root. Its later children share a new PID namespace. Later mounts are private.
///
/// # Errors
/// [`Operation::EnterSandbox`] if the system forbids user namespaces: EPERM or EACCES from a security module
/// or seccomp, ENOSPC or EUSERS from a limit (`user.max_user_namespaces`), ENOSYS without kernel support.
pub fn enter_sandbox() -> Result<()> {
    enter(|| false).map(drop)
}

/// Like [`enter_sandbox`], but also maps further user and group IDs if the system allows it: for root, all
/// IDs of its own namespace; for other users, the first range of IDs that `/etc/subuid` and `/etc/subgid`
/// assign to them, mapped by newuidmap(1) and newgidmap(1). Returns true if the IDs are mapped. If not,
/// programs in the sandbox cannot change their user.
pub fn enter_sandbox_with_users() -> Result<bool> {
    let mapper = IdMapper::start().doing(|| "starting a process that maps user ids".into())?;
    enter(|| mapper.map())
}

/// Moves the process into new namespaces like [`enter_sandbox`], then calls `map` to map user and group IDs.
/// If `map` leaves an ID map empty, maps only the caller's ID to root instead. Returns the result of `map`.
fn enter(map: impl FnOnce() -> bool) -> Result<bool> {
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWPID;
    unshare(flags).operation(|| Operation::EnterSandbox)?;
    let mapped = map();
    // The kernel accepts only one ID map for each namespace.
    let is_empty = |path| fs::read_to_string(path).is_ok_and(|map| map.trim().is_empty());
    if is_empty("/proc/self/gid_map") {
        write("/proc/self/setgroups", "deny")?;
        write("/proc/self/gid_map", &format!("0 {gid} 1"))?;
    }
    if is_empty("/proc/self/uid_map") {
        write("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    }
    make_mounts_private()?;
    Ok(mapped)
}

/// A child process that stays outside the parent's new user namespace and maps IDs into it.
struct IdMapper {
    pid: Pid,
    /// Write end of a pipe; a byte signals that the parent has entered the user namespace.
    entered: OwnedFd,
}

impl IdMapper {
    /// Forks the child process, which waits for [`Self::map`]. The caller must have only one thread.
    fn start() -> io::Result<Self> {
        let (waiting, entered) = pipe()?;
        let parent = nix::unistd::getpid();
        // SAFETY: the caller has one thread, so the child's copy of memory is consistent.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop(entered);
                let mut byte = [0];
                let in_namespace = nix::unistd::read(&waiting, &mut byte).is_ok_and(|count| count == 1);
                std::process::exit(i32::from(!(in_namespace && map_ids(parent))));
            }
            ForkResult::Parent { child } => Ok(Self { pid: child, entered }),
        }
    }

    fn map(self) -> bool {
        let _ = nix::unistd::write(&self.entered, b"x");
        drop(self.entered);
        matches!(waitpid(self.pid, None), Ok(WaitStatus::Exited(_, 0)))
    }
}

/// Maps user and group IDs into the user namespace that `process` has entered. Returns true on success.
fn map_ids(process: Pid) -> bool {
    let user = nix::unistd::getuid();
    if user.is_root() {
        return ["gid_map", "uid_map"].iter().all(|map| {
            fs::read_to_string(format!("/proc/self/{map}"))
                .and_then(|own| fs::write(format!("/proc/{process}/{map}"), identity(&own)))
                .is_ok()
        });
    }
    let name = nix::unistd::User::from_uid(user).ok().flatten().map(|user| user.name).unwrap_or_default();
    let group = nix::unistd::getgid().as_raw();
    [("newgidmap", "/etc/subgid", group), ("newuidmap", "/etc/subuid", user.as_raw())].iter().all(
        |(tool, file, own)| {
            let subordinate = fs::read_to_string(file).unwrap_or_default();
            let Some((first, count)) = range(&subordinate, &name, user.as_raw()) else { return false };
            Command::new(tool)
                .arg(process.to_string())
                .args(["0", &own.to_string(), "1", "1", first, count])
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        },
    )
}

/// Returns an ID map from each ID in this process's user namespace to itself. `own` is the process's ID map.
fn identity(own: &str) -> String {
    let mut map = String::new();
    for line in own.lines() {
        if let [inside, _, count] = line.split_whitespace().collect::<Vec<_>>()[..] {
            let _ = writeln!(map, "{inside} {inside} {count}");
        }
    }
    map
}

/// Returns the start and size of a user's first ID range in `file`, the text of a file like `/etc/subuid`.
fn range<'a>(file: &'a str, name: &str, user: u32) -> Option<(&'a str, &'a str)> {
    file.lines().find_map(|line| match line.split(':').collect::<Vec<_>>()[..] {
        [owner, first, count] if owner == name || owner == user.to_string() => Some((first, count)),
        _ => None,
    })
}

/// Makes mount propagation private, so that later mounts stay inside this mount namespace.
pub(crate) fn make_mounts_private() -> Result<()> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .doing(|| "making mounts private".into())
}

/// Replaces the content of files in this mount namespace with bind mounts, without writing to a disk.
/// `targets` are pairs of a path and its new content. Skips missing files. No path may be in `/tmp`.
pub fn overlay_files(targets: &[(&str, &str)]) -> Result<()> {
    const STAGE: &str = "/tmp";
    mount_tmpfs(Path::new(STAGE), Some(16 << 20), "0755")?;
    let bound = targets.iter().enumerate().try_for_each(|(number, (target, content))| {
        if !Path::new(target).exists() {
            return Ok(());
        }
        let staged = format!("{STAGE}/{number}");
        fs::write(&staged, content).doing(|| format!("writing {staged}"))?;
        bind(Path::new(&staged), Path::new(target))
    });
    umount2(STAGE, MntFlags::empty()).doing(|| format!("unmounting {STAGE}"))?;
    bound
}

/// Unmounts the topmost file that [`overlay_files`] bound over `target`.
pub fn remove_overlay(target: &str) -> Result<()> {
    umount2(target, MntFlags::MNT_DETACH).doing(|| format!("unmounting {target}"))
}

/// Returns the folder for temporary files. In a sandbox it is a tmpfs, which ends with the mount namespace.
pub fn scratch() -> &'static Path {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { shared_memory } else { Path::new("/tmp") }
}

/// Mounts a tmpfs of at most `bytes` (None: half of the memory) on `place`, until this mount namespace ends.
pub fn mount_temporary(place: &Path, bytes: Option<u64>) -> Result<()> {
    mount_tmpfs(place, bytes, "1777")
}

/// Bind-mounts a file or folder over `to`. If `to` is a symbolic link, its target is covered.
pub fn bind(from: &Path, to: &Path) -> Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .doing(|| format!("mounting {} on {}", from.display(), to.display()))
}

/// Mounts the `/proc` of this PID namespace. If the kernel refuses, the outer namespace's `/proc` stays.
pub fn mount_proc() {
    let _ = mount_new("proc", "/proc", None);
}

/// Mounts a new file system of the type `kind` on `target`, with the mount options `data`.
pub(crate) fn mount_new(
    kind: &str,
    target: &(impl nix::NixPath + ?Sized),
    data: Option<&str>,
) -> nix::Result<()> {
    mount(Some(kind), target, Some(kind), MsFlags::empty(), data)
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).doing(|| format!("writing {text:?} to {path}"))
}

/// A handle to a network namespace. The namespace exists as long as it has a handle, thread or socket.
#[derive(Clone)]
pub struct NetNs(Arc<File>);

impl NetNs {
    /// Creates an empty network namespace. Its loopback interface is down. Fails if the limit
    /// `user.max_net_namespaces` is reached.
    pub fn create() -> Result<Self> {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET).doing(|| "making a network namespace".into())?;
            Self::current()
        };
        let thread = thread::Builder::new().spawn(make).doing(|| "starting a thread".into())?;
        thread.join().expect("the thread does not panic")
    }

    /// Returns the calling thread's network namespace.
    pub fn current() -> Result<Self> {
        const PATH: &str = "/proc/thread-self/ns/net";
        Ok(Self(Arc::new(File::open(PATH).doing(|| format!("opening {PATH}"))?)))
    }

    /// Moves the calling thread into this namespace permanently.
    pub fn enter(&self) -> Result<()> {
        setns(&self.0, CloneFlags::CLONE_NEWNET).doing(|| "entering a network namespace".into())
    }

    /// Runs `work` on the calling thread in this namespace, then moves the thread back to its own namespace.
    /// Sockets and threads that `work` creates stay in this namespace.
    ///
    /// # Panics
    /// If the thread cannot move back: later calls would act on the wrong namespace.
    pub fn run<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        struct Back(NetNs);
        impl Drop for Back {
            fn drop(&mut self) {
                self.0.enter().expect("the namespace that the thread came from is still there");
            }
        }
        let _back = Back(Self::current()?);
        self.enter()?;
        work()
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
#[path = "../tests/unit/namespace.rs"]
mod tests;
