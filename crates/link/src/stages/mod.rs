//! What a direction is asked to be, what may not be asked, and the stages that follow from it.

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
pub use random_loss::{Loss, LossError};
pub use trace::{OPPORTUNITY_BYTES, Trace, TraceError};

use crate::Nanos;
use crate::path::{Crossing, Way};
use crate::stage::{Datagram, Stage};
use crate::stages::aqm::Managed;
use crate::stages::flow_queues::FlowQueues;

/// Everything that decides how one direction treats packets. The default is an unshaped one, which passes
/// every packet on at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DirectionConfig {
    /// Propagation delay, one way.
    pub delay: Nanos,
    /// How fast packets are put on the wire.
    pub rate: Rate,
    /// How many bytes may wait behind the packet that is being serialised (see `stages/tail_drop.rs` for what
    /// tbf, netem and Mahimahi count); `None` for no limit.
    pub queue_limit_bytes: Option<u64>,
    /// Which of the packets that wait the queue drops.
    pub aqm: Aqm,
    /// Share of packets that are lost at random.
    pub loss: Loss,
    /// How the delay varies from packet to packet.
    pub jitter: Option<Jitter>,
    /// Whether packets may overtake each other where the delay varies.
    pub reorder: bool,
    /// Where all randomness comes from: the same seed treats the same packets, counted in order of offering,
    /// the same.
    pub seed: u64,
}

impl DirectionConfig {
    /// The direction as far as a few probes can tell it: nothing is left to chance, the queue drops at its
    /// tail, and where packets leave at the times of a trace, which a probe meets at any point, only the
    /// delay is there.
    #[must_use]
    pub fn measurable(&self) -> Self {
        let rate = match &self.rate {
            Rate::Trace(_) => Rate::Unlimited,
            rate => rate.clone(),
        };
        Self { delay: self.delay, rate, queue_limit_bytes: self.queue_limit_bytes, ..Self::default() }
    }
}

/// The stages in the order in which packets meet them.
///
/// The middlebox has the long way between itself and the client: it is before all that is done to packets
/// down, and between the access link and the delay up.
pub(crate) fn stages<P: Datagram>(
    config: &DirectionConfig,
    start: Nanos,
    crossing: Option<Crossing<P>>,
) -> Vec<Box<dyn Stage<P>>> {
    let mut stages: Vec<Box<dyn Stage<P>>> = Vec::new();
    let (before, after) = match crossing {
        Some(crossing) if crossing.way() == Way::Down => (Some(crossing), None),
        crossing => (None, crossing),
    };
    stages.extend(before.map(|crossing| Box::new(crossing) as Box<dyn Stage<P>>));
    if config.loss != Loss::NONE {
        stages.push(Box::new(random_loss::RandomLoss::new(config.loss, config.seed)));
    }
    let limit = config.queue_limit_bytes;
    match config.aqm {
        _ if config.rate == Rate::Unlimited => {}
        Aqm::None => stages.push(Box::new(tail_drop::TailDrop::new(limit))),
        Aqm::CoDel => stages.push(Box::new(Managed::new(codel::CodelQueue::default(), limit))),
        Aqm::FqCodel => stages.push(Box::new(Managed::new(FlowQueues::fq_codel(config.seed), limit))),
        Aqm::Drr => stages.push(Box::new(Managed::new(FlowQueues::drr(config.seed), limit))),
    }
    match &config.rate {
        Rate::Unlimited => {}
        Rate::BitPerS(bit_per_s) => stages.push(Box::new(serialiser::FixedRate::new(*bit_per_s))),
        Rate::Trace(trace) => stages.push(Box::new(trace::Opportunities::new(trace.clone(), start))),
    }
    stages.extend(after.map(|crossing| Box::new(crossing) as Box<dyn Stage<P>>));
    stages.push(Box::new(delay::Delay::new(config.delay, config.jitter, config.reorder, config.seed)));
    stages
}

/// How fast packets leave. Bytes are those of IP packets, without an Ethernet header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Rate {
    /// No serialisation time, hence no queue.
    #[default]
    Unlimited,
    /// A fixed rate in bit/s, which is not 0.
    BitPerS(u64),
    /// Delivery opportunities at recorded times.
    Trace(Trace),
}

impl Rate {
    /// The slowest fixed rate that may be asked for, in bit/s.
    pub const MIN_BIT_PER_S: u64 = 64_000;
    /// The fastest fixed rate that may be asked for, in bit/s.
    pub const MAX_BIT_PER_S: u64 = 1_000_000_000;
}
