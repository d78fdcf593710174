//! Packets on their way, ordered by when they are due without a packet ever overtaking one of its own host.
//!
//! Packets leave the wire in order, so those of one extra delay are due in order too: each extra delay has a lane,
//! which is a plain queue, and only the first packets of the lanes are compared. With one lane, which is the
//! common case, nothing is compared at all.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use crate::Nanos;

/// Packets that are due at known moments.
#[derive(Debug)]
pub struct Flight<P> {
    lanes: Vec<VecDeque<Packet<P>>>,
    /// The lanes by their extra delay, sorted.
    lane_of: Vec<(Nanos, usize)>,
    /// The first packet of each lane that has one.
    heads: BinaryHeap<Reverse<Head>>,
    /// How many packets were ever put in: the order among those due at one moment.
    pushed: u64,
}

#[derive(Debug)]
struct Packet<P> {
    due: Nanos,
    number: u64,
    payload: P,
}

/// Ordered by `due`, then by `number`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    due: Nanos,
    number: u64,
    lane: usize,
}

impl<P> Default for Flight<P> {
    fn default() -> Self {
        Self { lanes: Vec::new(), lane_of: Vec::new(), heads: BinaryHeap::new(), pushed: 0 }
    }
}

impl<P> Flight<P> {
    /// None on their way.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts in a packet that set out at `begins`, which never decreases from call to call; it is due after the `delay` of all,
    /// which is always the same, and the `extra_delay` of its host.
    pub fn push(&mut self, begins: Nanos, delay: Nanos, extra_delay: Nanos, payload: P) {
        let due = begins.saturating_add(delay).saturating_add(extra_delay);
        let number = self.pushed;
        self.pushed += 1;
        let lane = self.lane(extra_delay);
        let packets = &mut self.lanes[lane];
        debug_assert!(packets.back().is_none_or(|last| last.due <= due), "a packet overtook its own host");
        packets.push_back(Packet { due, number, payload });
        if packets.len() == 1 {
            self.heads.push(Reverse(Head { due, number, lane }));
        }
    }

    fn lane(&mut self, extra_delay: Nanos) -> usize {
        match self.lane_of.binary_search_by_key(&extra_delay, |&(key, _)| key) {
            Ok(at) => self.lane_of[at].1,
            Err(at) => {
                let lane = self.lanes.len();
                self.lanes.push(VecDeque::new());
                self.lane_of.insert(at, (extra_delay, lane));
                lane
            }
        }
    }

    /// When the next packet is due; `None` when nothing is on its way.
    pub fn next_due(&self) -> Option<Nanos> {
        self.heads.peek().map(|Reverse(head)| head.due)
    }

    /// Takes out the packet that is due first, if it is due by `now`, with when it was due: in order of due times, and of putting in
    /// among equal ones.
    pub fn pop(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        let mut first = self.heads.peek_mut()?;
        if first.0.due > now {
            return None;
        }
        let lane = first.0.lane;
        let packets = &mut self.lanes[lane];
        let Packet { due, payload, .. } = packets.pop_front().expect("a head stands for a packet");
        match packets.front() {
            Some(next) => *first = Reverse(Head { due: next.due, number: next.number, lane }),
            None => drop(PeekMut::pop(first)),
        }
        Some((due, payload))
    }

    /// How many packets are on their way.
    pub fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
}
