//! Whose clock runs, and what follows from that.

use std::thread;
use std::time::Duration;

use fastopen_netns::clock::{exact_timers, monotonic_ns};
use fastopen_netns::{Result, first_process};

/// Where a world is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// On this machine's kernel, in real time.
    Host,
    /// On a User-Mode Linux kernel whose clock jumps to the next timer whenever all sleep.
    Virtual,
}

/// How long before a packet is due a link in real time stops sleeping: what a sleeping virtual machine needs to wake up in most cases.
const SPIN_NS: u64 = 200_000;
/// When a job begins in virtual time: 2011-12-06 00:00 UTC, in seconds since 1970.
const VIRTUAL_START_S: i64 = 1_323_129_600;
/// Loads in virtual time begin at a multiple of this on the monotonic clock: 4096 ticks of a kernel with HZ 250. Its timer wheel rounds
/// what is to ring in a second up to 8 ticks, later ones to 64, 512 and 4096, counted since it started (kernel/time/timer.c). So
/// all timers of a load stand as they stood for the load before, and no load depends on what was loaded earlier.
const BEAT_NS: u64 = 4096 * 4_000_000;

impl Engine {
    /// As records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Virtual => "virtual",
        }
    }

    /// How long before a packet is due the link's thread watches the clock instead of sleeping. Who spins stops virtual time.
    pub fn spin_ns(self) -> u64 {
        match self {
            Self::Host => SPIN_NS,
            Self::Virtual => 0,
        }
    }

    /// The port of a load's first connection; none where the kernel is to choose. It would choose by what happened since it started.
    pub fn first_port(self) -> Option<u16> {
        (self == Self::Virtual).then_some(10_240)
    }

    /// Makes the clocks what they are at the beginning of every job.
    ///
    /// # Errors
    /// Where the clock cannot be set.
    pub fn begin_job(self) -> Result<()> {
        match self {
            Self::Host => Ok(()),
            Self::Virtual => {
                exact_timers();
                wait_for_beat();
                first_process::set_wall_clock(VIRTUAL_START_S)
            }
        }
    }

    /// Makes the clocks what they are at the beginning of every load.
    pub fn begin_load(self) {
        if self == Self::Virtual {
            wait_for_beat();
        }
    }
}

fn wait_for_beat() {
    thread::sleep(Duration::from_nanos(BEAT_NS - monotonic_ns() % BEAT_NS));
}
