//! The monotonic clock in nanoseconds, and timers as exact as the kernel has them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId as Clock, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    read(Clock::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970 (`CLOCK_REALTIME`).
pub fn realtime_ns() -> u64 {
    read(Clock::CLOCK_REALTIME)
}

fn read(clock: Clock) -> u64 {
    let time = clock_gettime(clock).expect("the kernel has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Asks the kernel to wake the calling thread at the nanosecond it asks for instead of up to 50 µs later
/// (`PR_SET_TIMERSLACK`, per thread; needs no privilege).
pub fn exact_timers() {
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// A one-shot timer as a file descriptor, for an event loop. Tokio's own timer rounds up to milliseconds.
pub struct Timer(TimerFd);

impl Timer {
    /// A disarmed timer on `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// Where the kernel has no more descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        Ok(Self(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?))
    }

    /// Makes the descriptor readable at `at_ns` of the monotonic clock (a time past: at once).
    ///
    /// # Errors
    /// As `timerfd_settime`.
    pub fn arm(&self, at_ns: u64) -> io::Result<()> {
        let at = at_ns.max(1);
        let time = TimeSpec::new((at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64);
        Ok(self.0.set(Expiration::OneShot(time), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?)
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
