//! Models a wire with a fixed rate, which sends one packet after another.
//!
//! Rounding errors do not accumulate while the wire is busy: the first b bits of a busy period take
//! `floor(b * 10^9 / rate)` ns, however they are divided into packets.

use crate::Nanos;
use crate::stage::{Downstream, Packet, Stage, Verdict};

pub(crate) struct FixedRate {
    bit_per_s: u64,
    /// Time at which the last packet's transmission ends, rounded down to a nanosecond.
    free_at: Nanos,
    /// Fraction of a nanosecond by which `free_at` was rounded down, in units of 1/`bit_per_s` ns.
    remainder: u64,
}

impl FixedRate {
    pub(crate) fn new(bit_per_s: u64) -> Self {
        Self { bit_per_s, free_at: 0, remainder: 0 }
    }
}

impl<P> Stage<P> for FixedRate {
    fn free_at(&mut self, now: Nanos) -> Nanos {
        self.free_at.max(now)
    }

    fn offer(&mut self, now: Nanos, packet: &mut Packet<P>, _: &mut Downstream<P>) -> Verdict {
        const NANOS_PER_S_TIMES_BITS_PER_BYTE: u128 = 8_000_000_000;
        if now > self.free_at {
            (self.free_at, self.remainder) = (now, 0);
        }
        let rate = u128::from(self.bit_per_s);
        let work = u128::from(packet.bytes) * NANOS_PER_S_TIMES_BITS_PER_BYTE + u128::from(self.remainder);
        self.free_at += (work / rate) as Nanos;
        self.remainder = (work % rate) as u64;
        Verdict::Hold(self.free_at)
    }
}
