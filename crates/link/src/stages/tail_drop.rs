//! A tail-drop queue: first in, first out, limited in bytes of what waits.
//!
//! A packet is dropped when it would have to wait and the waiting bytes with it would exceed the limit
//! (`waiting + packet <= limit` is accepted). The packet on the wire does not count, as in Mahimahi's
//! droptail queue, which a packet leaves when its transmission starts, and as in a router, where it sits in
//! the transmit ring. Linux's tbf uses the same comparison, but a packet stays in its queue until the tokens
//! for all of it are there, so there the packet on the wire counts too: the same behaviour needs a `limit`
//! larger by one packet there. netem's
//! `limit` counts packets, those in propagation included, and corresponds to nothing here.

use std::collections::VecDeque;

use crate::stage::{Downstream, Packet, Stage, Verdict};
use crate::{DropCause, Nanos};

/// A packet waits from its offering until its serialisation begins, which is known when it is offered:
/// nothing that comes later changes it.
pub(crate) struct TailDrop {
    limit_bytes: u64,
    bytes: u64,
    /// When each waiting packet's serialisation begins, and its bytes; the earliest first.
    packets: VecDeque<(Nanos, u32)>,
}

impl TailDrop {
    /// `None` for no limit.
    pub(crate) fn new(limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes: limit_bytes.unwrap_or(u64::MAX), bytes: 0, packets: VecDeque::new() }
    }

    /// Lets go of the packets whose serialisation has begun by `now`.
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
