//! Tests the interface of stages: stages defined only here must work without changes to existing stages.

use std::collections::VecDeque;

use fastopen_link::stage::{Downstream, Packet, Stage, Verdict};
use fastopen_link::{Direction, DropCause, Nanos};

const MS: Nanos = 1_000_000;

/// Sends one packet after another. Each packet takes 10 ms.
struct Wire(Nanos);

impl<P> Stage<P> for Wire {
    fn offer(&mut self, now: Nanos, _: &mut Packet<P>, _: &mut Downstream<P>) -> Verdict {
        self.0 = self.0.max(now) + 10 * MS;
        Verdict::Hold(self.0)
    }

    fn free_at(&mut self, now: Nanos) -> Nanos {
        self.0.max(now)
    }
}

/// Drops a packet when it leaves the queue, if it has waited for longer than 15 ms.
#[derive(Default)]
struct DropsWhatWaitedLong<P> {
    kept: VecDeque<(Nanos, Packet<P>)>,
}

impl<P: Send> Stage<P> for DropsWhatWaitedLong<P> {
    fn offer(&mut self, now: Nanos, _: &mut Packet<P>, rest: &mut Downstream<P>) -> Verdict {
        if rest.free_at(now) <= now { Verdict::Pass } else { Verdict::Keep }
    }

    fn keep(&mut self, now: Nanos, packet: Packet<P>, _: &mut Downstream<P>) {
        self.kept.push_back((now, packet));
    }

    fn next_due(&mut self, rest: &mut Downstream<P>) -> Option<Nanos> {
        self.kept.front().map(|(offered, _)| rest.free_at(*offered))
    }

    fn release(&mut self, now: Nanos, rest: &mut Downstream<P>) -> Option<Packet<P>> {
        while let Some((offered, packet)) = self.kept.pop_front() {
            if now - offered <= 15 * MS {
                return Some(packet);
            }
            rest.stats.count_drop(DropCause::Queue, packet.bytes);
        }
        None
    }
}

/// Decrements the time to live of every packet, and drops packets with protocol 17.
struct Rewrites;

impl Stage<Vec<u8>> for Rewrites {
    fn offer(&mut self, _: Nanos, packet: &mut Packet<Vec<u8>>, _: &mut Downstream<Vec<u8>>) -> Verdict {
        let [.., time_to_live, protocol] = &mut packet.payload[..] else { return Verdict::Pass };
        *time_to_live -= 1;
        if *protocol == 17 { Verdict::Drop(DropCause::Loss) } else { Verdict::Pass }
    }
}

/// Holds every other packet for 5 ms, so that the next packet overtakes it.
struct Reorders(bool);

impl<P> Stage<P> for Reorders {
    fn offer(&mut self, now: Nanos, _: &mut Packet<P>, _: &mut Downstream<P>) -> Verdict {
        self.0 = !self.0;
        if self.0 { Verdict::Hold(now + 5 * MS) } else { Verdict::Pass }
    }
}

fn release_all<P>(direction: &mut Direction<P>) -> Vec<(Nanos, P)> {
    std::iter::from_fn(|| direction.release(Nanos::MAX)).collect()
}

#[test]
fn a_queue_can_drop_a_packet_when_it_takes_it_out() {
    let mut link = Direction::of(vec![Box::new(DropsWhatWaitedLong::default()), Box::new(Wire(0))], 0);
    for packet in ["passes", "waits 10 ms", "would wait 20 ms", "would, too"] {
        link.offer(0, 100, 0, packet).unwrap();
    }
    link.offer(8 * MS, 100, 0, "waits 12 ms").unwrap();
    assert_eq!(link.stats().packets, 5);
    assert_eq!(
        release_all(&mut link),
        [(10 * MS, "passes"), (20 * MS, "waits 10 ms"), (30 * MS, "waits 12 ms")]
    );
    let stats = link.stats();
    assert_eq!((stats.packets, stats.bytes, stats.dropped_queue), (3, 300, 2));
}

#[test]
fn the_driver_is_woken_when_a_kept_packet_may_go_on() {
    let mut link = Direction::of(vec![Box::new(DropsWhatWaitedLong::default()), Box::new(Wire(0))], 0);
    link.offer(0, 100, 0, "first").unwrap();
    assert_eq!(link.release(10 * MS), Some((10 * MS, "first")));
    link.offer(12 * MS, 100, 0, "second").unwrap();
    link.offer(12 * MS, 100, 0, "third").unwrap();
    assert_eq!(link.next_release(), Some(22 * MS));
    assert_eq!(link.release(22 * MS), Some((22 * MS, "second")));
    assert_eq!(link.next_release(), Some(32 * MS));
}

#[test]
fn two_queues_that_keep_packets_can_follow_each_other() {
    let queue = || Box::new(DropsWhatWaitedLong::default());
    let mut link = Direction::of(vec![queue(), queue(), Box::new(Wire(0))], 0);
    for packet in 0..2_usize {
        link.offer(0, 100, 0, packet).unwrap();
    }
    assert_eq!(release_all(&mut link), [(10 * MS, 0), (20 * MS, 1)]);
}

#[test]
fn a_path_rule_sees_and_rewrites_the_bytes_of_packets() {
    let mut link = Direction::of(vec![Box::new(Rewrites)], 0);
    link.offer(0, 2, 0, vec![64, 6]).unwrap();
    assert_eq!(link.offer(0, 2, 0, vec![64, 17]).unwrap_err().packet, [63, 17]);
    assert_eq!(link.release(0), Some((0, vec![63, 6])));
}

#[test]
fn the_last_stage_may_reorder_packets() {
    let mut link = Direction::of(vec![Box::new(Reorders(false))], 0);
    for packet in 0..5_usize {
        link.offer(packet as Nanos * MS, 100, 0, packet).unwrap();
    }
    let expected = [(MS, 1), (3 * MS, 3), (5 * MS, 0), (7 * MS, 2), (9 * MS, 4)];
    assert_eq!(release_all(&mut link), expected);
}
