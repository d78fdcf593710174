//! Draws random decisions, such as the loss of a packet, from a seed.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A generator of independent booleans. Each is true with the same probability.
///
/// The generator is xoshiro256++ seeded through `SplitMix64`, as its authors advise
/// (<https://prng.di.unimi.it/>). Each decision uses one random number, whatever its probability. So with the
/// same seed, a decision that is true with one probability is also true with every larger probability.
pub(crate) struct Draws {
    generator: Xoshiro256PlusPlus,
    /// A decision is true if its random 64-bit number is below this threshold.
    threshold: u64,
}

impl Draws {
    /// Creates a generator of booleans that are true with probability `ratio` (0 to 1), from `seed`.
    pub(crate) fn new(ratio: f64, seed: u64) -> Self {
        const NUMBERS: f64 = 18_446_744_073_709_551_616.0; // 2^64
        Self { generator: Xoshiro256PlusPlus::seed_from_u64(seed), threshold: (ratio * NUMBERS) as u64 }
    }

    pub(crate) fn draw(&mut self) -> bool {
        self.generator.next_u64() < self.threshold
    }
}
