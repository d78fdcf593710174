//! Delays packets by the propagation delay, with or without random jitter for each packet.
//!
//! The distributions follow netem's `delay TIME JITTER` (tc-netem(8), `tabledist` in Linux's
//! `net/sched/sch_netem.c`). A uniform delay differs from the mean by at most the jitter. A normal delay has
//! the jitter as standard deviation. A delay is never below 0.
//!
//! netem lets packets with jitter overtake each other. With a `rate`, netem also removes the jitter of every
//! packet that waits. Here packets keep their order unless `reorder` is set: a packet that would overtake an
//! earlier packet arrives at the same time as the earlier one instead, as if a queue caused the jitter.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Deserializer};

use crate::Nanos;
use crate::stage::{Downstream, Packet, Stage, Verdict};

/// The distribution of the random delay. In JSON, the values are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Jitter {
    /// Normal, with this standard deviation in nanoseconds.
    #[serde(rename = "normal_us", deserialize_with = "from_us")]
    Normal(Nanos),
    /// Uniform, at most this number of nanoseconds below or above the mean.
    #[serde(rename = "uniform_us", deserialize_with = "from_us")]
    Uniform(Nanos),
}

fn from_us<'de, D: Deserializer<'de>>(us: D) -> Result<Nanos, D::Error> {
    Ok(Nanos::deserialize(us)?.saturating_mul(1000))
}

impl Jitter {
    /// Maximum standard deviation (normal) or maximum distance from the mean (uniform): a minute, in ns.
    pub const MAX: Nanos = 60_000_000_000;

    /// Returns the standard deviation (normal) or the maximum distance from the mean (uniform).
    pub fn size(self) -> Nanos {
        let (Self::Normal(size) | Self::Uniform(size)) = self;
        size
    }

    /// Draws the difference between the next packet's delay and the mean, in nanoseconds.
    fn draw(self, generator: &mut Xoshiro256PlusPlus) -> i64 {
        match self {
            // The sum of twelve uniform numbers is nearly normal (Irwin and Hall). It needs no logarithm,
            // which platforms round differently. With 16 bits each, the standard deviation is 2^16 and the
            // mean 6 * (2^16 - 1).
            Self::Normal(deviation) => {
                let sum: i64 = (0..3).map(|_| sum_of_four(generator.next_u64())).sum();
                ((i128::from(sum - 6 * 0xffff) * i128::from(deviation)) >> 16) as i64
            }
            Self::Uniform(most) => {
                let values = 2 * u128::from(most) + 1;
                ((u128::from(generator.next_u64()) * values) >> 64) as i64 - most as i64
            }
        }
    }
}

fn sum_of_four(draw: u64) -> i64 {
    (0..4).map(|number| ((draw >> (16 * number)) & 0xffff) as i64).sum()
}

pub(crate) struct Delay {
    mean: Nanos,
    jitter: Option<Jitter>,
    generator: Xoshiro256PlusPlus,
    /// True if packets may overtake each other. If not, no packet arrives before `last`, the latest arrival.
    reorder: bool,
    last: Nanos,
}

impl Delay {
    pub(crate) fn new(mean: Nanos, jitter: Option<Jitter>, reorder: bool, seed: u64) -> Self {
        // Keep this generator independent of the generator for losses.
        let generator = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x6a69_7474_6572_0000);
        Self { mean, jitter, generator, reorder, last: 0 }
    }
}

impl<P> Stage<P> for Delay {
    fn offer(&mut self, now: Nanos, _: &mut Packet<P>, _: &mut Downstream<P>) -> Verdict {
        let away = self.jitter.map_or(0, |jitter| jitter.draw(&mut self.generator));
        let due = now.saturating_add(self.mean.saturating_add_signed(away));
        self.last = if self.reorder { due } else { due.max(self.last) };
        Verdict::Hold(self.last)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/delay.rs"]
mod tests;
