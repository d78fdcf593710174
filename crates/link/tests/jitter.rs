//! Tests jitter: how the delay varies, what jitter leaves unchanged, and which packets may overtake others.

use fastopen_link::{Direction, DirectionConfig, Jitter, Nanos, Rate};
use proptest::prelude::*;

const MS: Nanos = 1_000_000;

fn config(jitter: Jitter) -> DirectionConfig {
    DirectionConfig { delay: 10 * MS, jitter: Some(jitter), seed: 1, ..DirectionConfig::default() }
}

/// Offers a packet every `gap`, and returns the release times and numbers of packets in order of release.
fn released(config: &DirectionConfig, packets: usize, gap: Nanos) -> Vec<(Nanos, usize)> {
    let mut link = Direction::new(config, 0);
    for packet in 0..packets {
        let _lost = link.offer(packet as Nanos * gap, 1500, 0, packet);
    }
    std::iter::from_fn(|| link.release(Nanos::MAX)).collect()
}

/// Returns the delays of the packets, in the order in which they were offered.
fn delays(config: &DirectionConfig, packets: usize, gap: Nanos) -> Vec<Nanos> {
    let mut released = released(config, packets, gap);
    released.sort_by_key(|(_, packet)| *packet);
    released.into_iter().map(|(due, packet)| due - packet as Nanos * gap).collect()
}

#[test]
fn packets_far_apart_are_delayed_each_on_its_own_around_the_delay_of_the_link() {
    let delays = delays(&config(Jitter::Uniform(2 * MS)), 1000, 100 * MS);
    assert!(delays.iter().all(|delay| (8 * MS..=12 * MS).contains(delay)));
    let mean = delays.iter().sum::<Nanos>() / 1000;
    assert!(mean.abs_diff(10 * MS) < MS / 10, "{mean}");
    assert!(
        delays.iter().min() < Some(&(8 * MS + MS / 10)) && delays.iter().max() > Some(&(12 * MS - MS / 10))
    );
}

#[test]
fn a_packet_that_would_overtake_the_one_before_arrives_with_it() {
    let link = config(Jitter::Normal(2 * MS));
    let free = DirectionConfig { reorder: true, ..link.clone() };
    let mut latest = 0;
    let expected: Vec<_> = delays(&free, 500, MS / 2)
        .into_iter()
        .enumerate()
        .map(|(packet, delay)| {
            latest = latest.max(packet as Nanos * MS / 2 + delay);
            (latest, packet)
        })
        .collect();
    assert_eq!(released(&link, 500, MS / 2), expected);
}

#[test]
fn with_reordering_packets_overtake_each_other_and_leave_when_they_are_due() {
    let free = DirectionConfig { reorder: true, ..config(Jitter::Normal(2 * MS)) };
    let released = released(&free, 500, MS / 2);
    assert!(released.is_sorted_by_key(|(due, _)| *due));
    let overtaken = released.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
    assert!(overtaken > 100, "{overtaken}");
}

#[test]
fn a_delay_is_never_below_nothing() {
    let link = DirectionConfig { delay: MS, reorder: true, ..config(Jitter::Uniform(20 * MS)) };
    let delays = delays(&link, 1000, 100 * MS);
    assert!(delays.contains(&0) && delays.iter().max() > Some(&(20 * MS)));
}

#[test]
fn twice_the_jitter_delays_the_same_packets_twice_as_far() {
    let [once, twice] = [1, 2].map(|times| delays(&config(Jitter::Normal(times * MS)), 200, 100 * MS));
    for (once, twice) in once.into_iter().zip(twice) {
        assert!((twice.abs_diff(10 * MS)).abs_diff(2 * once.abs_diff(10 * MS)) <= 2);
    }
}

#[test]
fn losses_are_those_of_a_link_without_jitter() {
    let losing = DirectionConfig { loss: 0.1, ..config(Jitter::Normal(MS)) };
    let plain = DirectionConfig { jitter: None, ..losing.clone() };
    let numbers =
        |config| released(config, 1000, MS).into_iter().map(|(_, packet)| packet).collect::<Vec<_>>();
    assert_eq!(numbers(&losing), numbers(&plain));
}

fn jitters() -> impl Strategy<Value = Jitter> {
    prop_oneof![(1..100 * MS).prop_map(Jitter::Normal), (1..100 * MS).prop_map(Jitter::Uniform)]
}

proptest! {
    #[test]
    fn without_reordering_packets_keep_their_order_at_any_rate(
        jitter in jitters(), gap in 0..5 * MS, seed in any::<u64>(),
        bit_per_s in Rate::MIN_BIT_PER_S..100_000_000,
    ) {
        let rate = Rate::BitPerS(bit_per_s);
        let config = DirectionConfig { rate, seed, ..config(jitter) };
        let released = released(&config, 100, gap);
        let packets: Vec<_> = released.iter().map(|(_, packet)| *packet).collect();
        prop_assert_eq!(packets, (0..100).collect::<Vec<_>>());
        prop_assert!(released.is_sorted());
    }

    #[test]
    fn every_packet_arrives_once_and_at_the_same_time_for_the_same_seed(
        jitter in jitters(), gap in 0..5 * MS, seed in any::<u64>(), reorder in any::<bool>(),
    ) {
        let config = DirectionConfig { seed, reorder, ..config(jitter) };
        let first = released(&config, 100, gap);
        prop_assert_eq!(&first, &released(&config, 100, gap));
        let mut packets: Vec<_> = first.into_iter().map(|(_, packet)| packet).collect();
        packets.sort_unstable();
        prop_assert_eq!(packets, (0..100).collect::<Vec<_>>());
    }
}
