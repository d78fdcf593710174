//! Implements `CoDel`, controlled delay (RFC 8289). It drops packets at the head of the queue once their
//! sojourn time has been above a target for a whole interval, and drops more often the longer this lasts.
//!
//! Names and steps follow the pseudocode in section 5 of the RFC. The constants are from section 4.4, and are
//! also Linux's defaults (tc-codel(8)).

use std::collections::VecDeque;

use super::aqm::ManagedQueue;
use crate::stage::Packet;
use crate::{DropCause, Nanos, Stats};

/// The acceptable standing queueing delay: 5 ms.
const TARGET: Nanos = 5_000_000;
/// The time for which the delay may exceed the target: 100 ms, longer than the round trips of most paths.
const INTERVAL: Nanos = 100_000_000;
/// Bytes of a full packet. `CoDel` drops nothing while at most this many bytes wait, to keep the wire busy.
pub(super) const MAXPACKET: u64 = 1500;

/// A queue, and `CoDel`'s state, which decides when packets of the queue are dropped.
pub(super) struct CodelQueue<P> {
    packets: VecDeque<(Nanos, Packet<P>)>,
    bytes: u64,
    /// Time at which dropping may start, an interval after the delay rose above the target; `None` while the
    /// delay is below the target, or while at most one full packet waits.
    first_above_time: Option<Nanos>,
    dropping: bool,
    drop_next: Nanos,
    count: u32,
    lastcount: u32,
}

impl<P> Default for CodelQueue<P> {
    fn default() -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: 0,
            first_above_time: None,
            dropping: false,
            drop_next: 0,
            count: 0,
            lastcount: 0,
        }
    }
}

impl<P> CodelQueue<P> {
    pub(super) fn push(&mut self, now: Nanos, packet: Packet<P>) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back((now, packet));
    }

    pub(super) fn pop(&mut self) -> Option<(Nanos, Packet<P>)> {
        let first = self.packets.pop_front()?;
        self.bytes -= u64::from(first.1.bytes);
        Some(first)
    }

    /// Drops packets as `CoDel` requires, then takes the next one. Other flows' queues hold `backlog` bytes.
    pub(super) fn dequeue(&mut self, now: Nanos, backlog: u64, stats: &mut Stats) -> Option<Packet<P>> {
        let mut taken = self.dodequeue(now, backlog);
        if self.dropping {
            self.dropping = taken.ok_to_drop;
            while self.dropping && now >= self.drop_next {
                taken = self.drop_and_dequeue(taken, now, backlog, stats);
                self.count += 1;
                self.dropping = taken.ok_to_drop;
                if self.dropping {
                    self.drop_next = control_law(self.drop_next, self.count);
                }
            }
        } else if taken.ok_to_drop {
            taken = self.drop_and_dequeue(taken, now, backlog, stats);
            self.dropping = true;
            // If the last dropping state ended recently, start near its drop rate, which was about right.
            let delta = self.count - self.lastcount;
            let soon = now.saturating_sub(self.drop_next) < 16 * INTERVAL;
            self.count = if delta > 1 && soon { delta } else { 1 };
            self.drop_next = control_law(now, self.count);
            self.lastcount = self.count;
        }
        taken.packet
    }

    fn dodequeue(&mut self, now: Nanos, backlog: u64) -> Taken<P> {
        let Some((came, packet)) = self.pop() else {
            self.first_above_time = None;
            return Taken { packet: None, ok_to_drop: false };
        };
        let short = now - came < TARGET || self.bytes + backlog <= MAXPACKET;
        let ok_to_drop = match self.first_above_time {
            _ if short => {
                self.first_above_time = None;
                false
            }
            None => {
                self.first_above_time = Some(now + INTERVAL);
                false
            }
            Some(time) => now >= time,
        };
        Taken { packet: Some(packet), ok_to_drop }
    }

    fn drop_and_dequeue(&mut self, taken: Taken<P>, now: Nanos, backlog: u64, stats: &mut Stats) -> Taken<P> {
        if let Some(packet) = taken.packet {
            stats.count_drop(DropCause::Queue, packet.bytes);
        }
        self.dodequeue(now, backlog)
    }
}

/// A packet taken from the queue, if any, and whether it may be dropped (`dodequeue_result` in RFC 8289).
struct Taken<P> {
    packet: Option<Packet<P>>,
    ok_to_drop: bool,
}

fn control_law(time: Nanos, count: u32) -> Nanos {
    time + (INTERVAL * INTERVAL / u64::from(count)).isqrt()
}

impl<P: Send> ManagedQueue<P> for CodelQueue<P> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn enqueue(&mut self, now: Nanos, packet: Packet<P>, limit_bytes: u64, stats: &mut Stats) {
        if self.bytes + u64::from(packet.bytes) <= limit_bytes {
            self.push(now, packet);
        } else {
            stats.count_drop(DropCause::Queue, packet.bytes);
        }
    }

    fn dequeue(&mut self, now: Nanos, stats: &mut Stats) -> Option<Packet<P>> {
        self.dequeue(now, 0, stats)
    }
}
