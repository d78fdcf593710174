//! Reads clocks in nanoseconds, and waits in a tokio runtime with the kernel's precision.

use std::io;

use nix::time::{ClockId as Clock, clock_gettime};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::poll::Timer;

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    read(Clock::CLOCK_MONOTONIC)
}

/// Returns `CLOCK_REALTIME` in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    read(Clock::CLOCK_REALTIME)
}

/// Returns the calling thread's CPU time in nanoseconds.
pub fn thread_ns() -> u64 {
    read(Clock::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: Clock) -> u64 {
    let time = clock_gettime(clock).expect("the kernel has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// The values of the monotonic and the real-time clock at one moment, in nanoseconds.
pub struct Clocks {
    /// `CLOCK_MONOTONIC`.
    pub monotonic: u64,
    /// `CLOCK_REALTIME`.
    pub realtime: u64,
}

impl Clocks {
    /// Reads `CLOCK_MONOTONIC`, and right after it `CLOCK_REALTIME`.
    pub fn read() -> Self {
        Self { monotonic: monotonic_ns(), realtime: realtime_ns() }
    }

    /// Converts a timestamp of the real-time clock to the monotonic clock. The result is not later than the
    /// current monotonic time (from `now`), even if the real-time clock was set back after the timestamp.
    pub fn monotonic_of(&self, realtime: u64, now: impl FnOnce() -> u64) -> u64 {
        let since = realtime as i64 - self.realtime as i64;
        let at = (self.monotonic as i64 + since).max(0) as u64;
        if at > self.monotonic { at.min(now()) } else { at }
    }
}

/// Sets the calling thread's timer slack to 1 ns (default: 50 µs; `PR_SET_TIMERSLACK`, unprivileged).
pub fn exact_timers() {
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// Waits inside a tokio runtime until `at_ns` of the monotonic clock. Returns at once if that time has
/// passed. Each call opens a descriptor; for repeated waits use one [`Alarm`].
pub async fn sleep_until(at_ns: u64) -> io::Result<()> {
    if at_ns <= monotonic_ns() {
        return Ok(());
    }
    Alarm::new()?.wait_until(at_ns).await
}

/// A timer for one task of a tokio runtime. It uses `timerfd`, because tokio's timers round up to 1 ms.
pub struct Alarm(AsyncFd<Timer>);

impl Alarm {
    /// Returns an alarm that is not set. Call this inside a tokio runtime.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the AsyncFd owns the timer, whose descriptor stays open and unchanged while it lives.
        let timer = unsafe { AsyncFd::register_with_interest(Timer::new()?, Interest::READABLE) };
        Ok(Self(timer.map_err(io::Error::from)?))
    }

    /// Sets the timer to wake the runtime at `at_ns` of the monotonic clock. Does not wait for that time.
    pub fn set(&mut self, at_ns: u64) -> io::Result<()> {
        self.0.get_mut().set(Some(at_ns))
    }

    /// Waits until `at_ns` of the monotonic clock. Returns at once if that time has passed. Cancel-safe: a
    /// later wait for the same time does not set the timer again.
    pub async fn wait_until(&mut self, at_ns: u64) -> io::Result<()> {
        while monotonic_ns() < at_ns {
            self.0.get_mut().set(Some(at_ns))?;
            // The descriptor may be ready because of an earlier wait that was cancelled.
            self.0.readable().await?.clear_ready();
        }
        Ok(())
    }
}
