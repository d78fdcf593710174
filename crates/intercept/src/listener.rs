//! Where held system calls are read and answered.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A system call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    id: u64,
    /// The thread that made it, as this process's PID namespace numbers it.
    pub(crate) thread: i32,
    /// Its number, `SYS_*`.
    pub(crate) number: i64,
    /// Its arguments.
    pub(crate) arguments: [u64; 6],
}

impl Call {
    /// The descriptor that all the calls held here have as their first argument.
    pub(crate) fn descriptor(&self) -> i32 {
        self.arguments[0] as i32
    }
}

/// The supervisor's end of the filter.
pub(crate) struct Listener(OwnedFd);

impl Listener {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        // SYNC_WAKE_UP (Linux 6.6): whoever is woken may run on this core at once, since this thread is about to wait.
        // SAFETY: the argument is a number, and an older kernel refuses the request.
        unsafe { libc::ioctl(descriptor.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, 1u64) };
        Self(descriptor)
    }

    /// Whether there is a held call, or nobody left who could make one; without waiting.
    pub(crate) fn ready(&self) -> PollFlags {
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut polled, PollTimeout::ZERO);
        polled[0].revents().unwrap_or(PollFlags::empty())
    }

    /// The next held call. None: it was given up (its thread was killed or interrupted) before it was read.
    pub(crate) fn receive(&self) -> io::Result<Option<Call>> {
        // SAFETY: all its fields are integers. The kernel wants zeros.
        let mut raw: libc::seccomp_notif = unsafe { mem::zeroed() };
        // SAFETY: the request's number says how many bytes the kernel writes: as many as the structure has.
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

    /// Whether the call still waits, so that its thread's number is still its own.
    pub(crate) fn waits(&self, call: &Call) -> bool {
        // SAFETY: the kernel reads eight bytes during the call.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0
        }
    }

    /// Has the kernel carry the call out.
    pub(crate) fn carry_out(&self, call: &Call) {
        self.answer(call, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    }

    /// Has the call return 0 without being carried out.
    pub(crate) fn succeed(&self, call: &Call) {
        self.answer(call, 0);
    }

    fn answer(&self, call: &Call, flags: u32) {
        let answer = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
        // A thread that is gone needs no answer.
        // SAFETY: the kernel reads the structure during the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
