//! Tests properties that hold for every link and every sequence of packets.

use fastopen_link::{Direction, DirectionConfig, DropCause, Nanos, Rate, Stats, Trace, expected_train};
use proptest::prelude::*;

const MS: Nanos = 1_000_000;
const S: u128 = 1_000_000_000;

#[derive(Debug, Clone, Copy)]
struct Offer {
    at: Nanos,
    bytes: u32,
    extra_delay: Nanos,
}

fn rates() -> impl Strategy<Value = Rate> {
    prop_oneof![
        Just(Rate::Unlimited),
        (Rate::MIN_BIT_PER_S..=Rate::MAX_BIT_PER_S).prop_map(Rate::BitPerS),
        (Rate::MIN_BIT_PER_S..=10_000_000).prop_map(Rate::BitPerS),
        prop::collection::vec(0_u64..5, 1..10).prop_map(|gaps| {
            let mut at = 1;
            let times: Vec<u64> = gaps
                .iter()
                .map(|gap| {
                    at += gap;
                    at
                })
                .collect();
            Rate::Trace(Trace::from_millis(&times).unwrap())
        }),
    ]
}

fn configs() -> impl Strategy<Value = DirectionConfig> {
    (0..200 * MS, rates(), prop::option::of(0_u64..20_000), 0.0..=0.5, any::<u64>()).prop_map(
        |(delay, rate, queue_limit_bytes, loss, seed)| DirectionConfig {
            delay,
            rate,
            queue_limit_bytes,
            loss,
            seed,
            ..DirectionConfig::default()
        },
    )
}

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    let gap = prop_oneof![Just(0), 0..MS, 0..20 * MS];
    let extra_delay = prop_oneof![Just(0), Just(3 * MS), Just(50 * MS + 1)];
    prop::collection::vec((gap, 1_u32..1501, extra_delay), 0..120).prop_map(|offers| {
        let mut at = 0;
        offers
            .into_iter()
            .map(|(gap, bytes, extra_delay)| {
                at += gap;
                Offer { at, bytes, extra_delay }
            })
            .collect()
    })
}

struct Outcome {
    /// The due time and the number of each released packet, in order of release.
    released: Vec<(Nanos, usize)>,
    dropped: Vec<(usize, DropCause)>,
    stats: Stats,
}

/// Offers all packets. Releases due packets before each offer, as a driver does, and the rest at the end.
fn run(config: &DirectionConfig, offers: &[Offer]) -> Outcome {
    let mut link = Direction::new(config, 0);
    let (mut released, mut dropped) = (Vec::new(), Vec::new());
    for (number, offer) in offers.iter().enumerate() {
        released.extend(std::iter::from_fn(|| link.release(offer.at)));
        if let Err(drop) = link.offer(offer.at, offer.bytes, offer.extra_delay, number) {
            dropped.push((drop.packet, drop.cause));
        }
        let under_way = number + 1 - released.len() - dropped.len();
        assert_eq!(link.stats().packets as usize, released.len() + under_way);
        assert_eq!(link.next_release().is_none(), under_way == 0);
    }
    released.extend(std::iter::from_fn(|| link.release(Nanos::MAX)));
    Outcome { released, dropped, stats: link.stats() }
}

fn count(dropped: &[(usize, DropCause)], cause: DropCause) -> u64 {
    dropped.iter().filter(|drop| drop.1 == cause).count() as u64
}

