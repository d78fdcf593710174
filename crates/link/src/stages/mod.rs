//! Defines the configuration of one direction of the link, and creates the stages that it requires.

mod aqm;
mod codel;
mod delay;
mod flow_queues;
mod random_loss;
mod serialiser;
mod tail_drop;
mod trace;

pub use aqm::Aqm;
pub use delay::Jitter;
pub use trace::{OPPORTUNITY_BYTES, Trace};

use crate::Nanos;
use crate::path::{Crossing, Way};
use crate::stage::{Datagram, Stage};
use crate::stages::aqm::Managed;
use crate::stages::flow_queues::FlowQueues;

/// The configuration of one direction of the link. The default forwards every packet at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DirectionConfig {
    /// One-way propagation delay.
    pub delay: Nanos,
    /// Serialisation rate.
    pub rate: Rate,
    /// Limit on the waiting bytes, excluding the packet on the wire; `None` for no limit. With DRR, each flow
    /// has this limit. See `stages/tail_drop.rs` for a comparison with tbf, netem and Mahimahi.
    pub queue_limit_bytes: Option<u64>,
    /// Queue discipline.
    pub aqm: Aqm,
    /// Share of packets that are lost at random, at most [`DirectionConfig::MAX_LOSS`].
    pub loss: f64,
    /// Random variation of the delay; `None` for a constant delay.
    pub jitter: Option<Jitter>,
    /// True if packets may overtake each other when the delay varies.
    pub reorder: bool,
    /// Seed of all randomness. The same seed gives the same result for the same sequence of packets.
    pub seed: u64,
}

impl DirectionConfig {
    /// Highest permitted [`DirectionConfig::loss`].
    pub const MAX_LOSS: f64 = 0.5;

    /// Returns a copy with only the settings that a few probe packets can measure: the delay, the fixed rate
    /// and the queue limit. A trace becomes an unlimited rate, because probes may arrive at any point of it.
    #[must_use]
    pub fn measurable(&self) -> Self {
        let rate = match &self.rate {
            Rate::Trace(_) => Rate::Unlimited,
            rate => rate.clone(),
        };
        Self { delay: self.delay, rate, queue_limit_bytes: self.queue_limit_bytes, ..Self::default() }
    }
}

/// Creates the stages of one direction of the link, in the order in which packets pass them. A trace begins
/// at `start`. A middlebox is the downlink's first stage, or comes just before the uplink's delay.
pub(crate) fn stages<P: Datagram>(
    config: &DirectionConfig,
    start: Nanos,
    middlebox: Option<Crossing<P>>,
) -> Vec<Box<dyn Stage<P>>> {
    let mut stages: Vec<Box<dyn Stage<P>>> = Vec::new();
    if config.loss > 0.0 {
        stages.push(Box::new(random_loss::RandomLoss::new(config.loss, config.seed)));
    }
    let limit = config.queue_limit_bytes;
    match config.aqm {
        _ if config.rate == Rate::Unlimited => {}
        Aqm::None => stages.push(Box::new(tail_drop::TailDrop::new(limit))),
        Aqm::CoDel => stages.push(Box::new(Managed::new(codel::CodelQueue::default(), limit))),
        aqm @ (Aqm::FqCodel | Aqm::Drr) => {
            let queues = FlowQueues::new(aqm == Aqm::FqCodel, config.seed);
            stages.push(Box::new(Managed::new(queues, limit)));
        }
    }
    match &config.rate {
        Rate::Unlimited => {}
        Rate::BitPerS(bit_per_s) => stages.push(Box::new(serialiser::FixedRate::new(*bit_per_s))),
        Rate::Trace(trace) => stages.push(Box::new(trace::Opportunities::new(trace.clone(), start))),
    }
    if let Some(middlebox) = middlebox {
        let index = if middlebox.way == Way::Down { 0 } else { stages.len() };
        stages.insert(index, Box::new(middlebox));
    }
    stages.push(Box::new(delay::Delay::new(config.delay, config.jitter, config.reorder, config.seed)));
    stages
}

/// The serialisation rate, which applies to the bytes of IP packets, without Ethernet headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Rate {
    /// No serialisation time, hence no queue.
    #[default]
    Unlimited,
    /// A fixed rate in bit/s; not 0.
    BitPerS(u64),
    /// A variable rate: the recorded times when the link can send one full packet.
    Trace(Trace),
}

impl Rate {
    /// Lowest fixed rate, in bit/s.
    pub const MIN_BIT_PER_S: u64 = 64_000;
    /// Highest fixed rate, in bit/s.
    pub const MAX_BIT_PER_S: u64 = 1_000_000_000;
}
