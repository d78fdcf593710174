//! A delay line: packets on their way, ordered by when they are due.
//!
//! Packets of one delay are due in the order in which they set out, so each delay has a FIFO, and only the
//! first packets of the FIFOs are compared. With one FIFO, which is the common case, nothing is compared at
//! all. A packet that overtakes the last one of its FIFO, after a jitter that reorders, has one to itself.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use crate::Nanos;

/// Packets that are due at known moments.
#[derive(Debug)]
pub struct DelayLine<P> {
    fifos: Vec<Fifo<P>>,
    /// The FIFOs by their delay, sorted.
    fifo_of: Vec<(Nanos, usize)>,
    /// Empty FIFOs that belong to no delay, by number.
    spare: Vec<usize>,
    /// The first packet of each FIFO that has one.
    heads: BinaryHeap<Reverse<Head>>,
    /// How many packets were ever put in: the order among those due at one moment.
    pushed: u64,
}

#[derive(Debug)]
struct Fifo<P> {
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
    fifo: usize,
}

impl<P> Default for DelayLine<P> {
    fn default() -> Self {
        let heads = BinaryHeap::new();
        Self { fifos: Vec::new(), fifo_of: Vec::new(), spare: Vec::new(), heads, pushed: 0 }
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
        let mut fifo = self.fifo(delay);
        if self.fifos[fifo].packets.back().is_some_and(|last| last.due > due) {
            fifo = self.spare.pop().unwrap_or_else(|| self.add_fifo(false));
        }
        let packets = &mut self.fifos[fifo].packets;
        packets.push_back(Packet { due, number, payload });
        if packets.len() == 1 {
            self.heads.push(Reverse(Head { due, number, fifo }));
        }
    }

    fn fifo(&mut self, delay: Nanos) -> usize {
        match self.fifo_of.binary_search_by_key(&delay, |&(key, _)| key) {
            Ok(at) => self.fifo_of[at].1,
            Err(at) => {
                let fifo = self.add_fifo(true);
                self.fifo_of.insert(at, (delay, fifo));
                fifo
            }
        }
    }

    fn add_fifo(&mut self, owned: bool) -> usize {
        self.fifos.push(Fifo { packets: VecDeque::new(), owned });
        self.fifos.len() - 1
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
        let fifo = first.0.fifo;
        let Fifo { packets, owned } = &mut self.fifos[fifo];
        let Packet { due, payload, .. } = packets.pop_front().expect("a head stands for a packet");
        if let Some(next) = packets.front() {
            *first = Reverse(Head { due: next.due, number: next.number, fifo });
        } else {
            PeekMut::pop(first);
            if !*owned {
                self.spare.push(fifo);
            }
        }
        Some((due, payload))
    }
}
