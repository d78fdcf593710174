//! What a direction is asked to be, and what may not be asked.

use crate::{Loss, Nanos, Trace};

/// Everything that decides how one direction treats packets.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionConfig {
    /// Propagation delay, one way.
    pub delay: Nanos,
    /// How fast packets are put on the wire.
    pub rate: Rate,
    /// How many bytes may wait behind the packet that is being serialised; `None` for no limit.
    ///
    /// A packet is dropped when it would have to wait and the waiting bytes with it would exceed the limit
    /// (`waiting + packet <= limit` is accepted). The packet on the wire does not count, as in Mahimahi's
    /// droptail queue, which a packet leaves when its transmission starts, and as in a router, where it sits in
    /// the transmit ring. Linux's tbf uses the same comparison, but a packet stays in its queue until the
    /// tokens for all of it are there, so there the packet on the wire counts too: the same behaviour needs a
    /// `limit` larger by one packet there. netem's `limit` counts packets, those in propagation included, and
    /// corresponds to nothing here.
    pub queue_limit_bytes: Option<u64>,
    /// Share of packets that are lost at random.
    pub loss: Loss,
    /// Where the random losses come from: the same seed loses the same packets, counted in order of offering.
    pub seed: u64,
}

/// How fast packets leave. Bytes are those of IP packets, without an Ethernet header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rate {
    /// No serialisation time, hence no queue.
    Unlimited,
    /// A fixed rate in bit/s, within [`Rate::MIN_BIT_PER_S`] and [`Rate::MAX_BIT_PER_S`].
    BitPerS(u64),
    /// Delivery opportunities at recorded times.
    Trace(Trace),
}

impl Rate {
    /// The slowest fixed rate, in bit/s.
    pub const MIN_BIT_PER_S: u64 = 64_000;
    /// The fastest fixed rate, in bit/s.
    pub const MAX_BIT_PER_S: u64 = 1_000_000_000;

    /// # Errors
    /// [`ConfigError::Rate`] when a fixed rate is out of bounds.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match *self {
            Self::BitPerS(bit_per_s) if !(Self::MIN_BIT_PER_S..=Self::MAX_BIT_PER_S).contains(&bit_per_s) => {
                Err(ConfigError::Rate { bit_per_s })
            }
            _ => Ok(()),
        }
    }
}

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A fixed rate outside what is supported.
    #[error(
        "rate of {bit_per_s} bit/s is not within {min} and {max} bit/s",
        min = Rate::MIN_BIT_PER_S,
        max = Rate::MAX_BIT_PER_S
    )]
    Rate {
        /// The rate asked for.
        bit_per_s: u64,
    },
    /// A loss ratio outside what is supported.
    #[error("loss of {ratio} is not within 0 and {max}", max = Loss::MAX_RATIO)]
    Loss {
        /// The ratio asked for.
        ratio: f64,
    },
}
