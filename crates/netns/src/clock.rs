//! The monotonic clock in nanoseconds, and timers as exact as the kernel has them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId as Clock, clock_gettime};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

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

/// Waits inside a tokio runtime until `at_ns` of the monotonic clock; a time past is over at once. Tokio's own timer rounds up
/// to a millisecond, this one does not.
///
/// # Errors
/// Where there are no descriptors left.
pub async fn sleep_until(at_ns: u64) -> io::Result<()> {
    if at_ns <= monotonic_ns() {
        return Ok(());
    }
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
    let at = TimeSpec::new((at_ns / 1_000_000_000) as i64, (at_ns % 1_000_000_000) as i64);
    timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
    // SAFETY: the AsyncFd owns the timer, whose descriptor stays the same and open as long as it lives.
    let ready = unsafe { AsyncFd::register_with_interest(Handle(timer), Interest::READABLE) };
    ready.map_err(io::Error::from)?.readable().await.map(drop)
}

/// A timer as tokio wants it.
struct Handle(TimerFd);

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
