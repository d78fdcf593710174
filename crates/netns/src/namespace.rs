//! User, mount, PID and network namespaces, without root where the system allows it.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use crate::sandbox::mount_tmpfs;
use crate::{Doing, Operation, Result};

/// Moves the calling, single-threaded process into new user, mount, network, IPC and UTS namespaces, in which
/// it is root, and its later children into a new PID namespace. Later mounts stay inside.
///
/// # Errors
/// [`Operation::EnterSandbox`] where the system forbids user namespaces: EPERM and EACCES by a security
/// module or seccomp, ENOSPC and EUSERS by a limit (`user.max_user_namespaces`), ENOSYS without kernel
/// support.
pub fn enter_sandbox() -> Result<()> {
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWPID;
    unshare(flags).operation(|| Operation::EnterSandbox)?;
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", &format!("0 {gid} 1"))?;
    make_mounts_private()
}

/// Makes all mounts private: later ones stay inside this mount namespace.
pub(crate) fn make_mounts_private() -> Result<()> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .doing(|| "making mounts private".into())
}

/// Bind-mounts a file with the given content over each of `targets` that exists, in this mount namespace
/// alone. None may be in /tmp.
///
/// The files live on a tmpfs that is unmounted from its path once they are bound: nothing reaches a disk.
///
/// # Errors
/// Where the kernel refuses a mount.
pub fn overlay_files(targets: &[(&str, &str)]) -> Result<()> {
    const STAGE: &str = "/tmp";
    mount_tmpfs(Path::new(STAGE), Some(16 << 20), "0755")?;
    let bound = targets.iter().enumerate().try_for_each(|(number, (target, content))| {
        if !Path::new(target).exists() {
            return Ok(());
        }
        let staged = format!("{STAGE}/{number}");
        fs::write(&staged, content).doing(|| format!("writing {staged}"))?;
        mount(Some(staged.as_str()), *target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .doing(|| format!("binding a file over {target}"))
    });
    umount2(STAGE, MntFlags::empty()).doing(|| format!("unmounting {STAGE}"))?;
    bound
}

/// Unmounts the topmost file that [`overlay_files`] bound over `target`.
///
/// # Errors
/// Where nothing is mounted there.
pub fn remove_overlay(target: &str) -> Result<()> {
    umount2(target, MntFlags::MNT_DETACH).doing(|| format!("unmounting {target}"))
}

/// Mount points for a tmpfs, the first that exists; other programs keep no lasting files there.
const SCRATCH: [&str; 2] = ["/dev/shm", "/tmp"];

/// The folder for files that live as long as the mount namespace.
pub fn scratch() -> &'static Path {
    let place = SCRATCH.iter().find(|place| Path::new(place).is_dir());
    Path::new(place.unwrap_or(&SCRATCH[1]))
}

/// Mounts a tmpfs of at most `bytes` (none: half of the memory) on [`scratch`], in this mount namespace alone.
///
/// # Errors
/// Where the kernel refuses the mount.
pub fn mount_scratch(bytes: Option<u64>) -> Result<()> {
    mount_tmpfs(scratch(), bytes, "1777")
}

/// Mounts the `/proc` of this PID namespace. A kernel may refuse it; the old one shows this process as well.
pub fn mount_proc() {
    let _ = mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), None::<&str>);
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).doing(|| format!("writing {text:?} to {path}"))
}

/// A handle to a network namespace, which lives as long as any handle to, thread in, or socket of it.
#[derive(Clone)]
pub struct NetNs(Arc<File>);

impl NetNs {
    /// A new, empty network namespace (its loopback is down).
    ///
    /// # Errors
    /// Where the kernel refuses (`user.max_net_namespaces`).
    pub fn create() -> Result<Self> {
        thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).doing(|| "making a network namespace".into())?;
            Self::current()
        })
        .join()
        .expect("the thread does not panic")
    }

    /// The calling thread's own network namespace.
    ///
    /// # Errors
    /// Where /proc is not mounted.
    pub fn current() -> Result<Self> {
        const PATH: &str = "/proc/thread-self/ns/net";
        Ok(Self(Arc::new(File::open(PATH).doing(|| format!("opening {PATH}"))?)))
    }

    /// Moves the calling thread into this namespace, for good.
    ///
    /// # Errors
    /// As `setns`.
    pub fn enter(&self) -> Result<()> {
        setns(&self.0, CloneFlags::CLONE_NEWNET).doing(|| "entering a network namespace".into())
    }

    /// Runs `work` on the calling thread in this namespace, then returns to the thread's own. Sockets and
    /// threads that `work` makes stay in this one.
    ///
    /// # Errors
    /// As `work`, or where the namespace cannot be entered.
    ///
    /// # Panics
    /// Where the thread cannot return: later calls would act on the wrong namespace.
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
