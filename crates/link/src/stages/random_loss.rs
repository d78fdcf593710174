//! Drops packets at random before the queue. A lost packet takes up neither queue space nor transmission
//! time, as with `loss` in Linux's netem and `mm-loss` in Mahimahi.

use crate::draws::Draws;
use crate::stage::{Downstream, Packet, Stage, Verdict};
use crate::{DropCause, Nanos};

pub(crate) struct RandomLoss(Draws);

impl RandomLoss {
    /// Loses the share `ratio` of the packets.
    pub(crate) fn new(ratio: f64, seed: u64) -> Self {
        Self(Draws::new(ratio, seed))
    }
}

impl<P> Stage<P> for RandomLoss {
    fn offer(&mut self, _: Nanos, _: &mut Packet<P>, _: &mut Downstream<P>) -> Verdict {
        if self.0.draw() { Verdict::Drop(DropCause::Loss) } else { Verdict::Pass }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/random_loss.rs"]
mod tests;
