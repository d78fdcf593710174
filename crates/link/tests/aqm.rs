//! Tests active queue management: when `CoDel` drops packets, and how FQ-CoDel and DRR serve flows.

use std::collections::BTreeMap;

use fastopen_link::{Aqm, Direction, DirectionConfig, Nanos, Rate, Trace};
use proptest::prelude::*;

const MS: Nanos = 1_000_000;
const FULL: u32 = 1500;

/// Returns the configuration of a link on which 1500 bytes take 3 ms.
fn config(aqm: Aqm) -> DirectionConfig {
    DirectionConfig { rate: Rate::BitPerS(4_000_000), aqm, ..DirectionConfig::default() }
}

/// Returns an IP packet of a flow, with the number of the packet as payload.
fn packet(flow: u16, number: u16) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 198, 19, 0, 1, 198, 18, 0, 1];
    ip.extend(80_u16.to_be_bytes());
    ip.extend(flow.to_be_bytes());
    ip.extend(number.to_be_bytes());
    ip
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offer {
    at: Nanos,
    flow: u16,
    bytes: u32,
}

/// Offers packets to a link and releases them when they are due, as a driver does. Returns the time and the
/// number of each released packet, and the link.
fn released(config: &DirectionConfig, offers: &[Offer]) -> (Vec<(Nanos, usize)>, Direction<Vec<u8>>) {
    let mut link = Direction::new(config, 0);
    let mut released = Vec::new();
    let mut take = |link: &mut Direction<Vec<u8>>, now| {
        while let Some(due) = link.next_release().filter(|due| *due <= now) {
            while let Some((at, ip)) = link.release(due) {
                released.push((at, usize::from(u16::from_be_bytes([ip[24], ip[25]]))));
            }
        }
    };
    for (number, offer) in offers.iter().enumerate() {
        take(&mut link, offer.at);
        let _dropped = link.offer(offer.at, offer.bytes, 0, packet(offer.flow, number as u16));
    }
    take(&mut link, Nanos::MAX);
    (released, link)
}

fn every(gap: Nanos, until: Nanos, flow: u16) -> Vec<Offer> {
    (0..until / gap).map(|number| Offer { at: number * gap, flow, bytes: FULL }).collect()
}

fn together(mut offers: Vec<Offer>) -> Vec<Offer> {
    offers.sort_by_key(|offer| offer.at);
    offers
}

fn bulk(at: Nanos, packets: usize, flow: u16) -> Vec<Offer> {
    vec![Offer { at, flow, bytes: FULL }; packets]
}

/// Returns the longest time from the offer of a packet of a flow to its release.
fn longest(offers: &[Offer], released: &[(Nanos, usize)], flow: u16) -> Nanos {
    let of_flow = released.iter().filter(|(_, number)| offers[*number].flow == flow);
    of_flow.map(|(at, number)| at - offers[*number].at).max().unwrap()
}

/// Returns the time of each drop, found by a gap in the numbers of the released packets. A packet is dropped
/// when the queue's next packet is dequeued, which is when the wire releases the packet before the gap.
fn drops(released: &[(Nanos, usize)]) -> Vec<Nanos> {
    let dropped_before = |pair: &[(Nanos, usize)]| std::iter::repeat_n(pair[0].0, pair[1].1 - pair[0].1 - 1);
    released.windows(2).flat_map(dropped_before).collect()
}

#[test]
fn codel_drops_nothing_while_the_queue_empties_within_an_interval() {
    // A burst of 30 packets is sent within 90 ms, less than an interval.
    let (released, link) = released(&config(Aqm::CoDel), &bulk(0, 30, 1));
    assert_eq!(released.len(), 30);
    assert_eq!(link.stats().dropped_queue, 0);
}

#[test]
fn codel_drops_nothing_while_packets_wait_for_less_than_the_target() {
    // Full packets come at exactly the rate, and two come at once at the start. So each waits for 3 ms behind
    // the packet on the wire.
    let offers = together([bulk(0, 1, 1), every(3 * MS, 3000 * MS, 1)].concat());
    let (released, _) = released(&config(Aqm::CoDel), &offers);
    assert_eq!(released.len(), offers.len());
}

#[test]
fn codel_drops_sooner_and_sooner_as_long_as_packets_wait_too_long() {
    let (released, _) = released(&config(Aqm::CoDel), &every(5 * MS / 2, 2000 * MS, 1));
    let drops = drops(&released);
    // Waiting times grow by half a millisecond with each packet. They exceed the target of 5 ms from the 11th
    // packet on, which leaves at 33 ms. The first drop follows an interval (100 ms) later.
    assert!((33 + 100..33 + 107).contains(&(drops[0] / MS)), "{}", drops[0]);
    let mut expected = drops[0] as f64;
    for (number, drop) in drops.iter().enumerate().skip(1).take(20) {
        expected += 100e6 / (number as f64).sqrt();
        // A packet can be dropped only when a packet is dequeued, every 3 ms.
        assert!(
            (0.0..=3.1e6).contains(&(*drop as f64 - expected)),
            "drop {number} at {drop}, not {expected}"
        );
    }
}

