//! Receives suspended system calls from the listener of the seccomp filter, and answers them.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use fastopen_netns::poll::wait_readable;
use nix::poll::PollFlags;

/// Flag of `include/uapi/linux/seccomp.h`: the answered thread may run on this core at once, because the
/// thread that answers is about to wait.
const SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: u64 = 1;

/// A suspended (held) system call of the command. Its thread waits until [`Listener::answer`] is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    id: u64,
    /// ID of the calling thread in this process's PID namespace.
    pub(crate) thread: i32,
    /// The system call's number, a constant `SYS_*`.
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
}

impl Call {
    /// Returns the first argument, which is a descriptor in all calls that the filter suspends.
    pub(crate) fn descriptor(&self) -> i32 {
        self.arguments[0] as i32
    }
}

/// The listener of a seccomp filter: a descriptor from which the suspended calls are read.
pub(crate) struct Listener(OwnedFd);

impl Listener {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        // SAFETY: the argument is a number; kernels before Linux 6.6 return EINVAL.
        unsafe {
            libc::ioctl(
                descriptor.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP,
            )
        };
        Self(descriptor)
    }

    /// Returns POLLIN if a suspended call waits, and POLLHUP if all processes under the filter have ended.
    pub(crate) fn ready(&self) -> PollFlags {
        wait_readable(&[self.0.as_fd()], Some(0)).map_or(PollFlags::empty(), |ready| ready[0])
    }

    /// Receives the next suspended system call; `None` if its thread has been killed or interrupted.
    pub(crate) fn receive(&self) -> io::Result<Option<Call>> {
        // SAFETY: all fields of the structure are integers. The kernel requires zeros.
        let mut raw: libc::seccomp_notif = unsafe { mem::zeroed() };
        // SAFETY: the kernel writes `sizeof(struct seccomp_notif)` bytes, which the request's number encodes.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw) };
        if done < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR) => Ok(None),
                _ => Err(error),
            };
        }
        let libc::seccomp_notif { id, pid, data, .. } = raw;
        let (thread, number) = (pid as i32, i64::from(data.nr));
        Ok(Some(Call { id, thread, number, arguments: data.args }))
    }

    /// Returns true if the call is still suspended, which proves that its thread's ID has not been reused.
    pub(crate) fn is_held(&self, call: &Call) -> bool {
        // SAFETY: the kernel reads eight bytes during the call.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0
        }
    }

    /// Lets the kernel execute a suspended call if `resume` is true. Otherwise makes the call return 0.
    pub(crate) fn answer(&self, call: &Call, resume: bool) {
        let flags = if resume { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 };
        let answer = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
        // The ioctl fails with ENOENT if the thread was killed.
        // SAFETY: the kernel reads the structure during the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
