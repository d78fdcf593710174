//! Tests which traces are accepted, and that packets leave at the same times as in Mahimahi's link queue.

use std::collections::VecDeque;

use fastopen_link::{Direction, DirectionConfig, Nanos, OPPORTUNITY_BYTES, Rate, Trace};
use proptest::prelude::*;

const MS: Nanos = 1_000_000;

fn link(times_ms: &[u64], queue_limit_bytes: Option<u64>) -> Direction<usize> {
    let rate = Rate::Trace(Trace::from_millis(times_ms).unwrap());
    Direction::new(&DirectionConfig { rate, queue_limit_bytes, ..DirectionConfig::default() }, 0)
}

/// Returns the time at which each packet leaves, in milliseconds. `packets`: the time when each packet is
/// offered, and its size in bytes.
fn departures_ms(times_ms: &[u64], packets: &[(Nanos, u32)]) -> Vec<u64> {
    let mut link = link(times_ms, None);
    for (number, &(now, bytes)) in packets.iter().enumerate() {
        link.offer(now, bytes, 0, number).unwrap();
    }
    std::iter::from_fn(|| link.release(Nanos::MAX)).map(|(due, _)| due / MS).collect()
}

#[test]
fn each_opportunity_carries_one_full_packet() {
    assert_eq!(departures_ms(&[2, 5, 5], &[(0, 1500); 5]), [2, 5, 5, 7, 10]);
}

#[test]
fn small_packets_share_an_opportunity_and_one_that_does_not_fit_uses_the_next() {
    assert_eq!(departures_ms(&[1, 2, 3], &[(0, 700), (0, 700), (0, 700), (0, 100)]), [1, 1, 2, 2]);
}

#[test]
fn a_packet_larger_than_an_opportunity_takes_several() {
    assert_eq!(departures_ms(&[1, 2, 3], &[(0, 3100), (0, 1400), (0, 1)]), [3, 3, 4]);
}

#[test]
fn an_opportunity_is_lost_on_a_packet_that_comes_at_its_moment() {
    assert_eq!(departures_ms(&[4, 9], &[(4 * MS - 1, 100), (4 * MS, 100)]), [4, 9]);
}

#[test]
fn an_opportunity_at_zero_comes_with_the_end_of_each_period_only() {
    assert_eq!(departures_ms(&[0, 10], &[(0, 1500), (0, 1500), (0, 1500)]), [10, 10, 20]);
}

#[test]
fn an_idle_trace_goes_on_for_many_periods() {
    assert_eq!(
        departures_ms(&[1, 7], &[(7_000_003 * MS, 100), (70_000_001 * MS, 100)]),
        [7_000_007, 70_000_007]
    );
}

#[test]
fn before_an_opportunity_every_packet_counts_as_waiting() {
    let mut link = link(&[10], Some(2000));
    link.offer(0, 1500, 0, 1).unwrap();
    assert!(link.offer(0, 501, 0, 2).is_err());
    link.offer(0, 500, 0, 3).unwrap();
    assert!(link.offer(10 * MS - 1, 1, 0, 4).is_err());
    // At 10 ms the first packet leaves. The second cannot begin before 20 ms.
    link.offer(10 * MS, 1500, 0, 5).unwrap();
    assert!(link.offer(10 * MS, 1, 0, 6).is_err());
}

#[test]
fn a_wrong_trace_is_refused_with_its_place() {
    let message = |times_ms: &[u64]| Trace::from_millis(times_ms).unwrap_err();
    assert_eq!(message(&[]), "trace has no entries");
    assert_eq!(message(&[1, 5, 4]), "trace entry 3: 4 ms is before the 5 ms of the entry before it");
    assert_eq!(
        message(&[0, 0]),
        "trace ends at 0 ms, but its last entry is the period after which it repeats"
    );
    assert_eq!(message(&[86_400_001]), "trace ends at 86400001 ms, later than the 86400000 ms of a day");
}

/// Computes the departure times step by step as Mahimahi does: each opportunity sends bytes from the queue
/// until the opportunity is used up or the queue is empty.
fn stepwise_departures_ms(times_ms: &[u64], packets: &[(Nanos, u32)]) -> Vec<u64> {
    let mut to_come: VecDeque<_> = packets.iter().copied().collect();
    let mut queue: VecDeque<u32> = VecDeque::new();
    let mut departures = Vec::new();
    let mut period_start = 0;
    loop {
        for &time in times_ms {
            let opportunity_ms = period_start + time;
            while to_come.front().is_some_and(|&(offered, _)| offered < opportunity_ms * MS) {
                queue.extend(to_come.pop_front().map(|(_, bytes)| bytes));
            }
            let mut left = OPPORTUNITY_BYTES;
            while left > 0 && !queue.is_empty() {
                let sent = left.min(queue[0]);
                left -= sent;
                queue[0] -= sent;
                if queue[0] == 0 {
                    queue.pop_front();
                    departures.push(opportunity_ms);
                }
            }
            if departures.len() == packets.len() {
                return departures;
            }
        }
        period_start += times_ms.last().unwrap();
    }
}

fn times_ms() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0_u64..4, 1..20).prop_filter_map("the period must not be 0", |gaps| {
        let times: Vec<u64> = gaps
            .iter()
            .scan(0, |at, gap| {
                *at += gap;
                Some(*at)
            })
            .collect();
        (*times.last()? > 0).then_some(times)
    })
}

fn packets() -> impl Strategy<Value = Vec<(Nanos, u32)>> {
    let gap = prop_oneof![Just(0), 0..3 * MS, (0_u64..30).prop_map(|ms| ms * MS)];
    prop::collection::vec((gap, 1_u32..4000), 1..60).prop_map(|packets| {
        packets
            .into_iter()
            .scan(0, |now, (gap, bytes)| {
                *now += gap;
                Some((*now, bytes))
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn packets_leave_as_from_an_emulation_that_steps_through_every_opportunity(
        times_ms in times_ms(), packets in packets()
    ) {
        prop_assert_eq!(departures_ms(&times_ms, &packets), stepwise_departures_ms(&times_ms, &packets));
    }
}
