//! The monotonic clock in nanoseconds, and timers as exact as the kernel has them.

use std::io;

use nix::time::{ClockId as Clock, clock_gettime};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::poll::Timer;

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

/// Waits inside a tokio runtime until `at_ns` of the monotonic clock; a time past is over at once. Who waits often keeps an
/// [`Alarm`].
///
/// # Errors
/// Where there are no descriptors left.
pub async fn sleep_until(at_ns: u64) -> io::Result<()> {
    if at_ns <= monotonic_ns() {
        return Ok(());
    }
    Alarm::new()?.wait_until(at_ns).await
}

/// A timer for one task of a tokio runtime. Tokio's own rounds up to a millisecond, this one does not.
pub struct Alarm(AsyncFd<Timer>);

impl Alarm {
    /// An alarm that is not set. To be called inside the runtime.
    ///
    /// # Errors
    /// Where there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the AsyncFd owns the timer, whose descriptor stays the same and open as long as it lives.
        let timer = unsafe { AsyncFd::register_with_interest(Timer::new()?, Interest::READABLE) };
        Ok(Self(timer.map_err(io::Error::from)?))
    }

    /// Waits until `at_ns` of the monotonic clock; a time past is over at once. May be given up, and waited for again at no cost
    /// when the time is the same.
    ///
    /// # Errors
    /// Where the kernel refuses the time.
    pub async fn wait_until(&mut self, at_ns: u64) -> io::Result<()> {
        while monotonic_ns() < at_ns {
            self.0.get_mut().set(Some(at_ns))?;
            // It may have rung for an earlier time that nobody waited for.
            self.0.readable().await?.clear_ready();
        }
        Ok(())
    }
}