proptest! {
    #[test]
    fn every_packet_is_released_or_dropped_once_and_counted(config in configs(), offers in offers()) {
        let Outcome { released, dropped, stats } = run(&config, &offers);
        let mut seen: Vec<usize> =
            released.iter().map(|r| r.1).chain(dropped.iter().map(|d| d.0)).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..offers.len()).collect::<Vec<_>>());
        prop_assert_eq!(stats.packets, released.len() as u64);
        prop_assert_eq!(stats.bytes, released.iter().map(|r| u64::from(offers[r.1].bytes)).sum::<u64>());
        prop_assert_eq!(stats.dropped_loss, count(&dropped, DropCause::Loss));
        prop_assert_eq!(stats.dropped_queue, count(&dropped, DropCause::Queue));
        if let Some(limit) = config.queue_limit_bytes {
            prop_assert!(stats.queue_bytes_max <= limit);
        } else {
            prop_assert_eq!(stats.dropped_queue, 0);
        }
    }

    #[test]
    fn packets_are_released_in_due_order_and_in_order_within_a_host(config in configs(), offers in offers()) {
        let released = run(&config, &offers).released;
        prop_assert!(released.is_sorted());
        for host in [0, 3 * MS, 50 * MS + 1] {
            let of_host = released.iter().map(|r| r.1).filter(|&n| offers[n].extra_delay == host);
            prop_assert!(of_host.is_sorted());
        }
    }

    #[test]
    fn no_packet_is_due_before_its_delays_have_passed(config in configs(), offers in offers()) {
        for (due, number) in run(&config, &offers).released {
            prop_assert!(due >= offers[number].at + config.delay + offers[number].extra_delay);
        }
    }

    #[test]
    fn the_delay_of_an_idle_link_is_exact(
        bit_per_s in Rate::MIN_BIT_PER_S..=Rate::MAX_BIT_PER_S,
        delay in 0..200 * MS, extra_delay in 0..200 * MS, at in 0_u64..1 << 60, bytes in 1_u32..65_536,
    ) {
        let config = DirectionConfig {
            delay, rate: Rate::BitPerS(bit_per_s), queue_limit_bytes: Some(0), ..DirectionConfig::default()
        };
        let serialisation = (u128::from(bytes) * 8 * S / u128::from(bit_per_s)) as Nanos;
        let offer = Offer { at, bytes, extra_delay };
        prop_assert_eq!(run(&config, &[offer]).released, vec![(at + serialisation + delay + extra_delay, 0)]);
    }

    #[test]
    fn the_rate_is_never_exceeded_over_any_window(
        bit_per_s in Rate::MIN_BIT_PER_S..=Rate::MAX_BIT_PER_S,
        queue in prop::option::of(0_u64..20_000),
        offers in offers(),
    ) {
        let config = DirectionConfig {
            rate: Rate::BitPerS(bit_per_s), queue_limit_bytes: queue, ..DirectionConfig::default()
        };
        let one_host: Vec<_> = offers.iter().map(|&offer| Offer { extra_delay: 0, ..offer }).collect();
        let released = run(&config, &one_host).released;
        for first in 0..released.len() {
            let mut bits = 0;
            for &(due, number) in &released[first + 1..] {
                bits += u128::from(one_host[number].bytes) * 8;
                // Times are rounded down, so a window may seem shorter by less than 1 ns.
                let window = u128::from(due - released[first].0) + 1;
                prop_assert!(bits * S <= window * u128::from(bit_per_s));
            }
        }
    }

    #[test]
    fn a_busy_link_sends_exactly_its_rate_whatever_the_packets(
        bit_per_s in Rate::MIN_BIT_PER_S..=Rate::MAX_BIT_PER_S,
        sizes in prop::collection::vec(1_u32..1501, 1..300),
    ) {
        let config = DirectionConfig {
            rate: Rate::BitPerS(bit_per_s), ..DirectionConfig::default()
        };
        let mut link = Direction::new(&config, 0);
        let mut bits = 0;
        for bytes in sizes {
            bits += u128::from(bytes) * 8;
            // Offer the packet while the link is busy, or just when it becomes free.
            let now = link.next_release().unwrap_or(0);
            let _earlier = link.release(now);
            link.offer(now, bytes, 0, ()).unwrap();
        }
        let mut last = 0;
        while let Some((due, ())) = link.release(Nanos::MAX) {
            last = due;
        }
        prop_assert_eq!(u128::from(last), bits * S / u128::from(bit_per_s));
    }

    #[test]
    fn the_same_seed_loses_the_same_packets(config in configs(), offers in offers()) {
        prop_assert_eq!(run(&config, &offers).dropped, run(&config, &offers).dropped);
    }

    #[test]
    fn losses_are_near_the_ratio_asked_for(ratio in 0.0..=0.5, seed in any::<u64>()) {
        const PACKETS: u32 = 20_000;
        let config = DirectionConfig {
            loss: ratio, seed, ..DirectionConfig::default()
        };
        let mut link = Direction::new(&config, 0);
        let lost = (0..PACKETS).filter(|_| link.offer(0, 100, 0, ()).is_err()).count() as f64;
        let expected = ratio * f64::from(PACKETS);
        // Seven standard deviations of a binomial distribution, exceeded by chance once in 10^11 cases.
        let bound = 7.0 * (expected * (1.0 - ratio)).sqrt() + 1.0;
        prop_assert!((lost - expected).abs() <= bound, "{lost} lost, {expected} expected");
    }

    #[test]
    fn an_expected_train_takes_as_long_as_its_bits(
        bit_per_s in Rate::MIN_BIT_PER_S..=Rate::MAX_BIT_PER_S, packets in 1_u32..200, bytes in 1_u32..1501,
    ) {
        let config = DirectionConfig {
            delay: 7,
            rate: Rate::BitPerS(bit_per_s),
            queue_limit_bytes: Some(0),
            loss: 0.5,
            ..DirectionConfig::default()
        };
        let end = |packets: u32| {
            (u128::from(packets) * u128::from(bytes) * 8 * S / u128::from(bit_per_s)) as Nanos
        };
        prop_assert_eq!(expected_train(&config, packets, bytes), end(packets) - end(1));
    }
}
