//! Waits until a descriptor is readable or an exact time is reached, and wakes a waiting thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// Waits until one of `descriptors` is readable, a signal arrives or `timeout_ns` has passed (None: no
/// limit). Returns the events of each descriptor: none for those that are not ready. The kernel may delay the
/// timeout by a thousandth of its length (`select_estimate_accuracy`). For exact times, wait for a [`Timer`].
pub fn wait_readable(descriptors: &[BorrowedFd], timeout_ns: Option<u64>) -> io::Result<Vec<PollFlags>> {
    let mut polled: Vec<_> = descriptors.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    match ppoll(&mut polled, timeout_ns.map(time_spec), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|one| one.revents().unwrap_or(PollFlags::empty())).collect())
}

fn time_spec(ns: u64) -> TimeSpec {
    TimeSpec::new((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64)
}

/// A descriptor that becomes readable at a set time, to the nanosecond (`timerfd`).
pub struct Timer {
    timer: TimerFd,
    /// Expiry on the monotonic clock; None if the timer is not set.
    set_to_ns: Option<u64>,
}

impl Timer {
    /// Returns a timer that is not set.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        Ok(Self { timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?, set_to_ns: None })
    }

    /// Sets the timer to `at_ns` of the monotonic clock (None: disarms it).
    pub fn set(&mut self, at_ns: Option<u64>) -> io::Result<()> {
        if at_ns == self.set_to_ns {
            return Ok(());
        }
        match at_ns {
            Some(ns) => {
                self.timer.set(Expiration::OneShot(time_spec(ns)), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
            }
            None => self.timer.unset()?,
        }
        self.set_to_ns = at_ns;
        Ok(())
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_fd().as_raw_fd()
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// A descriptor (`eventfd`) that wakes a thread which waits for it in [`wait_readable`].
pub struct Waker(EventFd);

impl Waker {
    /// Returns a waker that is not signalled.
    pub fn new() -> io::Result<Self> {
        Ok(Self(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?))
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        let _ = self.0.write(1);
    }

    /// Makes the descriptor unreadable again, until the next call of [`Self::wake`].
    pub fn clear(&self) {
        let _ = self.0.read();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
