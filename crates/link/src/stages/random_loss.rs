//! Drops packets at random before the queue. A lost packet takes up neither queue space nor transmission
//! time, as with `loss` in Linux's netem and `mm-loss` in Mahimahi.

use crate::draws::Draws;
use crate::stage::{Downstream, Packet, Stage, Verdict};
use crate::{DropCause, Nanos};

/// The share of packets that are lost at random, from 0 to [`Loss::MAX_RATIO`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Loss(f64);

impl Loss {
    /// No loss.
    pub const NONE: Self = Self(0.0);
    /// Highest permitted loss probability.
    pub const MAX_RATIO: f64 = 0.5;

    /// Creates a loss ratio.
    ///
    /// # Errors
    /// Returns an error if `ratio` is not a number from 0 to [`Loss::MAX_RATIO`].
    pub fn new(ratio: f64) -> Result<Self, LossError> {
        if (0.0..=Self::MAX_RATIO).contains(&ratio) { Ok(Self(ratio)) } else { Err(LossError(ratio)) }
    }

    /// Returns the ratio, from 0 to [`Loss::MAX_RATIO`].
    pub fn ratio(self) -> f64 {
        self.0
    }
}

/// A loss ratio outside its bounds.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("loss of {0} is not within 0 and {max}", max = Loss::MAX_RATIO)]
pub struct LossError(f64);

pub(crate) struct RandomLoss(Draws);

impl RandomLoss {
    pub(crate) fn new(loss: Loss, seed: u64) -> Self {
        Self(Draws::new(loss.0, seed))
    }
}

impl<P> Stage<P> for RandomLoss {
    fn offer(&mut self, _: Nanos, _: &mut Packet<P>, _: &mut Downstream<P>) -> Verdict {
        if self.0.draw() { Verdict::Drop(DropCause::Loss) } else { Verdict::Pass }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(ratio: f64, seed: u64, packets: usize) -> Vec<usize> {
        let mut stage = RandomLoss::new(Loss::new(ratio).unwrap(), seed);
        (0..packets).filter(|_| stage.0.draw()).collect()
    }

    #[test]
    fn a_ratio_outside_its_bounds_or_not_a_number_is_refused() {
        for ratio in [-0.001, 0.500_001, 1.0, f64::NAN, f64::INFINITY] {
            assert!(Loss::new(ratio).is_err(), "{ratio}");
        }
        assert_eq!(Loss::new(0.7).unwrap_err().to_string(), "loss of 0.7 is not within 0 and 0.5");
    }

    #[test]
    fn the_packets_that_a_seed_loses_never_change_between_versions() {
        assert_eq!(lost(0.05, 42, 100), [44, 69, 76, 84]);
    }

    #[test]
    fn a_higher_ratio_loses_the_same_packets_and_more() {
        let few = lost(0.01, 7, 10_000);
        let many = lost(0.05, 7, 10_000);
        assert!(!few.is_empty());
        assert!(few.iter().all(|packet| many.contains(packet)));
    }

    #[test]
    fn the_bounds_of_the_ratio_lose_nothing_and_half() {
        assert!(lost(0.0, 3, 10_000).is_empty());
        let half = lost(0.5, 3, 100_000).len();
        assert!((49_000..=51_000).contains(&half), "{half}");
    }
}
