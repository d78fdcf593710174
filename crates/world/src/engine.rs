//! Implements the differences between the engines `host` (real time) and `virtual` (the virtual time of a
//! User-Mode Linux kernel): the clocks at the start of jobs and page loads, and some settings.

use std::thread;
use std::time::Duration;

use fastopen_netns::clock::{exact_timers, monotonic_ns};
use fastopen_netns::{Result, init};

use crate::contract::Engine;

/// Wall clock at the start of a job in virtual time: 2011-12-06 00:00 UTC, in seconds since 1970.
const VIRTUAL_START_S: i64 = 1_323_129_600;
/// Like `VIRTUAL_START_S`, for jobs with recorded response bodies: 2036-01-01. On that date, Chromium
/// ignores its HSTS preload list as too old (`IsBuildTimely` in `net/http/transport_security_state.cc`).
const RECORDED_START_S: i64 = 2_082_758_400;
/// Period of the kernel's timer wheel in nanoseconds: 4096 ticks of 4 ms. The longer a timer, the more the
/// kernel rounds it up: to a multiple of 8, 64, 512 or 4096 ticks since boot (kernel/time/timer.c). In
/// virtual time, every page load begins at a multiple of this period, so the rounding is always the same.
const TIMER_WHEEL_PERIOD_NS: u64 = 4096 * 4_000_000;

/// Returns the time in nanoseconds for which the link's thread polls the clock, instead of sleeping, before a
/// packet is due. Even in a virtual machine, a sleep seldom overruns by more than this time. Returns 0 in
/// virtual time, which advances only while all threads sleep.
pub fn spin_ns(engine: Engine) -> u64 {
    match engine {
        Engine::Host => 200_000,
        Engine::Virtual => 0,
    }
}

/// Returns the client port of a load's first connection; None in real time, in which the kernel chooses it.
pub fn first_port(engine: Engine) -> Option<u16> {
    (engine == Engine::Virtual).then_some(10_240)
}

/// Sets the clocks for a job in virtual time; does nothing in real time. The wall clock starts at
/// `VIRTUAL_START_S` or, if the job serves recorded response bodies (`recorded`), at `RECORDED_START_S`.
pub fn begin_job(engine: Engine, recorded: bool) -> Result<()> {
    match engine {
        Engine::Host => Ok(()),
        Engine::Virtual => begin_at(if recorded { RECORDED_START_S } else { VIRTUAL_START_S }),
    }
}

/// Prepares the virtual engine's clocks for a job or command: makes timers exact, waits for the next multiple
/// of `TIMER_WHEEL_PERIOD_NS`, and sets the wall clock to `seconds` since 1970.
pub fn begin_at(seconds: i64) -> Result<()> {
    exact_timers();
    wait_for_timer_wheel();
    init::set_wall_clock(seconds)
}

/// Returns the minimum interval in ns at which this program lets Chromium send intercepted requests: 0 in
/// real time; in virtual time, about the interval between requests of a burst in real time.
pub fn request_spacing_ns(engine: Engine) -> u64 {
    match engine {
        Engine::Host => 0,
        Engine::Virtual => 200_000,
    }
}

/// Waits until a page load may begin: in virtual time, until `start_phase_us` microseconds after the next
/// multiple of `TIMER_WHEEL_PERIOD_NS` on the monotonic clock. In real time, returns at once.
pub fn begin_load(engine: Engine, start_phase_us: u64) {
    if engine == Engine::Virtual {
        wait_for_timer_wheel();
        thread::sleep(Duration::from_micros(start_phase_us));
    }
}

fn wait_for_timer_wheel() {
    thread::sleep(Duration::from_nanos(TIMER_WHEEL_PERIOD_NS - monotonic_ns() % TIMER_WHEEL_PERIOD_NS));
}
