//! A delay line: packets on their way, ordered by when they are due.
//!
//! Packets of one delay are due in the order in which they set out, so each delay has a lane, which is a
//! plain queue, and only the first packets of the lanes are compared. With one lane, which is the common
//! case, nothing is compared at all. A packet that overtakes the last one of its lane, after a jitter that
//! reorders, has a lane to itself.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use crate::Nanos;

/// Packets that are due at known moments.
#[derive(Debug)]
pub struct DelayLine<P> {
    lanes: Vec<Lane<P>>,
    /// The lanes by their delay, sorted.
    lane_of: Vec<(Nanos, usize)>,
    /// Empty lanes that belong to no delay, by number.
    spare: Vec<usize>,
    /// The first packet of each lane that has one.
    heads: BinaryHeap<Reverse<Head>>,
    /// How many packets were ever put in: the order among those due at one moment.
    pushed: u64,
}

#[derive(Debug)]
struct Lane<P> {
    packets: VecDeque<Packet<P>>,
    /// Whether it belongs to a delay.
    owned: bool,
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

impl<P> Default for DelayLine<P> {
    fn default() -> Self {
        let heads = BinaryHeap::new();
        Self { lanes: Vec::new(), lane_of: Vec::new(), spare: Vec::new(), heads, pushed: 0 }
    }
}

impl<P> DelayLine<P> {
    /// None on their way.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts in a packet that sets out at `begins`, which mostly grows from call to call, and is due `delay`
    /// later.
    pub fn push(&mut self, begins: Nanos, delay: Nanos, payload: P) {
        let due = begins.saturating_add(delay);
        let number = self.pushed;
        self.pushed += 1;
        let mut lane = self.lane(delay);
        if self.lanes[lane].packets.back().is_some_and(|last| last.due > due) {
            lane = self.spare.pop().unwrap_or_else(|| self.add_lane(false));
        }
        let packets = &mut self.lanes[lane].packets;
        packets.push_back(Packet { due, number, payload });
        if packets.len() == 1 {
            self.heads.push(Reverse(Head { due, number, lane }));
        }
    }

    fn lane(&mut self, delay: Nanos) -> usize {
        match self.lane_of.binary_search_by_key(&delay, |&(key, _)| key) {
            Ok(at) => self.lane_of[at].1,
            Err(at) => {
                let lane = self.add_lane(true);
                self.lane_of.insert(at, (delay, lane));
                lane
            }
        }
    }

    fn add_lane(&mut self, owned: bool) -> usize {
        self.lanes.push(Lane { packets: VecDeque::new(), owned });
        self.lanes.len() - 1
    }

    /// When the next packet is due; `None` when nothing is on its way.
    pub fn next_due(&self) -> Option<Nanos> {
        self.heads.peek().map(|Reverse(head)| head.due)
    }

    /// Takes out the packet that is due first, if it is due by `now`, with when it was due: in order of due
    /// times, and of putting in among equal ones.
    pub fn pop(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        let mut first = self.heads.peek_mut()?;
        if first.0.due > now {
            return None;
        }
        let lane = first.0.lane;
        let Lane { packets, owned } = &mut self.lanes[lane];
        let Packet { due, payload, .. } = packets.pop_front().expect("a head stands for a packet");
        if let Some(next) = packets.front() {
            *first = Reverse(Head { due: next.due, number: next.number, lane });
        } else {
            PeekMut::pop(first);
            if !*owned {
                self.spare.push(lane);
            }
        }
        Some((due, payload))
    }
}