#[test]
fn codel_keeps_the_waiting_time_of_an_overload_in_bounds_where_tail_drop_fills_the_queue() {
    let offers = every(29 * MS / 10, 20_000 * MS, 1);
    let waits = |aqm| {
        let limited = DirectionConfig { queue_limit_bytes: Some(100_000), ..config(aqm) };
        let (released, _) = released(&limited, &offers);
        let late = released.iter().filter(|(at, _)| *at > 10_000 * MS);
        late.map(|(at, number)| at - offers[*number].at).max().unwrap() / MS
    };
    assert!(waits(Aqm::CoDel) < 40, "{}", waits(Aqm::CoDel));
    assert!(waits(Aqm::None) > 190, "{}", waits(Aqm::None));
}

#[test]
fn codel_stops_dropping_once_the_queue_is_short_and_begins_again_where_it_was() {
    // Two overloads of 600 ms with half a second between them.
    let once = every(5 * MS / 2, 600 * MS, 1);
    let twice: Vec<_> = once.iter().map(|offer| Offer { at: offer.at + 1100 * MS, ..*offer }).collect();
    let offers = [once.clone(), twice].concat();
    let (released, _) = released(&config(Aqm::CoDel), &offers);
    let (first, second): (Vec<_>, Vec<_>) = drops(&released).into_iter().partition(|at| *at < 1100 * MS);
    assert!(first.iter().all(|at| *at < 800 * MS) && first.len() > 5);
    // The second overload begins with the drop rate from the end of the first, not with one drop in an
    // interval.
    assert!(second[1] - second[0] < 60 * MS, "{second:?}");
    assert!(first[1] - first[0] > 95 * MS, "{first:?}");
}

#[test]
fn a_flow_that_sends_little_waits_for_one_packet_of_the_others_at_most() {
    let offers =
        together([bulk(0, 200, 1), bulk(0, 200, 2), every(40 * MS, 800 * MS, 3).split_off(1)].concat());
    let (by_flow, _) = released(&config(Aqm::FqCodel), &offers);
    // A packet waits at most 3 ms for the packet on the wire, and is then sent in 3 ms.
    assert!(longest(&offers, &by_flow, 3) <= 6 * MS, "{}", longest(&offers, &by_flow, 3));
    let (in_line, _) = released(&config(Aqm::CoDel), &offers);
    assert!(longest(&offers, &in_line, 3) > 500 * MS);
}

#[test]
fn flows_that_always_send_have_equal_shares_in_bytes() {
    let offers: Vec<_> = (0..600)
        .flat_map(|number| {
            let at = number * 3 * MS;
            let small = Offer { at, flow: 2, bytes: 500 };
            [Offer { at, flow: 1, bytes: FULL }, small, small, small]
        })
        .collect();
    let (released, _) = released(&config(Aqm::FqCodel), &offers);
    let mut sent = BTreeMap::from([(1, 0), (2, 0)]);
    for (_, number) in released.iter().filter(|(at, _)| (200 * MS..1500 * MS).contains(at)) {
        *sent.get_mut(&offers[*number].flow).unwrap() += offers[*number].bytes;
    }
    assert!(sent[&1].abs_diff(sent[&2]) <= 2 * FULL, "{sent:?}");
}

#[test]
fn a_full_queue_drops_the_oldest_packet_of_the_longest_flow() {
    let limited = DirectionConfig { queue_limit_bytes: Some(4 * u64::from(FULL)), ..config(Aqm::FqCodel) };
    let offers = [bulk(0, 5, 1), bulk(0, 1, 2)].concat();
    let (released, link) = released(&limited, &offers);
    // Packet 0 was on the wire when the queue became full.
    assert_eq!(released.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [0, 5, 2, 3, 4]);
    assert_eq!((link.stats().dropped_queue, link.stats().queue_bytes_max), (1, 4 * u64::from(FULL)));
}

#[test]
fn with_drr_each_flow_has_the_whole_limit_and_loses_its_own_last_packets() {
    let limited = DirectionConfig { queue_limit_bytes: Some(2 * u64::from(FULL)), ..config(Aqm::Drr) };
    let offers = [bulk(0, 4, 1), bulk(0, 3, 2)].concat();
    let (released, link) = released(&limited, &offers);
    // The first packet goes on the wire at once. It takes no room in the queue, but uses the turn of its
    // flow. Then the flows alternate. Each flow has lost its last packet.
    assert_eq!(released.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [0, 4, 1, 5, 2]);
    assert_eq!((link.stats().dropped_queue, link.stats().queue_bytes_max), (2, 4 * u64::from(FULL)));
}

