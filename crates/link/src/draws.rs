//! Seeded draws of yes or no, of which two ratios under one seed have nested sets.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Draws without end, each true with the same probability.
///
/// The generator is xoshiro256++ seeded through `SplitMix64`, as its authors advise
/// (<https://prng.di.unimi.it/>). Each draw takes one number, whatever the ratio: what is drawn at a ratio is
/// drawn at each larger one as well.
pub(crate) struct Draws {
    generator: Xoshiro256PlusPlus,
    /// A draw is true when its 64-bit number is below this.
    threshold: u64,
}

impl Draws {
    /// Draws that are true with a probability of `ratio`, 0 to 1.
    pub(crate) fn new(ratio: f64, seed: u64) -> Self {
        const NUMBERS: f64 = 18_446_744_073_709_551_616.0; // 2^64
        Self { generator: Xoshiro256PlusPlus::seed_from_u64(seed), threshold: (ratio * NUMBERS) as u64 }
    }
}

impl Iterator for Draws {
    type Item = bool;

    fn next(&mut self) -> Option<bool> {
        Some(self.generator.next_u64() < self.threshold)
    }
}
