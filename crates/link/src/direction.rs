//! The way of a packet through one direction: loss, queue, wire, propagation.

use crate::flight::Flight;
use crate::loss::LossProcess;
use crate::serialiser::Serialiser;
use crate::waiting::Waiting;
use crate::{ConfigError, DirectionConfig, Nanos, Stats};

/// One direction of a link, carrying packets `P`; a buffer, a reference to one, or nothing at all.
///
/// When a packet leaves is settled when it is offered, since nothing that comes later can change it.
#[derive(Debug)]
pub struct Direction<P> {
    delay: Nanos,
    loss: LossProcess,
    waiting: Waiting,
    serialiser: Serialiser,
    flight: Flight<P>,
    stats: Stats,
    /// The latest moment that a packet was offered at.
    now: Nanos,
}

/// A packet that will not arrive, given back so that its buffer can be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("packet dropped: {cause}")]
pub struct Dropped<P> {
    /// The packet.
    pub packet: P,
    /// Why it was dropped.
    pub cause: DropCause,
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DropCause {
    /// It was lost at random.
    #[error("lost at random")]
    Loss,
    /// The queue had no room for it.
    #[error("queue full")]
    Queue,
}

impl<P> Direction<P> {
    /// An idle direction. A trace starts at time 0 of the driver's clock, or when [`Direction::restart`] says so.
    ///
    /// # Errors
    /// [`ConfigError::Rate`] when a fixed rate is out of bounds.
    pub fn new(config: DirectionConfig) -> Result<Self, ConfigError> {
        config.rate.validate()?;
        Ok(Self {
            delay: config.delay,
            loss: LossProcess::new(config.loss, config.seed),
            waiting: Waiting::new(config.queue_limit_bytes),
            serialiser: Serialiser::new(config.rate),
            flight: Flight::new(),
            stats: Stats::default(),
            now: 0,
        })
    }

    /// Offers a packet of `bytes` (its IP length) at `now`; a `now` before that of an earlier packet counts as
    /// that packet's.
    ///
    /// `extra_delay` is the one-way delay of the packet's host, beyond that of the link. Hosts with different
    /// ones overtake each other, packets with the same one never do. Each different value costs a queue that is
    /// kept, so it is for a delay of the host, not for jitter.
    ///
    /// # Errors
    /// [`Dropped`] when the packet is lost or the queue has no room for it.
    pub fn offer(&mut self, now: Nanos, bytes: u32, extra_delay: Nanos, packet: P) -> Result<(), Dropped<P>> {
        self.now = self.now.max(now);
        if self.loss.loses_next() {
            self.stats.dropped_loss += 1;
            return Err(Dropped { packet, cause: DropCause::Loss });
        }
        self.waiting.settle(self.now);
        let waits = !self.serialiser.is_free(self.now);
        if waits && !self.waiting.admits(bytes) {
            self.stats.dropped_queue += 1;
            return Err(Dropped { packet, cause: DropCause::Queue });
        }
        let slot = self.serialiser.take(self.now, bytes);
        if waits {
            self.waiting.push(slot.begins, bytes);
            self.stats.queue_bytes_max = self.stats.queue_bytes_max.max(self.waiting.bytes());
        }
        self.flight.push(slot.ends, self.delay, extra_delay, packet);
        self.stats.packets += 1;
        self.stats.bytes += u64::from(bytes);
        Ok(())
    }

    /// When the next packet is due; `None` when nothing is on its way.
    pub fn next_release(&self) -> Option<Nanos> {
        self.flight.next_due()
    }

    /// The next packet that is due at or before `now`, and when it was due: in order of due times, and of
    /// offering among equal ones. To be called until it gives `None`.
    pub fn release(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        self.flight.pop(now)
    }

    /// How many packets were accepted and not released yet.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// What was counted since the beginning or the last [`Direction::take_stats`].
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// What was counted so far; counting begins anew.
    pub fn take_stats(&mut self) -> Stats {
        std::mem::take(&mut self.stats)
    }

    /// Takes out every packet on its way, in the order in which they would have been released; the direction is
    /// idle then. Losses and a trace go on where they are, the counts stay.
    pub fn clear(&mut self) -> Vec<P> {
        self.waiting.clear();
        self.serialiser.forget(self.now);
        std::iter::from_fn(|| self.flight.pop(Nanos::MAX)).map(|(_, packet)| packet).collect()
    }

    /// Makes the direction as if it were new at `now`: clears it as [`Direction::clear`] does, starts a trace at
    /// `now`, draws losses from `seed`, and forgets the counts. So loads that are to be compared can meet the
    /// same link.
    pub fn restart(&mut self, now: Nanos, seed: u64) -> Vec<P> {
        self.now = self.now.max(now);
        let packets = self.clear();
        self.serialiser.restart(self.now);
        self.loss.reseed(seed);
        self.stats = Stats::default();
        packets
    }
}
