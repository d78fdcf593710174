//! Tests one direction of a link with short sequences of packets: when each packet is released, given the
//! time when it is offered.

use fastopen_link::{
    Direction, DirectionConfig, DropCause, Nanos, Rate, Stats, Trace, expected_train, expected_transit,
};

const MS: Nanos = 1_000_000;

fn config(rate: Rate) -> DirectionConfig {
    DirectionConfig { delay: 10 * MS, rate, ..DirectionConfig::default() }
}

/// Returns the configuration of a link on which 1500 bytes take 3 ms.
fn four_megabit() -> DirectionConfig {
    config(Rate::BitPerS(4_000_000))
}

fn direction(config: &DirectionConfig) -> Direction<&'static str> {
    Direction::new(config, 0)
}

fn release_all<P>(direction: &mut Direction<P>) -> Vec<(Nanos, P)> {
    std::iter::from_fn(|| direction.release(Nanos::MAX)).collect()
}

#[test]
fn an_unlimited_link_only_delays() {
    let mut link = direction(&config(Rate::Unlimited));
    link.offer(5, 1500, 0, "a").unwrap();
    link.offer(5, 1500, 0, "b").unwrap();
    assert_eq!(release_all(&mut link), [(10 * MS + 5, "a"), (10 * MS + 5, "b")]);
    assert_eq!(link.stats().queue_bytes_max, 0);
}

#[test]
fn a_packet_waits_for_the_one_before_it() {
    let mut link = direction(&four_megabit());
    link.offer(0, 1500, 0, "a").unwrap();
    link.offer(MS, 1500, 0, "b").unwrap();
    link.offer(20 * MS, 500, 0, "c").unwrap();
    assert_eq!(release_all(&mut link), [(13 * MS, "a"), (16 * MS, "b"), (31 * MS, "c")]);
}

#[test]
fn nothing_is_released_before_it_is_due() {
    let mut link = direction(&four_megabit());
    assert_eq!(link.next_release(), None);
    link.offer(0, 1500, 0, "a").unwrap();
    assert_eq!(link.next_release(), Some(13 * MS));
    assert_eq!(link.release(13 * MS - 1), None);
    assert_eq!(link.release(14 * MS), Some((13 * MS, "a")));
    assert_eq!(link.release(14 * MS), None);
    assert_eq!(link.next_release(), None);
}

#[test]
fn a_packet_of_a_far_host_is_overtaken_but_never_by_its_own_host() {
    let mut link = direction(&config(Rate::Unlimited));
    link.offer(0, 100, 5 * MS, "far 1").unwrap();
    link.offer(MS, 100, 0, "near 1").unwrap();
    link.offer(2 * MS, 100, 5 * MS, "far 2").unwrap();
    link.offer(5 * MS, 100, 0, "near 2").unwrap();
    let order: Vec<_> = release_all(&mut link).into_iter().map(|(_, packet)| packet).collect();
    assert_eq!(order, ["near 1", "far 1", "near 2", "far 2"]);
}

#[test]
fn packets_due_at_one_moment_leave_in_the_order_of_offering() {
    let mut link = direction(&config(Rate::Unlimited));
    link.offer(0, 100, 2 * MS, "first").unwrap();
    link.offer(MS, 100, MS, "second").unwrap();
    link.offer(2 * MS, 100, 0, "third").unwrap();
    let order: Vec<_> = release_all(&mut link);
    assert_eq!(order, [(12 * MS, "first"), (12 * MS, "second"), (12 * MS, "third")]);
}

#[test]
fn the_queue_counts_what_waits_but_not_what_is_on_the_wire() {
    let mut link = direction(&DirectionConfig { queue_limit_bytes: Some(3000), ..four_megabit() });
    link.offer(0, 1500, 0, "on the wire").unwrap();
    link.offer(0, 1500, 0, "waits").unwrap();
    link.offer(0, 1500, 0, "waits too").unwrap();
    let dropped = link.offer(0, 40, 0, "no room").unwrap_err();
    assert_eq!((dropped.packet, dropped.cause), ("no room", DropCause::Queue));
    // At 3 ms the second packet goes on the wire and leaves room for another packet.
    assert!(link.offer(3 * MS - 1, 1500, 0, "a little too early").is_err());
    link.offer(3 * MS, 1500, 0, "in time").unwrap();
    assert_eq!(
        link.stats(),
        Stats {
            packets: 4,
            bytes: 6000,
            dropped_queue: 2,
            dropped_loss: 0,
            dropped_path: 0,
            queue_bytes_max: 3000
        }
    );
}

