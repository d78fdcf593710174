//! Stores the packets in flight, ordered by the times at which they are due to be released.
//!
//! Packets with equal delays are due in the order in which they were pushed, so they wait in a FIFO. A packet
//! that is due before the FIFO's last packet, because its delay is shorter, waits in a sorted map.

use std::collections::{BTreeMap, VecDeque};

use crate::Nanos;

/// A queue of packets with known due times, the earliest first.
#[derive(Debug)]
pub struct DelayLine<P> {
    fifo: VecDeque<(Key, P)>,
    overtaking: BTreeMap<Key, P>,
    /// Number of packets pushed so far, which orders packets with equal due times.
    pushed: u64,
}

/// The due time of a packet, and the number of packets pushed before it.
type Key = (Nanos, u64);

impl<P> Default for DelayLine<P> {
    fn default() -> Self {
        Self { fifo: VecDeque::new(), overtaking: BTreeMap::new(), pushed: 0 }
    }
}

impl<P> DelayLine<P> {
    /// Adds a packet due `delay` after `begins`. Adding in order of due times is faster, but not required.
    pub fn push(&mut self, begins: Nanos, delay: Nanos, payload: P) {
        let key = (begins.saturating_add(delay), self.pushed);
        self.pushed += 1;
        if self.fifo.back().is_some_and(|(last, _)| *last > key) {
            self.overtaking.insert(key, payload);
        } else {
            self.fifo.push_back((key, payload));
        }
    }

    fn first(&self) -> Option<Key> {
        let of_fifo = self.fifo.front().map(|(key, _)| *key);
        self.overtaking.keys().next().copied().into_iter().chain(of_fifo).min()
    }

    /// Returns the due time of the next packet; `None` if the line is empty.
    pub fn next_due(&self) -> Option<Nanos> {
        self.first().map(|(due, _)| due)
    }

    /// If the next packet is due by `now`, removes it and returns it with its due time; otherwise returns
    /// `None`. Packets with equal due times leave in the order in which they were pushed.
    pub fn pop(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        let first = self.first().filter(|(due, _)| *due <= now)?;
        let overtaking = self.overtaking.remove(&first);
        let payload = overtaking.or_else(|| Some(self.fifo.pop_front()?.1))?;
        Some((first.0, payload))
    }
}
