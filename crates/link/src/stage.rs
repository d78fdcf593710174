//! Defines the stages of a direction. A stage sees the time and a packet, and decides whether the packet
//! passes, is held until a given time, is dropped, is sent back as an answer, or is kept in the stage.
//!
//! Most stages decide at once when a packet leaves them. So a packet passes through all of them in one call,
//! ahead of time, and needs only one timer, for its release. A queue that may drop a packet when it dequeues
//! it (an AQM) keeps the packet instead, and releases it when the next stage is free.
//!
//! To add a stage, add a file to `stages/`, and create the stage in `stages()` (`stages/mod.rs`).

use crate::{DropCause, Nanos, Stats};

/// The contents of a packet on the emulated link, which the model of the link can read and change.
pub trait Datagram: Send + 'static {
    /// Returns the IP packet, starting with its version field, for stages that classify flows or rewrite
    /// headers in place. The default is an empty slice, for payloads without contents.
    ///
    /// A stage cannot shorten the slice. To shorten a packet, it sets [`Packet::bytes`] and the length in the
    /// IP header. The receiver trims the packet to this length (`ip_rcv` in Linux's `net/ipv4/ip_input.c`).
    fn ip(&mut self) -> &mut [u8] {
        &mut []
    }
}

impl Datagram for Vec<u8> {
    fn ip(&mut self) -> &mut [u8] {
        self
    }
}

// Payloads without contents, for models that need only sizes and times.
impl Datagram for () {}
impl Datagram for u64 {}
impl Datagram for usize {}
impl Datagram for &'static str {}

/// A packet on its way through the stages.
#[derive(Debug)]
pub struct Packet<P> {
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// One-way delay between the link and the packet's host, added after the last stage.
    pub extra_delay: Nanos,
    /// The payload, such as the packet's bytes.
    pub payload: P,
}

/// A stage's decision on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Pass the packet on to the next stage at once.
    Pass,
    /// Pass the packet on to the next stage at this time.
    Hold(Nanos),
    /// Drop the packet.
    Drop(DropCause),
    /// Send the packet in the other direction: the stage turned it into an answer
    /// ([`crate::Direction::take_answer`]).
    Answer,
    /// Pass the packet to [`Stage::keep`]. The stage releases or drops it later ([`Stage::next_due`]).
    Keep,
}

/// A stage that the packets of one direction of the link pass, such as random loss, a queue or a delay.
pub trait Stage<P>: Send {
    /// Decides whether to pass, hold, drop, answer or keep a packet that arrives at `now`. `now` must not
    /// decrease between calls, so only a direction's last stage may release held packets out of order.
    fn offer(&mut self, now: Nanos, packet: &mut Packet<P>, downstream: &mut Downstream<P>) -> Verdict;

    /// Returns the earliest time, `now` or later, at which the stage can take a packet (back pressure). An
    /// earlier stage that keeps packets releases the next packet at this time.
    fn free_at(&mut self, now: Nanos) -> Nanos {
        now
    }

    /// Stores a packet for which [`Stage::offer`] returned [`Verdict::Keep`].
    fn keep(&mut self, _now: Nanos, _packet: Packet<P>, _rest: &mut Downstream<P>) {
        unreachable!("a stage that keeps packets takes them");
    }

    /// Returns the time of the next [`Stage::release`]; `None` if the stage keeps no packet.
    /// [`crate::Direction`] calls this after each [`Stage::keep`] and [`Stage::release`].
    fn next_due(&mut self, _rest: &mut Downstream<P>) -> Option<Nanos> {
        None
    }

    /// Removes and returns a packet that this stage keeps, or `None` if the stage dropped every due packet.
    /// The stage counts its drops in `_rest.stats`. `_now` is the time from [`Stage::next_due`].
    fn release(&mut self, _now: Nanos, _rest: &mut Downstream<P>) -> Option<Packet<P>> {
        None
    }
}

/// The part of a direction that a stage may use: the stages after it, and the packet counters.
pub struct Downstream<'a, P> {
    /// The stages after the current stage, in order.
    pub stages: &'a mut [Box<dyn Stage<P>>],
    /// The packet counters of this direction of the link.
    pub stats: &'a mut Stats,
}

impl<P> Downstream<'_, P> {
    /// Returns the earliest time, `now` or later, at which the stages after this stage can take a packet.
    pub fn free_at(&mut self, now: Nanos) -> Nanos {
        self.stages.iter_mut().fold(now, |at, stage| stage.free_at(at))
    }
}
