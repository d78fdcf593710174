//! Models a tail-drop queue: first in, first out, with a limit on the waiting bytes.
//!
//! A packet is dropped if it would have to wait and, with it, the waiting bytes would exceed the limit
//! (`waiting + packet <= limit` is accepted). The packet on the wire does not count. It does not count in
//! Mahimahi's droptail queue either, because a packet leaves that queue when its transmission starts, nor in
//! a router, where it is in the transmit ring.
//!
//! Linux's tbf uses the same comparison, but a packet stays in its queue until there are tokens for all of
//! the packet's bytes. So the packet on the wire counts, and tbf needs a `limit` larger by one packet.
//! netem's `limit` counts packets, including those in propagation, and has no equivalent here.

use std::collections::VecDeque;

use crate::stage::{Downstream, Packet, Stage, Verdict};
use crate::{DropCause, Nanos};

/// A first-in, first-out queue that drops an arriving packet if the packet does not fit. A packet's departure
/// time is known on arrival, because later packets do not affect it.
pub(crate) struct TailDrop {
    limit_bytes: u64,
    bytes: u64,
    /// For each waiting packet, the earliest first: when its serialisation starts, and its size in bytes.
    packets: VecDeque<(Nanos, u32)>,
}

impl TailDrop {
    pub(crate) fn new(limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes: limit_bytes.unwrap_or(u64::MAX), bytes: 0, packets: VecDeque::new() }
    }

    fn settle(&mut self, now: Nanos) {
        while let Some(&(_, bytes)) = self.packets.front().filter(|(begins, _)| *begins <= now) {
            self.packets.pop_front();
            self.bytes -= u64::from(bytes);
        }
    }
}

impl<P> Stage<P> for TailDrop {
    fn offer(&mut self, now: Nanos, packet: &mut Packet<P>, downstream: &mut Downstream<P>) -> Verdict {
        self.settle(now);
        let begins = downstream.free_at(now);
        if begins <= now {
            return Verdict::Pass;
        }
        let bytes = self.bytes + u64::from(packet.bytes);
        if bytes > self.limit_bytes {
            return Verdict::Drop(DropCause::Queue);
        }
        self.bytes = bytes;
        self.packets.push_back((begins, packet.bytes));
        downstream.stats.count_waiting(bytes);
        Verdict::Hold(begins)
    }
}
