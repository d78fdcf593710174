//! A queue under active management (AQM): it keeps packets, and may drop one when it takes it out.
//!
//! Its length is limited in bytes of what waits, as that of the tail-drop queue. The packet on the wire is
//! out of it: the next one is taken out when the wire is free, where its sojourn time ends.

use serde::Deserialize;

use crate::stage::{Downstream, Packet, Stage, Verdict};
use crate::{DropCause, Nanos, Stats};

/// Which packets a queue drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aqm {
    /// Those for which there is no room: the queue drops at its tail.
    #[default]
    None,
    /// Those that have waited for too long, too: `CoDel` (RFC 8289).
    #[serde(rename = "codel")]
    CoDel,
    /// The same in a queue for each flow, of which those that send little go first: FQ-CoDel (RFC 8290).
    FqCodel,
    /// Those for which the queue of their flow has no room: flows are served in turn by bytes (DRR).
    Drr,
}

/// A managed queue. What it drops it counts in the [`Stats`].
pub(super) trait ManagedQueue<P>: Send {
    /// The bytes that wait.
    fn bytes(&self) -> u64;

    /// Puts in a packet, and drops what exceeds `limit_bytes`.
    fn enqueue(&mut self, now: Nanos, packet: Packet<P>, limit_bytes: u64, stats: &mut Stats);

    /// Takes out the next packet that is not dropped.
    fn dequeue(&mut self, now: Nanos, stats: &mut Stats) -> Option<Packet<P>>;
}

/// The stage of a managed queue.
pub(crate) struct Managed<Q> {
    queue: Q,
    limit_bytes: u64,
    /// As of when the wire is asked whether it is free: an opportunity of a trace serves what was there
    /// before it.
    asked: Nanos,
}

impl<Q> Managed<Q> {
    /// `None` for no limit.
    pub(super) fn new(queue: Q, limit_bytes: Option<u64>) -> Self {
        Self { queue, limit_bytes: limit_bytes.unwrap_or(u64::MAX), asked: 0 }
    }
}

impl<P, Q: ManagedQueue<P>> Stage<P> for Managed<Q> {
    fn offer(&mut self, _: Nanos, _: &mut Packet<P>, _: &mut Downstream<P>) -> Verdict {
        Verdict::Keep
    }

    fn keep(&mut self, now: Nanos, packet: Packet<P>, downstream: &mut Downstream<P>) {
        self.asked = now;
        // What goes on the wire at once takes no room.
        let waits = self.queue.bytes() > 0 || downstream.free_at(now) > now;
        self.queue.enqueue(now, packet, if waits { self.limit_bytes } else { u64::MAX }, downstream.stats);
        if waits {
            downstream.stats.count_waiting(self.queue.bytes());
        }
    }

    fn next_due(&mut self, downstream: &mut Downstream<P>) -> Option<Nanos> {
        (self.queue.bytes() > 0).then(|| downstream.free_at(self.asked))
    }

    fn release(&mut self, now: Nanos, downstream: &mut Downstream<P>) -> Option<Packet<P>> {
        self.asked = now.saturating_sub(1);
        self.queue.dequeue(now, downstream.stats)
    }
}

/// Counts a packet of a managed queue as dropped.
pub(super) fn drop_from_queue<P>(packet: &Packet<P>, stats: &mut Stats) {
    stats.count_drop(DropCause::Queue, packet.bytes);
}
