//! When the wire is given to a packet: fixed rates exactly, traces by their opportunities.

use crate::trace::Opportunities;
use crate::{Nanos, Rate};

/// When the wire begins and ends to send a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) begins: Nanos,
    pub(crate) ends: Nanos,
}

#[derive(Debug)]
pub(crate) enum Serialiser {
    Unlimited,
    Fixed(FixedRate),
    Trace(Opportunities),
}

impl Serialiser {
    pub(crate) fn new(rate: Rate) -> Self {
        match rate {
            Rate::Unlimited => Self::Unlimited,
            Rate::BitPerS(bit_per_s) => Self::Fixed(FixedRate { bit_per_s, free_at: 0, remainder: 0 }),
            Rate::Trace(trace) => Self::Trace(Opportunities::new(trace)),
        }
    }

    /// Whether a packet offered `now` begins at once, without waiting. Before an opportunity of a trace every
    /// packet waits.
    pub(crate) fn is_free(&self, now: Nanos) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Fixed(fixed) => fixed.free_at <= now,
            Self::Trace(_) => false,
        }
    }

    /// Gives the wire to a packet offered `now`, after all given it before.
    pub(crate) fn take(&mut self, now: Nanos, bytes: u32) -> Slot {
        match self {
            Self::Unlimited => Slot { begins: now, ends: now },
            Self::Fixed(fixed) => fixed.take(now, bytes),
            Self::Trace(opportunities) => opportunities.take(now, bytes),
        }
    }

    /// Forgets every packet, so that the wire is free `now`; a trace goes on.
    pub(crate) fn forget(&mut self, now: Nanos) {
        match self {
            Self::Unlimited => {}
            Self::Fixed(fixed) => (fixed.free_at, fixed.remainder) = (now, 0),
            Self::Trace(opportunities) => opportunities.forget(now),
        }
    }

    /// Forgets every packet; a trace starts anew `now`.
    pub(crate) fn restart(&mut self, now: Nanos) {
        match self {
            Self::Trace(opportunities) => opportunities.restart(now),
            Self::Unlimited | Self::Fixed(_) => self.forget(now),
        }
    }
}

/// A wire of a fixed rate. While it is busy nothing is rounded away: after b bits it is free
/// `floor(b * 10^9 / rate)` ns after the busy period began, however the bits were packed.
#[derive(Debug)]
pub(crate) struct FixedRate {
    bit_per_s: u64,
    /// When all packets so far are sent, rounded down.
    free_at: Nanos,
    /// What the rounding left over, in 1/`bit_per_s` of a nanosecond.
    remainder: u64,
}

impl FixedRate {
    fn take(&mut self, now: Nanos, bytes: u32) -> Slot {
        const NANOS_PER_S_TIMES_BITS_PER_BYTE: u128 = 8_000_000_000;
        if now > self.free_at {
            (self.free_at, self.remainder) = (now, 0);
        }
        let begins = self.free_at;
        let rate = u128::from(self.bit_per_s);
        let work = u128::from(bytes) * NANOS_PER_S_TIMES_BITS_PER_BYTE + u128::from(self.remainder);
        self.free_at += (work / rate) as Nanos;
        self.remainder = (work % rate) as u64;
        Slot { begins, ends: self.free_at }
    }
}
