//! Sets the clocks for jobs and loads, and returns the settings that differ between the two engines.

use std::thread;
use std::time::Duration;

use fastopen_netns::clock::{exact_timers, monotonic_ns};
use fastopen_netns::{Result, init};

use crate::contract::Engine;

/// Time before a packet is due from which the link's thread polls the clock in real time, instead of
/// sleeping. A sleeping virtual machine usually wakes within this time.
const SPIN_NS: u64 = 200_000;
/// Wall clock at the start of a job in virtual time: 2011-12-06 00:00 UTC, in seconds since 1970.
const VIRTUAL_START_S: i64 = 1_323_129_600;
/// Wall clock at the start of a job with recorded bodies in virtual time: 2036-01-01. Chromium is then more
/// than ten weeks old, so it does not request hosts on its HSTS preload list over https (`IsBuildTimely` of
/// `net/http/transport_security_state.cc`).
const RECORDED_START_S: i64 = 2_082_758_400;
/// Period of the kernel's timer wheel: 4096 ticks of a kernel with HZ 250. Timers are rounded up to 8, 64,
/// 512 or 4096 ticks since boot, depending on their distance (kernel/time/timer.c); coarser granularities do
/// not matter. Loads in virtual time begin at a multiple of this period on the monotonic clock, so that every
/// load has the same phase of the wheel, independently of earlier loads.
const TIMER_WHEEL_PERIOD_NS: u64 = 4096 * 4_000_000;

/// Time between a browser's simultaneous requests in virtual time. A real browser takes about as long.
const REQUEST_SPACING: Duration = Duration::from_micros(200);

/// Returns how long before a packet is due the link's thread polls the clock instead of sleeping, in
/// nanoseconds. Returns 0 in virtual time, which advances only while all threads sleep.
pub fn spin_ns(engine: Engine) -> u64 {
    match engine {
        Engine::Host => SPIN_NS,
        Engine::Virtual => 0,
    }
}

/// Returns the client port of a load's first connection. In real time, returns None: the kernel's choice,
/// which depends on earlier connections.
pub fn first_port(engine: Engine) -> Option<u16> {
    (engine == Engine::Virtual).then_some(10_240)
}

/// Sets the clocks at the start of a job in virtual time. `recorded` is true for a job with recorded bodies.
///
/// # Errors
/// If the clock cannot be set.
pub fn begin_job(engine: Engine, recorded: bool) -> Result<()> {
    match engine {
        Engine::Host => Ok(()),
        Engine::Virtual => begin_at(if recorded { RECORDED_START_S } else { VIRTUAL_START_S }),
    }
}

/// Sets the virtual engine's clocks to the same state for every job or command: exact timers, a phase of the
/// timer wheel, and a wall clock of `seconds` since 1970.
///
/// # Errors
/// If the clock cannot be set.
pub fn begin_at(seconds: i64) -> Result<()> {
    exact_timers();
    wait_for_timer_wheel();
    init::set_wall_clock(seconds)
}

/// Returns the minimum time between continuing a paused request of a browser and continuing the next.
pub fn request_spacing(engine: Engine) -> Duration {
    match engine {
        Engine::Host => Duration::ZERO,
        Engine::Virtual => REQUEST_SPACING,
    }
}

/// In virtual time, waits for the phase of the timer wheel at which every load begins, and then for
/// `start_phase`. In real time, returns at once.
pub fn begin_load(engine: Engine, start_phase: Duration) {
    if engine == Engine::Virtual {
        wait_for_timer_wheel();
        thread::sleep(start_phase);
    }
}

fn wait_for_timer_wheel() {
    thread::sleep(Duration::from_nanos(TIMER_WHEEL_PERIOD_NS - monotonic_ns() % TIMER_WHEEL_PERIOD_NS));
}
