//! Keeps packets in a queue with active queue management (AQM), which may drop packets when it dequeues them.
//!
//! The limit applies to waiting bytes, as in the tail-drop queue. The packet on the wire is not part of the
//! queue: when the wire is free, the next packet is dequeued, which ends the packet's sojourn time.

use serde::Deserialize;

use crate::stage::{Downstream, Packet, Stage, Verdict};
use crate::{Nanos, Stats};

/// The discipline of a link's queue: the order of its packets, and the rule that drops packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aqm {
    /// Drop a packet that does not fit into the queue.
    #[default]
    None,
    /// Also drop packets that have waited for too long: `CoDel` (RFC 8289).
    #[serde(rename = "codel")]
    CoDel,
    /// `CoDel` in a queue for each flow, with priority for flows that send little: FQ-CoDel (RFC 8290).
    FqCodel,
    /// A tail-drop queue for each flow. The queues take turns, and send equal numbers of bytes (DRR).
    Drr,
}

/// A queue with active queue management (AQM). Its functions count dropped packets in `stats`.
pub(super) trait ManagedQueue<P>: Send {
    fn bytes(&self) -> u64;

    /// Adds a packet. Drops it or other packets if the queue would exceed `limit_bytes`.
    fn enqueue(&mut self, now: Nanos, packet: Packet<P>, limit_bytes: u64, stats: &mut Stats);

    /// Drops packets as the discipline requires, then removes the next packet; `None` if no packet is left.
    fn dequeue(&mut self, now: Nanos, stats: &mut Stats) -> Option<Packet<P>>;
}

/// A [`Stage`] that keeps packets in a queue with active management until the wire is free.
pub(crate) struct Managed<Q> {
    queue: Q,
    limit_bytes: u64,
    /// Start of the search in `next_due` for the next time at which the link can send a packet.
    search_from: Nanos,
}

impl<Q> Managed<Q> {
    pub(super) fn new(queue: Q, limit_bytes: Option<u64>) -> Self {
        Self { queue, limit_bytes: limit_bytes.unwrap_or(u64::MAX), search_from: 0 }
    }
}

impl<P, Q: ManagedQueue<P>> Stage<P> for Managed<Q> {
    fn offer(&mut self, _: Nanos, _: &mut Packet<P>, _: &mut Downstream<P>) -> Verdict {
        Verdict::Keep
    }

    fn keep(&mut self, now: Nanos, packet: Packet<P>, downstream: &mut Downstream<P>) {
        self.search_from = now;
        // The limit does not apply to a packet that goes on the wire at once.
        let waits = self.queue.bytes() > 0 || downstream.free_at(now) > now;
        self.queue.enqueue(now, packet, if waits { self.limit_bytes } else { u64::MAX }, downstream.stats);
        if waits {
            downstream.stats.count_waiting(self.queue.bytes());
        }
    }

    fn next_due(&mut self, downstream: &mut Downstream<P>) -> Option<Nanos> {
        (self.queue.bytes() > 0).then(|| downstream.free_at(self.search_from))
    }

    fn release(&mut self, now: Nanos, downstream: &mut Downstream<P>) -> Option<Packet<P>> {
        // Search from 1 ns earlier: a trace's opportunity at `now` may have room for further packets.
        self.search_from = now.saturating_sub(1);
        self.queue.dequeue(now, downstream.stats)
    }
}
