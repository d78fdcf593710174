//! Propagation: every packet takes the same time from one end to the other.

use crate::Nanos;
use crate::stage::{Packet, Rest, Stage, Verdict};

/// A delay that is the same for all.
pub(crate) struct Delay(pub(crate) Nanos);

impl<P> Stage<P> for Delay {
    fn offer(&mut self, now: Nanos, _: &mut Packet<P>, _: &mut Rest<P>) -> Verdict {
        Verdict::Hold(now.saturating_add(self.0))
    }
}