#[test]
fn a_link_without_any_queue_still_takes_a_packet_when_idle() {
    let mut link = direction(&DirectionConfig { queue_limit_bytes: Some(0), ..four_megabit() });
    link.offer(0, 1500, 0, "a").unwrap();
    assert!(link.offer(3 * MS - 1, 1500, 0, "b").is_err());
    link.offer(3 * MS, 1500, 0, "c").unwrap();
}

#[test]
fn a_lost_packet_takes_neither_time_nor_room() {
    let mut link = direction(&DirectionConfig { loss: 0.5, ..four_megabit() });
    for _ in 0..20 {
        let _lost = link.offer(0, 1500, 0, "packet");
    }
    let Stats { packets, dropped_loss, queue_bytes_max, .. } = link.stats();
    assert!(packets > 1 && dropped_loss > 1);
    assert_eq!(release_all(&mut link).last().unwrap().0, 10 * MS + packets * 3 * MS);
    assert_eq!(queue_bytes_max, (packets - 1) * 1500);
}

#[test]
fn time_that_goes_backwards_stands_still() {
    let mut link = direction(&config(Rate::Unlimited));
    link.offer(8, 100, 0, "a").unwrap();
    link.offer(3, 100, 0, "b").unwrap();
    assert_eq!(release_all(&mut link), [(10 * MS + 8, "a"), (10 * MS + 8, "b")]);
}

#[test]
fn odd_rates_do_not_drift() {
    // 1500 bytes at 7 777 777 bit/s take 1 542 857.297… ns.
    let config = DirectionConfig { delay: 0, ..config(Rate::BitPerS(7_777_777)) };
    let mut link = Direction::new(&config, 0);
    for _ in 0..10_000 {
        link.offer(0, 1500, 0, ()).unwrap();
    }
    let last = release_all(&mut link).last().unwrap().0;
    assert_eq!(last, 15_428_572_971); // floor(10 000 * 12 000 * 10^9 / 7 777 777)
}

#[test]
fn a_link_that_is_started_later_treats_the_same_packets_the_same() {
    let trace = Trace::from_millis(&[3, 4, 4, 9, 17]).unwrap();
    let config =
        DirectionConfig { loss: 0.2, queue_limit_bytes: Some(4000), seed: 99, ..config(Rate::Trace(trace)) };
    let load = |start: Nanos| {
        let mut link = Direction::new(&config, start);
        for packet in 0..200_usize {
            let _dropped = link.offer(start + packet as Nanos * MS, 700, 0, packet);
        }
        let stats = link.stats();
        (
            stats,
            release_all(&mut link).into_iter().map(|(due, packet)| (due - start, packet)).collect::<Vec<_>>(),
        )
    };
    let first = load(0);
    assert_eq!(load(1_234_567_891), first);
    assert!(first.0.dropped_queue > 0 && first.0.dropped_loss > 0);
}

#[test]
fn a_train_of_equal_packets_takes_one_serialisation_for_each_after_the_first() {
    let limited = DirectionConfig { queue_limit_bytes: Some(0), loss: 0.5, ..four_megabit() };
    assert_eq!(expected_train(&limited, 11, 1500), 30 * MS);
    assert_eq!(expected_train(&limited, 1, 1500), 0);
    assert_eq!(expected_train(&limited, 0, 1500), 0);
    assert_eq!(expected_train(&config(Rate::Unlimited), 11, 1500), 0);
}

#[test]
fn an_idle_link_passes_a_packet_after_serialisation_and_delay() {
    assert_eq!(expected_transit(&four_megabit(), 500), 11 * MS);
    assert_eq!(expected_transit(&config(Rate::Unlimited), 500), 10 * MS);
    let trace = Trace::from_millis(&[0, 7]).unwrap();
    assert_eq!(expected_transit(&config(Rate::Trace(trace)), 500), 17 * MS);
}
