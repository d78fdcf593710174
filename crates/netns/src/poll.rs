//! Waiting for descriptors with nanosecond time-outs, and waking a waiting thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;

/// Waits until one of `descriptors` is readable or `timeout_ns` are over (None: for ever).
///
/// # Errors
/// As `ppoll`; an interrupting signal is not an error, just an early return.
pub fn wait_readable(descriptors: &[BorrowedFd<'_>], timeout_ns: Option<u64>) -> io::Result<()> {
    let mut polled: Vec<_> = descriptors.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    let timeout =
        timeout_ns.map(|ns| TimeSpec::new((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64));
    match ppoll(&mut polled, timeout, None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Wakes a thread that waits in [`wait_readable`] for it.
pub struct Waker(EventFd);

impl Waker {
    /// A waker that is not signalled.
    ///
    /// # Errors
    /// Where there are no more descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?))
    }

    /// Makes it readable.
    pub fn wake(&self) {
        let _ = self.0.write(1);
    }

    /// Makes it unreadable again.
    pub fn clear(&self) {
        let _ = self.0.read();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
