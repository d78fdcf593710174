//! What the first process of a kernel does before and after its work: file systems, the clock, the power.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};

use crate::namespace::mount_scratch;
use crate::{Doing, Result, check};

/// Mounts what programs expect to find: `/proc`, `/sys`, and memory for files on [`scratch`](crate::namespace::scratch) and `/run`.
///
/// # Errors
/// Where the kernel lacks a file system, or the root has no such folder.
pub fn mount_system() -> Result<()> {
    let place = |kind: &str, target: &str| {
        mount(Some(kind), target, Some(kind), MsFlags::empty(), None::<&str>)
            .doing(|| format!("mounting {kind} on {target}"))
    };
    place("proc", "/proc")?;
    place("sysfs", "/sys")?;
    if Path::new("/run").is_dir() {
        place("tmpfs", "/run")?;
    }
    mount_scratch()
}

/// Mounts a folder of the machine that runs a User-Mode Linux kernel at `target`, to be written to.
///
/// # Errors
/// Where this is another kind of kernel, or the folder cannot be reached.
pub fn mount_host_folder(folder: &str, target: &Path) -> Result<()> {
    std::fs::create_dir_all(target).doing(|| format!("making {}", target.display()))?;
    mount(Some("hostfs"), target, Some("hostfs"), MsFlags::empty(), Some(folder))
        .doing(|| format!("mounting the machine's {folder} on {}", target.display()))
}

/// Has what was written to `file` go to where it belongs, without waiting for a disk.
///
/// # Errors
/// Where it cannot be written there, such as on a full disk.
pub fn hand_over(file: &File) -> Result<()> {
    const NOW: u32 = libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: no pointers; the descriptor is open for the call.
    check(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, NOW) })
        .map(drop)
        .doing(|| "handing a file's content over".into())
}

/// Sets the wall clock, in seconds since 1970.
///
/// # Errors
/// Where this process may not.
pub fn set_wall_clock(seconds: i64) -> Result<()> {
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::new(seconds, 0)).doing(|| "setting the clock".into())
}

/// Ends the kernel.
pub fn power_off() -> ! {
    let _ = reboot(RebootMode::RB_POWER_OFF);
    // Without the right to: the end of the first process ends the kernel as well, if less politely.
    std::process::exit(70)
}
