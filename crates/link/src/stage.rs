//! What a stage of a direction is: it sees the time and a packet, and answers pass, hold (until when) or drop
//! (why).
//!
//! A queue that can still drop a packet when it takes it out (an AQM) answers that it keeps the packet, and
//! is asked for it when the stage behind it is free. All other stages settle at once when a packet goes on.
//! So a packet runs through them ahead of time in one call, and costs no timer but that of its release.
//!
//! A new stage is a file in `stages/` and an entry in its `stages()`.

use crate::{DropCause, Nanos, Stats};

/// What a direction carries.
pub trait Datagram: Send + 'static {
    /// The IP packet from its version field on, for stages that tell flows apart or rewrite headers in place;
    /// empty where a model is fed with sizes and times alone. A stage that shortens the packet sets the
    /// header's total length, to which the receiver trims it (`ip_rcv` in Linux's `net/ipv4/ip_input.c`), and
    /// [`Packet::bytes`].
    fn ip(&mut self) -> &mut [u8];
}

impl Datagram for Vec<u8> {
    fn ip(&mut self) -> &mut [u8] {
        self
    }
}

/// Packets of sizes and times alone.
macro_rules! without_contents {
    ($($packet:ty),*) => {
        $(impl Datagram for $packet {
            fn ip(&mut self) -> &mut [u8] {
                &mut []
            }
        })*
    };
}
without_contents!((), u64, usize, &'static str);

/// A packet on its way through the stages.
#[derive(Debug)]
pub struct Packet<P> {
    /// Its IP length.
    pub bytes: u32,
    /// One-way delay of its host beyond that of the link, after the last stage.
    pub extra_delay: Nanos,
    /// What the direction carries.
    pub payload: P,
}

/// What becomes of a packet at a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on to the next stage at once.
    Pass,
    /// It goes on to the next stage at this moment.
    Hold(Nanos),
    /// It goes no further.
    Drop(DropCause),
    /// It has become the answer to itself, and goes the other way ([`crate::Direction::take_answer`]).
    Answer,
    /// The stage takes it ([`Stage::keep`]), and gives it out later or drops it ([`Stage::next_due`]).
    Keep,
}

/// One stage of a direction.
///
/// Randomness comes from a generator of the stage's own that is seeded by [`crate::DirectionConfig::seed`].
pub trait Stage<P>: Send {
    /// What becomes of a packet that reaches the stage at `now`, which never decreases from call to call. For
    /// the next stage to be promised the same, only the last stage may hold a packet for less long than the
    /// one before it.
    fn offer(&mut self, now: Nanos, packet: &mut Packet<P>, downstream: &mut Downstream<P>) -> Verdict;

    /// When the stage could take a packet that reaches it at `now`: later than `now` where it is busy (back
    /// pressure). The stage before offers its packets at such moments.
    fn free_at(&mut self, now: Nanos) -> Nanos {
        now
    }

    /// Takes a packet of which [`Stage::offer`] has answered that the stage keeps it.
    fn keep(&mut self, _now: Nanos, _packet: Packet<P>, _rest: &mut Downstream<P>) {
        unreachable!("a stage that keeps packets takes them");
    }

    /// When the stage is to release the next packet that it keeps; asked after each [`Stage::keep`] and
    /// [`Stage::release`].
    fn next_due(&mut self, _rest: &mut Downstream<P>) -> Option<Nanos> {
        None
    }

    /// Takes a kept packet out at the moment that [`Stage::next_due`] named; `None` where all that were due
    /// are dropped, and counted so.
    fn release(&mut self, _now: Nanos, _rest: &mut Downstream<P>) -> Option<Packet<P>> {
        None
    }
}

/// The stages behind one, and what their direction has counted.
pub struct Downstream<'a, P> {
    /// The stages behind it.
    pub stages: &'a mut [Box<dyn Stage<P>>],
    /// What the direction has counted.
    pub stats: &'a mut Stats,
}

impl<P> Downstream<'_, P> {
    /// When the stages behind could take a packet that would leave this stage at `now`.
    pub fn free_at(&mut self, now: Nanos) -> Nanos {
        self.stages.iter_mut().fold(now, |at, stage| stage.free_at(at))
    }
}
