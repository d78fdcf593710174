//! Keeps packets in flight, ordered by due time.
//!
//! Packets with equal delay are due in the order in which they set out, so they wait in a FIFO that needs no
//! sorting. A packet that overtakes the last packet, as from a nearer host, waits in a sorted map.

use std::collections::{BTreeMap, VecDeque};

use crate::Nanos;

/// A queue of packets with known due times.
#[derive(Debug)]
pub struct DelayLine<P> {
    fifo: VecDeque<(Key, P)>,
    overtaking: BTreeMap<Key, P>,
    /// Number of packets pushed so far; orders packets with equal due times.
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
    /// Adds a packet that sets out at `begins` and is due `delay` later. Pushing packets in the order of
    /// their due times is faster, but not required.
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

    /// Removes the packet that is due first if it is due by `now`, and returns it with its due time. Packets
    /// with equal due times leave in the order of their [`DelayLine::push`].
    pub fn pop(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        let first = self.first().filter(|(due, _)| *due <= now)?;
        let overtaking = self.overtaking.remove(&first);
        let payload = overtaking.or_else(|| Some(self.fifo.pop_front()?.1))?;
        Some((first.0, payload))
    }
}
