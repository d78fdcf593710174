//! The way of a packet through one direction: from stage to stage, then out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::delay_line::DelayLine;
use crate::path::{Behaviour, Crossing, Middlebox, PathRule, Way};
use crate::stage::{Datagram, Downstream, Packet, Stage, Verdict};
use crate::stages::{DirectionConfig, stages};
use crate::{Nanos, Stats};

/// One direction of a link for packets `P`: a buffer, a reference to one, or nothing at all.
pub struct Direction<P> {
    stages: Vec<Box<dyn Stage<P>>>,
    /// Packets that have passed all stages.
    departures: DelayLine<P>,
    /// When which stage is to release a packet that it keeps.
    due: Option<(Nanos, usize)>,
    /// Packets that a middlebox turned into answers, and when.
    answers: VecDeque<(Nanos, P)>,
    stats: Stats,
    /// The latest moment that a packet was offered at or kept until.
    now: Nanos,
}

/// A packet that will not arrive, given back so that its buffer can be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped<P> {
    /// The packet.
    pub packet: P,
    /// Why it was dropped.
    pub cause: DropCause,
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// It was lost at random.
    Loss,
    /// The queue had no room for it, or its management dropped it.
    Queue,
    /// A middlebox dropped it.
    Path,
}

impl<P: Datagram> Direction<P> {
    /// An idle direction; a trace starts at `start`.
    pub fn new(config: &DirectionConfig, start: Nanos) -> Self {
        Self::of(stages(config, start, None), start)
    }

    /// Both directions of a link, down and up, whose packets cross the same middlebox.
    pub fn pair(down: &DirectionConfig, up: &DirectionConfig, path: &PathRule, start: Nanos) -> (Self, Self) {
        let middlebox = Arc::new(Mutex::new(Middlebox::new(path.clone())));
        let direction = |config, way| {
            let crossing = (path.behaviour != Behaviour::None).then(|| Crossing::new(&middlebox, way));
            Self::of(stages(config, start, crossing), start)
        };
        (direction(down, Way::Down), direction(up, Way::Up))
    }
}

impl<P> Direction<P> {
    /// A direction of these stages, in the order in which packets meet them.
    pub fn of(stages: Vec<Box<dyn Stage<P>>>, start: Nanos) -> Self {
        Self {
            stages,
            departures: DelayLine::default(),
            due: None,
            answers: VecDeque::new(),
            stats: Stats::default(),
            now: start,
        }
    }

    /// Offers a packet of `bytes` (its IP length) at `now`; a `now` before that of an earlier packet counts
    /// as that packet's.
    ///
    /// `extra_delay` is the one-way delay of the packet's host, beyond that of the link. Hosts with different
    /// ones overtake each other. Each different value costs a queue that is kept, so it is for a delay of the
    /// host, not for jitter.
    ///
    /// # Errors
    /// [`Dropped`] when the packet itself is dropped at once.
    pub fn offer(
        &mut self,
        now: Nanos,
        bytes: u32,
        extra_delay: Nanos,
        payload: P,
    ) -> Result<(), Dropped<P>> {
        self.release_kept(now);
        self.now = self.now.max(now);
        self.stats.packets += 1;
        self.stats.bytes += u64::from(bytes);
        self.pass(0, self.now, Packet { bytes, extra_delay, payload })
    }

    /// Takes a packet from the stage `first` on as far as it gets at once.
    fn pass(&mut self, first: usize, mut at: Nanos, mut packet: Packet<P>) -> Result<(), Dropped<P>> {
        for number in first..self.stages.len() {
            let (stage, mut downstream) = split(&mut self.stages, &mut self.stats, number);
            match stage.offer(at, &mut packet, &mut downstream) {
                Verdict::Pass => {}
                Verdict::Hold(until) => at = until,
                Verdict::Drop(cause) => {
                    self.stats.count_drop(cause, packet.bytes);
                    return Err(Dropped { packet: packet.payload, cause });
                }
                Verdict::Answer => {
                    self.stats.count_drop(DropCause::Path, packet.bytes);
                    self.answers.push_back((at, packet.payload));
                    return Ok(());
                }
                Verdict::Keep => {
                    stage.keep(at, packet, &mut downstream);
                    self.find_due();
                    return Ok(());
                }
            }
        }
        self.departures.push(at, packet.extra_delay, packet.payload);
        Ok(())
    }

    /// Has the stages that keep packets release those that are due by `now`, in order of time.
    fn release_kept(&mut self, now: Nanos) {
        while let Some((at, number)) = self.due.filter(|(at, _)| *at <= now) {
            self.now = self.now.max(at);
            let (stage, mut downstream) = split(&mut self.stages, &mut self.stats, number);
            if let Some(packet) = stage.release(at, &mut downstream) {
                // A drop is counted; nobody waits for the buffer any more.
                let _dropped = self.pass(number + 1, at, packet);
            }
            self.find_due();
        }
    }

    fn find_due(&mut self) {
        let Self { stages, stats, .. } = self;
        let numbers = 0..stages.len();
        let due_of = |number| {
            let (stage, mut downstream) = split(stages, stats, number);
            stage.next_due(&mut downstream).map(|at| (at, number))
        };
        self.due = numbers.filter_map(due_of).min();
    }

    /// When [`Direction::release`] is to be called next; `None` when nothing is on its way.
    pub fn next_release(&self) -> Option<Nanos> {
        self.departures.next_due().into_iter().chain(self.due.map(|(at, _)| at)).min()
    }

    /// The next packet that is due at or before `now`, and when it was due: in order of due times, and of
    /// offering among equal ones. To be called until it gives `None`.
    pub fn release(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        self.release_kept(now);
        self.departures.pop(now)
    }

    /// The next packet that has become the answer to itself, which goes the other way, and when it did.
    pub fn take_answer(&mut self) -> Option<(Nanos, P)> {
        self.answers.pop_front()
    }

    /// What was counted since the beginning.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

/// A stage and what is behind it.
fn split<'a, P>(
    stages: &'a mut [Box<dyn Stage<P>>],
    stats: &'a mut Stats,
    number: usize,
) -> (&'a mut dyn Stage<P>, Downstream<'a, P>) {
    let (stage, downstream) = stages[number..].split_first_mut().expect("it is the number of a stage");
    (stage.as_mut(), Downstream { stages: downstream, stats })
}
