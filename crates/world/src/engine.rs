//! The clocks of the two engines.

use std::thread;
use std::time::Duration;

use fastopen_netns::clock::{exact_timers, monotonic_ns};
use fastopen_netns::{Result, init};

use crate::contract::Engine;

/// How long before a packet is due the link's thread polls the clock instead of sleeping in real time: a
/// sleeping virtual machine mostly wakes within it.
const SPIN_NS: u64 = 200_000;
/// When a job begins in virtual time: 2011-12-06 00:00 UTC, in seconds since 1970.
const VIRTUAL_START_S: i64 = 1_323_129_600;
/// The same of jobs whose bodies name hosts as they were recorded: 2036-01-01. Chromium asks hosts of its
/// HSTS preload list over https, unless it was built more than ten weeks ago (`IsBuildTimely` of
/// `net/http/transport_security_state.cc`).
const RECORDED_START_S: i64 = 2_082_758_400;
/// Loads in virtual time begin at a multiple of this on the monotonic clock: 4096 ticks of a kernel with HZ
/// 250, the coarsest granularity of its timer wheel that matters (kernel/time/timer.c: expiries are rounded
/// up to 8, 64, 512 or 4096 ticks since boot, by their distance). So every load meets the wheel in the same
/// phase, whatever was loaded before.
const TIMER_WHEEL_PERIOD_NS: u64 = 4096 * 4_000_000;

/// How far apart a browser's requests of one moment reach its network stack in virtual time. On a real
/// machine each takes the browser about as long, so that one is on its way before the next one comes.
const REQUEST_SPACING: Duration = Duration::from_micros(100);

/// How long before a packet is due the link's thread polls the clock instead of sleeping. Virtual time
/// advances only while all threads sleep.
pub fn spin_ns(engine: Engine) -> u64 {
    match engine {
        Engine::Host => SPIN_NS,
        Engine::Virtual => 0,
    }
}

/// The client port of a load's first connection; none: the kernel's choice, which depends on earlier
/// connections.
pub fn first_port(engine: Engine) -> Option<u16> {
    (engine == Engine::Virtual).then_some(10_240)
}

/// Sets the clocks of the engine to those at the beginning of every job; one with recorded bodies begins
/// later.
///
/// # Errors
/// Where the clock cannot be set.
pub fn begin_job(engine: Engine, recorded: bool) -> Result<()> {
    match engine {
        Engine::Host => Ok(()),
        Engine::Virtual => {
            exact_timers();
            wait_for_timer_wheel();
            init::set_wall_clock(if recorded { RECORDED_START_S } else { VIRTUAL_START_S })
        }
    }
}

/// How far apart requests that a browser has paused go on at least.
pub fn request_spacing(engine: Engine) -> Duration {
    match engine {
        Engine::Host => Duration::ZERO,
        Engine::Virtual => REQUEST_SPACING,
    }
}

/// Waits for the phase of the timer wheel at which every load begins, and so much longer.
pub fn begin_load(engine: Engine, start_phase: Duration) {
    if engine == Engine::Virtual {
        wait_for_timer_wheel();
        thread::sleep(start_phase);
    }
}

fn wait_for_timer_wheel() {
    thread::sleep(Duration::from_nanos(TIMER_WHEEL_PERIOD_NS - monotonic_ns() % TIMER_WHEEL_PERIOD_NS));
}
