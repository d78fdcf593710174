//! A delay line: packets on their way, ordered by when they are due.
//!
//! Packets of one delay are due in the order in which they set out, so they wait in a FIFO, where nothing is
//! sorted. Those that overtake its last one, as packets of nearer hosts do, wait in a sorted map beside it.

use std::collections::{BTreeMap, VecDeque};

use crate::Nanos;

/// Packets that are due at known moments.
#[derive(Debug)]
pub struct DelayLine<P> {
    fifo: VecDeque<(Key, P)>,
    overtaking: BTreeMap<Key, P>,
    /// How many packets were ever put in: the order among those due at one moment.
    pushed: u64,
}

/// When a packet is due, and its number.
type Key = (Nanos, u64);

impl<P> Default for DelayLine<P> {
    fn default() -> Self {
        Self { fifo: VecDeque::new(), overtaking: BTreeMap::new(), pushed: 0 }
    }
}

impl<P> DelayLine<P> {
    /// Puts in a packet that sets out at `begins`, which mostly grows from call to call, and is due `delay`
    /// later.
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

    /// When the next packet is due; `None` when nothing is on its way.
    pub fn next_due(&self) -> Option<Nanos> {
        self.first().map(|(due, _)| due)
    }

    /// Takes out the packet that is due first, if it is due by `now`, with when it was due: in order of due
    /// times, and of putting in among equal ones.
    pub fn pop(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        let first = self.first().filter(|(due, _)| *due <= now)?;
        let overtaking = self.overtaking.remove(&first);
        let payload = overtaking.or_else(|| Some(self.fifo.pop_front()?.1))?;
        Some((first.0, payload))
    }
}
