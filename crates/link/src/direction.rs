//! Passes packets through the stages of one direction of a link, and stores them until they are released.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::Nanos;
use crate::delay_line::DelayLine;
use crate::path::{Behaviour, Crossing, Middlebox, PathRule, Way};
use crate::stage::{Datagram, Downstream, Packet, Stage, Verdict};
use crate::stages::{DirectionConfig, stages};

/// One direction of a link. `P` is the type of its packets' payload: a buffer, a reference, or `()`.
pub struct Direction<P> {
    stages: Vec<Box<dyn Stage<P>>>,
    /// Packets that have passed all stages, such as loss and the queue, stored until they leave the link.
    departures: DelayLine<P>,
    /// Time of the next release from a stage's queue, and the stage's index; `None` if no packet is queued.
    due: Option<(Nanos, usize)>,
    /// Answers, such as RSTs, that a middlebox made from packets, each with the time at which it is sent.
    answers: VecDeque<(Nanos, P)>,
    stats: Stats,
    /// The model's current time. It moves forward when a packet enters the link or a stage releases one.
    now: Nanos,
}

/// A packet that was dropped. The caller gets the packet back to reuse its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped<P> {
    /// The payload of the dropped packet.
    pub packet: P,
    /// The reason why the link dropped the packet.
    pub cause: DropCause,
}

/// The reason why a link dropped a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// Random loss.
    Loss,
    /// The queue was full, or its AQM dropped the packet.
    Queue,
    /// A middlebox dropped the packet, or answered it instead of the host.
    Path,
}

/// Counts of packets and bytes since the direction was created.
///
/// Every offered packet is counted once: in `packets` or in one of the fields `dropped_*`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that were accepted: released or still in flight.
    pub packets: u64,
    /// Bytes of the accepted packets.
    pub bytes: u64,
    /// Packets dropped by the queue because it was full, or by its AQM.
    pub dropped_queue: u64,
    /// Packets lost at random.
    pub dropped_loss: u64,
    /// Packets that a middlebox dropped or answered.
    pub dropped_path: u64,
    /// Largest number of bytes that waited in the queue at one time, excluding the packet on the wire.
    pub queue_bytes_max: u64,
}

impl Stats {
    /// Raises `queue_bytes_max` to `bytes`, the number of bytes that wait now, if `bytes` is larger.
    pub fn count_waiting(&mut self, bytes: u64) {
        self.queue_bytes_max = self.queue_bytes_max.max(bytes);
    }

    /// Counts as dropped a packet of `bytes` bytes that [`Direction::offer`] has counted as accepted.
    pub fn count_drop(&mut self, cause: DropCause, bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
        match cause {
            DropCause::Loss => self.dropped_loss += 1,
            DropCause::Queue => self.dropped_queue += 1,
            DropCause::Path => self.dropped_path += 1,
        }
    }
}

impl<P: Datagram> Direction<P> {
    /// Creates an idle direction without a middlebox. If the rate is a trace, the trace begins at `start`.
    pub fn new(config: &DirectionConfig, start: Nanos) -> Self {
        Self::of(stages(config, start, None), start)
    }

    /// Creates both directions of a link: down, then up. They share one middlebox, configured by `path`.
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
    /// Creates a direction that is idle at time `start`, and whose packets pass `stages` in this order.
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

    /// Sends a packet into the link at `now`. `bytes` is the length of the IP packet. If `now` is smaller
    /// than in an earlier call, the largest time so far is used instead.
    ///
    /// `extra_delay` is the one-way delay between the link and the packet's host, and is added to the link's
    /// delay. Packets of near hosts can overtake packets of distant hosts.
    ///
    /// Returns [`Dropped`] if the link drops the packet at once. Later drops are only counted.
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

    fn release_kept(&mut self, now: Nanos) {
        while let Some((at, number)) = self.due.filter(|(at, _)| *at <= now) {
            self.now = self.now.max(at);
            let (stage, mut downstream) = split(&mut self.stages, &mut self.stats, number);
            if let Some(packet) = stage.release(at, &mut downstream) {
                // `pass` counts the packet if it is dropped. No caller is left that could reuse the buffer.
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

    /// Returns the time at which [`Direction::release`] must be called next; `None` if nothing is in flight.
    pub fn next_release(&self) -> Option<Nanos> {
        self.departures.next_due().into_iter().chain(self.due.map(|(at, _)| at)).min()
    }

    /// Removes the next packet that is due by `now`, and returns it with its due time. Packets with equal due
    /// times leave in the order in which they passed the last stage. Call this until it returns `None`.
    pub fn release(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        self.release_kept(now);
        self.departures.pop(now)
    }

    /// Removes the next answer of a middlebox to a packet's sender, such as a TCP RST. Returns its time and
    /// the answer; `None` if no answer is left. The caller must send it in the other direction of the link.
    pub fn take_answer(&mut self) -> Option<(Nanos, P)> {
        self.answers.pop_front()
    }

    /// Returns the counts of packets and bytes since the direction was created.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

fn split<'a, P>(
    stages: &'a mut [Box<dyn Stage<P>>],
    stats: &'a mut Stats,
    number: usize,
) -> (&'a mut dyn Stage<P>, Downstream<'a, P>) {
    let (stage, downstream) = stages[number..].split_first_mut().expect("it is the number of a stage");
    (stage.as_mut(), Downstream { stages: downstream, stats })
}
