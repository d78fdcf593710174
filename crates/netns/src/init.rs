//! Performs the work of PID 1 in a User-Mode Linux kernel: mounts file systems, sets the clock, powers off.

use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, umount2};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};
use nix::unistd::pivot_root;

use crate::namespace::{mount_new, mount_temporary, scratch};
use crate::sandbox::{guard_proc, limit_processes, link_standard_streams, mount_tmpfs};
use crate::{Doing, Result, check};

/// Mounts `/proc`, `/sys`, and tmpfs file systems on `/run` (if it exists) and [`scratch`]. Limits the number
/// of processes, and makes most of `/proc` read-only. Fails if the kernel lacks one of these file systems, or
/// the root file system lacks a mount point.
pub fn mount_system() -> Result<()> {
    let place = |kind: &str, target: &str| {
        mount_new(kind, target, None).doing(|| format!("mounting {kind} on {target}"))
    };
    place("proc", "/proc")?;
    place("sysfs", "/sys")?;
    if Path::new("/run").is_dir() {
        place("tmpfs", "/run")?;
    }
    mount_temporary(scratch(), None)?;
    limit_processes();
    guard_proc()
}

/// Makes the root file system writable with an `overlay`, which holds at most `bytes` of changes in memory.
/// The original files stay unchanged. Call this before all other mounts. Fails if the kernel has no
/// overlayfs, or the root file system lacks the folder `/run`.
pub fn make_root_writable(bytes: u64) -> Result<()> {
    const STAGE: &str = "/run";
    const LAYERS: &str = "lowerdir=/,upperdir=/run/upper,workdir=/run/work";
    let doing = || "mounting a writable layer over the files".into();
    mount_tmpfs(Path::new(STAGE), Some(bytes), "0755")?;
    for folder in ["upper", "work", "root"] {
        std::fs::create_dir(Path::new(STAGE).join(folder)).doing(doing)?;
    }
    mount_new("overlay", "/run/root", Some(LAYERS)).doing(doing)?;
    std::env::set_current_dir("/run/root").doing(doing)?;
    pivot_root(".", &STAGE[1..]).doing(doing)?;
    std::env::set_current_dir("/").doing(doing)?;
    umount2(STAGE, MntFlags::MNT_DETACH).doing(doing)
}

/// Completes `/dev` after [`mount_devices`]: adds `/dev/shm`, pseudo-terminals, and links to the standard
/// streams (`/dev/stdin`). The folder for temporary files ([`scratch`]) is then `/dev/shm`, not `/tmp`.
pub fn complete_devices() -> Result<()> {
    let doing = || "completing /dev".into();
    for folder in ["/dev/shm", "/dev/pts"] {
        std::fs::create_dir_all(folder).doing(doing)?;
    }
    mount_new("devpts", "/dev/pts", Some("newinstance,ptmxmode=0666,mode=0620")).doing(doing)?;
    link_standard_streams()
}

/// Mounts this kernel's devices on `/dev`, over the host's devices, which the root file system shows there.
/// Temporary files ([`scratch`]) are then in `/tmp`, because `/dev/shm` is missing.
pub fn mount_devices() -> Result<()> {
    mount_new("devtmpfs", "/dev", None).doing(|| "mounting devices on /dev".into())
}

/// Mounts `folder` of a User-Mode Linux kernel's host at `target`, writable (`hostfs`). Creates `target`.
pub fn mount_host_folder(folder: &str, target: &Path) -> Result<()> {
    std::fs::create_dir_all(target).doing(|| format!("making {}", target.display()))?;
    mount_new("hostfs", target, Some(folder))
        .doing(|| format!("mounting the machine's {folder} on {}", target.display()))
}

/// Unmounts and removes the mount point `target` of [`mount_host_folder`]. Returns a path through which only
/// this process can still reach the host's folder.
pub fn hide_host_folder(target: &Path) -> Result<PathBuf> {
    let doing = || format!("hiding {}", target.display());
    let folder = File::open(target).doing(doing)?;
    umount2(target, MntFlags::MNT_DETACH).doing(doing)?;
    std::fs::remove_dir(target).doing(doing)?;
    Ok(format!("/proc/self/fd/{}", folder.into_raw_fd()).into())
}

/// Writes the dirty pages of `file` back (`sync_file_range`). On `hostfs` this writes to the host's file,
/// without an fsync on the host. Fails with ENOSPC if the host's disk is full.
pub fn write_back(file: &File) -> Result<()> {
    const NOW: u32 = libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call takes no pointers, and the descriptor stays open during the call.
    check(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, NOW) })
        .map(drop)
        .doing(|| "writing a file's pages back".into())
}

/// Writes all changed files in a folder mounted by [`mount_host_folder`] back to the host (`syncfs`). Fails
/// with ENOSPC if the host's disk is full.
pub fn write_back_folder(target: &Path) -> Result<()> {
    let doing = || format!("writing files to the machine's folder of {}", target.display());
    let folder = File::open(target).doing(doing)?;
    nix::unistd::syncfs(folder).doing(doing)
}

/// Sets the wall clock to `seconds` since 1970.
pub fn set_wall_clock(seconds: i64) -> Result<()> {
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::new(seconds, 0)).doing(|| "setting the clock".into())
}

/// Powers the machine off.
pub fn power_off() -> ! {
    let _ = reboot(RebootMode::RB_POWER_OFF);
    // Without CAP_SYS_BOOT, reboot fails. When PID 1 exits, the kernel panics and so ends (panic=-1).
    std::process::exit(70)
}
