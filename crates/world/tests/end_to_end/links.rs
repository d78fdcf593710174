//! Tests of the link's loss and queues, as the records of loads report them.

use fastopen_link::{Direction, DirectionConfig};
use serde_json::{Value, json};

use crate::support::{image, job, list, network, number, page, rate, root, run, with};
use crate::virtual_time::exactly;

const SEED: u64 = 7;

/// Returns the number of packets that the link model loses among the first `offered`.
fn lost_by_the_model(ratio: f64, offered: u64) -> u64 {
    let config = DirectionConfig { loss: ratio, seed: SEED, ..DirectionConfig::default() };
    let mut direction = Direction::new(&config, 0);
    (0..offered).filter(|_| direction.offer(0, 100, 0, ()).is_err()).count() as u64
}

fn lossy(ratio: f64) -> Value {
    json!({"rate_bit_per_s": null, "queue_bytes": null, "loss": ratio})
}

fn retransmits(load: &Value, end: &str) -> u64 {
    list(&load["connections"]).iter().filter_map(|connection| connection[end]["retransmits"].as_u64()).sum()
}

#[test]
fn lost_packets_are_those_of_the_seed_and_are_sent_again() {
    let job =
        job(&page(&[root(600_000)]), &with(network(10_000), json!({"down": lossy(0.02)})), &["tcp", "warm"]);
    let run = run(&job);
    for id in ["tcp", "warm"] {
        let load = run.valid(id);
        let down = &load["link"]["down"];
        let lost = number(&down["dropped_loss"]);
        assert_eq!(lost, lost_by_the_model(0.02, number(&down["packets"]) + lost));
        assert!(lost >= 3, "{lost} packets were lost");
        assert!(retransmits(load, "origin") >= lost / 2);
        assert_eq!(load["link"]["up"]["dropped_loss"], 0);
    }
}

#[test]
fn a_link_that_loses_half_of_all_packets_is_measured_and_loaded_over() {
    let link = with(network(5000), json!({"down": lossy(0.5), "up": lossy(0.5)}));
    let changes = json!({"load_timeout_us": 1_500_000});
    for seed in 0..4 {
        let job =
            with(with(job(&page(&[root(100)]), &link, &["warm"]), changes.clone()), json!({"seed": seed}));
        let run = run(&job);
        assert_eq!(run.code, Some(0), "{run}");
        assert_eq!(run.only("world")["measured"]["rtt_us"]["samples"], 5);
        let load = run.load("warm");
        // The load may miss its time limit, but must not be invalid for another reason.
        assert!(list(&load["invalid"]).iter().all(|reason| reason["kind"] == "incomplete"), "{load:#}");
    }
}

#[test]
fn a_cold_load_over_a_lossy_link_is_valid_when_it_is_complete() {
    let images: Vec<_> =
        (0..6).map(|number| image(&format!("http://{}.test/{number}", number % 2), 5000)).collect();
    let page = page(&[&[root(5000)][..], &images].concat());
    let link = with(network(10_000), json!({"down": lossy(0.07), "up": lossy(0.07)}));
    for seed in 0..4 {
        let job =
            with(job(&page, &link, &["cold", "warm"]), json!({"seed": seed, "client": {"profile": "mget"}}));
        let Some(run) = exactly(&job) else { return };
        run.valid("cold");
        run.valid("warm");
    }
}

#[test]
fn a_short_queue_drops_what_it_has_no_room_for() {
    let down = json!({"rate_bit_per_s": 2_000_000, "queue_bytes": 6000});
    let run =
        run(&job(&page(&[root(100_000)]), &with(network(20_000), json!({"down": down})), &["tcp", "warm"]));
    for id in ["tcp", "warm"] {
        let down = &run.valid(id)["link"]["down"];
        assert!(number(&down["dropped_queue"]) > 0, "{down}");
        assert!((1500..=6000).contains(&number(&down["queue_bytes_max"])), "{down}");
        assert_eq!(down["dropped_loss"], 0);
    }
}

#[test]
fn a_queue_without_room_for_a_packet_still_passes_one_at_a_time() {
    let down = json!({"rate_bit_per_s": 10_000_000, "queue_bytes": 1});
    let run = run(&job(&page(&[root(3000)]), &with(network(2000), json!({"down": down})), &["tcp"]));
    let load = run.valid("tcp");
    assert_eq!(load["link"]["down"]["queue_bytes_max"], 0);
    assert_eq!(run.only("world")["measured"]["down_bit_per_s"], json!({"asked": 10_000_000, "median": null}));
}

#[test]
fn a_link_counts_the_packets_and_bytes_that_tcp_says_it_sent() {
    let run =
        run(&job(&page(&[root(200_000)]), &with(network(5000), json!({"down": rate(50_000_000)})), &["tcp"]));
    let load = run.valid("tcp");
    let [connection] = list(&load["connections"]) else { panic!("one connection") };
    let down = &load["link"]["down"];
    assert_eq!(
        number(&down["packets"]),
        number(&connection["origin"]["segments_out"]) + 1,
        "the SYN's answer is none"
    );
    // The IP and TCP headers of a packet, with TCP timestamps, have 52 bytes.
    let bytes = number(&connection["origin"]["bytes_sent"]);
    let headers = number(&down["bytes"]) - bytes;
    assert!(headers >= 52 * number(&down["packets"]), "{headers} bytes of headers");
    for late in ["late_us_p50", "late_us_p99", "late_us_max"] {
        assert!(number(&down[late]) <= number(&down["late_us_max"]));
    }
}

#[test]
fn a_packet_that_left_later_than_the_job_allows_makes_the_load_invalid() {
    let mut job =
        job(&page(&[root(500_000)]), &with(network(2000), json!({"down": rate(20_000_000)})), &["tcp"]);
    job["tolerance"]["late_us"] = json!(0);
    let run = run(&job);
    let load = run.load("tcp");
    let kinds: Vec<_> = list(&load["invalid"]).iter().map(|reason| &reason["kind"]).collect();
    assert_eq!(
        (load["valid"].as_bool(), kinds),
        (
            Some(false),
            vec![
                &json!("link_late");
                usize::from(number(&load["link"]["down"]["late_us_max"]) > 0)
                    + usize::from(number(&load["link"]["up"]["late_us_max"]) > 0)
            ]
        )
    );
}