#[test]
fn a_queue_without_room_still_takes_a_packet_that_need_not_wait() {
    for aqm in [Aqm::CoDel, Aqm::FqCodel, Aqm::Drr] {
        let limited = DirectionConfig { queue_limit_bytes: Some(0), ..config(aqm) };
        let (released, link) = released(&limited, &every(2 * MS, 8 * MS, 1));
        assert_eq!(released.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(link.stats().dropped_queue, 2);
    }
}

#[test]
fn a_link_without_a_rate_has_no_queue_to_manage() {
    let unlimited = DirectionConfig { rate: Rate::Unlimited, ..config(Aqm::CoDel) };
    let (released, link) = released(&unlimited, &bulk(0, 1000, 1));
    assert!(released.iter().all(|(at, _)| *at == 0));
    assert_eq!(link.stats().queue_bytes_max, 0);
}

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    let gap = prop_oneof![Just(0), 0..MS, 0..20 * MS];
    prop::collection::vec((gap, 1_u16..5, 1_u32..=FULL), 1..300).prop_map(|offers| {
        let mut at = 0;
        let offer = |(gap, flow, bytes)| {
            at += gap;
            Offer { at, flow, bytes }
        };
        offers.into_iter().map(offer).collect()
    })
}

fn configs() -> impl Strategy<Value = DirectionConfig> {
    let rate = prop_oneof![
        (Rate::MIN_BIT_PER_S..10_000_000).prop_map(Rate::BitPerS),
        Just(Rate::Trace(Trace::from_millis(&[1, 2, 2, 7, 9]).unwrap())),
    ];
    (rate, prop::option::of(0_u64..50_000), 0..50 * MS, any::<u64>()).prop_map(
        |(rate, queue_limit_bytes, delay, seed)| DirectionConfig {
            delay,
            rate,
            queue_limit_bytes,
            seed,
            ..DirectionConfig::default()
        },
    )
}

fn managed() -> impl Strategy<Value = Aqm> {
    prop_oneof![Just(Aqm::CoDel), Just(Aqm::FqCodel), Just(Aqm::Drr)]
}

proptest! {
    #[test]
    fn every_packet_is_released_or_dropped_once_within_the_limit(
        config in configs(), aqm in managed(), offers in offers(),
    ) {
        let config = DirectionConfig { aqm, ..config };
        let (released, link) = released(&config, &offers);
        let stats = link.stats();
        let mut numbers: Vec<_> = released.iter().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), released.len());
        prop_assert_eq!(stats.packets, released.len() as u64);
        prop_assert_eq!(stats.dropped_queue, (offers.len() - released.len()) as u64);
        let bytes = released.iter().map(|(_, number)| u64::from(offers[*number].bytes));
        prop_assert_eq!(stats.bytes, bytes.sum::<u64>());
        // With DRR, the limit applies to each of the four flows.
        let limits = if aqm == Aqm::Drr { 4 } else { 1 };
        let limit = config.queue_limit_bytes.map_or(u64::MAX, |limit| limits * limit);
        prop_assert!(stats.queue_bytes_max <= limit);
    }

    #[test]
    fn packets_of_a_flow_keep_their_order_and_the_wire_its_rate(
        config in configs(), aqm in managed(), offers in offers(),
    ) {
        let (released, _) = released(&DirectionConfig { aqm, ..config.clone() }, &offers);
        prop_assert!(released.is_sorted_by_key(|(at, _)| *at));
        for flow in 1..5 {
            let numbers = released.iter().map(|(_, number)| *number);
            prop_assert!(numbers.filter(|number| offers[*number].flow == flow).is_sorted());
        }
        if let Rate::BitPerS(rate) = config.rate {
            for pair in released.windows(2) {
                let bits = u64::from(offers[pair[1].1].bytes) * 8;
                prop_assert!(pair[1].0 - pair[0].0 + 1 >= bits * 1_000_000_000 / rate);
            }
        }
    }

    #[test]
    fn where_nothing_is_dropped_codel_releases_as_tail_drop_does(config in configs(), offers in offers()) {
        let config = DirectionConfig { queue_limit_bytes: None, ..config };
        let (managed, link) = released(&DirectionConfig { aqm: Aqm::CoDel, ..config.clone() }, &offers);
        prop_assume!(link.stats().dropped_queue == 0);
        let (plain, plain_link) = released(&config, &offers);
        prop_assert_eq!(managed, plain);
        prop_assert_eq!(link.stats(), plain_link.stats());
    }

    #[test]
    fn no_packet_that_waited_for_less_than_the_target_is_dropped(aqm in managed(), offers in offers()) {
        // At 1 Gbit/s, 300 packets wait for 3.6 ms at most, less than the target.
        let fast = DirectionConfig { rate: Rate::BitPerS(1_000_000_000), ..config(aqm) };
        prop_assert_eq!(released(&fast, &offers).0.len(), offers.len());
    }
}
