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
pub struct Alarm {
    timer: AsyncFd<Handle>,
    /// When it rings.
    set_to_ns: Option<u64>,
}

impl Alarm {
    /// An alarm that is not set. To be called inside the runtime.
    ///
    /// # Errors
    /// Where there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        // SAFETY: the AsyncFd owns the timer, whose descriptor stays the same and open as long as it lives.
        let timer = unsafe { AsyncFd::register_with_interest(Handle(timer), Interest::READABLE) };
        Ok(Self { timer: timer.map_err(io::Error::from)?, set_to_ns: None })
    }

    /// Waits until `at_ns` of the monotonic clock; a time past is over at once. May be given up, and waited for again at no cost
    /// when the time is the same.
    ///
    /// # Errors
    /// Where the kernel refuses the time.
    pub async fn wait_until(&mut self, at_ns: u64) -> io::Result<()> {
        while monotonic_ns() < at_ns {
            if self.set_to_ns != Some(at_ns) {
                let at = TimeSpec::new((at_ns / 1_000_000_000) as i64, (at_ns % 1_000_000_000) as i64);
                self.timer.get_ref().0.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
                self.set_to_ns = Some(at_ns);
            }
            // It may have rung for an earlier time that nobody waited for.
            self.timer.readable().await?.clear_ready();
        }
        Ok(())
    }
}

/// A timer as tokio wants it.
struct Handle(TimerFd);

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
