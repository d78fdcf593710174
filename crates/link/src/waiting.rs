//! The bytes that wait for the wire, and whether one more packet may join them.

use std::collections::VecDeque;

use crate::Nanos;

/// A packet waits from its offering until its serialisation begins, which is known when it is offered.
#[derive(Debug)]
pub(crate) struct Waiting {
    limit_bytes: Option<u64>,
    bytes: u64,
    /// When each waiting packet's serialisation begins, and its bytes; the earliest first.
    packets: VecDeque<(Nanos, u32)>,
}

impl Waiting {
    pub(crate) fn new(limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes, bytes: 0, packets: VecDeque::new() }
    }

    /// Lets go of the packets whose serialisation has begun by `now`.
    pub(crate) fn settle(&mut self, now: Nanos) {
        while let Some(&(begins, bytes)) = self.packets.front() {
            if begins > now {
                break;
            }
            self.packets.pop_front();
            self.bytes -= u64::from(bytes);
        }
    }

    pub(crate) fn admits(&self, bytes: u32) -> bool {
        self.limit_bytes.is_none_or(|limit| self.bytes + u64::from(bytes) <= limit)
    }

    pub(crate) fn push(&mut self, begins: Nanos, bytes: u32) {
        self.packets.push_back((begins, bytes));
        self.bytes += u64::from(bytes);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.bytes = 0;
    }
}
