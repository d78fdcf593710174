//! Tests of the times of loads, which are exact in virtual time.

use serde_json::{Value, json};

use crate::support::{image, job, list, network, number, page, rate, request, root, with};
use crate::virtual_time::exactly;

fn plt_us(load: &Value) -> u64 {
    number(&load["plt_ns"]) / 1000
}

#[test]
fn a_page_of_one_packet_takes_two_round_trips_without_and_one_with_warm_cookies() {
    let Some(run) = exactly(&job(&page(&[root(500)]), &network(100_000), &["tcp", "cold", "warm"])) else {
        return;
    };
    assert_eq!(plt_us(run.valid("tcp")), 200_000);
    assert_eq!(plt_us(run.valid("cold")), 200_000);
    assert_eq!(plt_us(run.valid("warm")), 100_000);
}

#[test]
fn the_server_thinks_before_it_answers() {
    let think = |scale: f64| {
        let root = with(root(500), json!({"server_think_us": 150_000}));
        let job =
            with(job(&page(&[root]), &network(10_000), &["tcp"]), json!({"origins": {"think_scale": scale}}));
        exactly(&job).map(|run| plt_us(run.valid("tcp")))
    };
    let Some(as_recorded) = think(1.0) else { return };
    assert_eq!(as_recorded, 170_000);
    assert_eq!(think(2.0), Some(320_000));
    assert_eq!(think(0.0), Some(20_000));
}

#[test]
fn a_body_may_be_sent_over_a_time_and_its_first_bytes_name_resources_at_once() {
    let root = with(root(20_000), json!({"server_send_us": 300_000}));
    let early = with(image("http://a.test/early", 10), json!({"initiator_at_bytes": 10_000}));
    let Some(run) = exactly(&job(&page(&[root, early]), &network(10_000), &["tcp"])) else { return };
    let load = run.valid("tcp");
    let us = |resource: u64, key: &str| number(&request(load, resource)[key]) / 1000;
    // These times count from the start of the load: two round trips, and 300 ms for sending the response.
    assert_eq!(us(0, "first_byte_ns"), 20_000);
    assert_eq!(us(0, "end_ns"), 320_000);
    // The body is sent in 14 pieces of 1439 bytes (the last one is smaller), the first at once and the others
    // over 300 ms. The byte that reveals the image is in the seventh piece, which is sent after 6 / 12.898 of
    // this time.
    assert_eq!(us(1, "queued_ns"), 159_550);
}

#[test]
fn a_host_may_be_further_away_than_the_link_is_long() {
    let page = page(&[root(500), image("http://far.test/", 500)]);
    let link = with(network(20_000), json!({"host_extra_rtt_us": {"far.test": 100_000}}));
    let Some(run) = exactly(&job(&page, &link, &["tcp", "warm"])) else { return };
    let handshake = |load: &Value, at: usize| number(&list(&load["connections"])[at]["handshake_us"]);
    let tcp = run.valid("tcp");
    assert_eq!(handshake(tcp, 0), 20_000);
    assert_eq!(handshake(tcp, 1), 120_000);
    assert_eq!(plt_us(tcp), 40_000 + 240_000);
    assert_eq!(plt_us(run.valid("warm")), 20_000 + 120_000);
}

#[test]
fn packets_of_a_far_host_take_room_in_the_queue_only_once_they_have_reached_it() {
    // The far image's first packets leave its host at 330 ms and occupy the link of 1 Mbit/s from 430 to 550
    // ms. The near image leaves its host 5 ms after them, but reaches the link first. So it must not wait for
    // them, only for the transmission of its own packets of 60 and 852 bytes.
    let near = with(image("http://near.test/", 500), json!({"server_think_us": 305_000}));
    let page = page(&[root(500), image("http://far.test/", 60_000), near]);
    let network = json!({"down": rate(1_000_000), "host_extra_rtt_us": {"far.test": 200_000}});
    let Some(run) = exactly(&job(&page, &with(crate::support::network(20_000), network), &["tcp"])) else {
        return;
    };
    let near = &list(&run.valid("tcp")["requests"])[2];
    let took = (number(&near["end_ns"]) - number(&near["connect_start_ns"])) / 1000;
    assert_eq!(took, 20_000 + 20_000 + 305_000 + 480 + 6816);
}

#[test]
fn the_two_directions_have_rates_of_their_own() {
    // A load takes two round trips, and the transmission times of the packets that are sent one after
    // another: up SYN, ACK and request (31,250 ns a byte), down SYN-ACK, ACK and response (1000 ns a byte).
    let ns = |up_bytes: [u64; 3], down_bytes: [u64; 3]| {
        20_000_000 + up_bytes.iter().sum::<u64>() * 31_250 + down_bytes.iter().sum::<u64>() * 1000
    };
    let link = with(network(10_000), json!({"down": rate(8_000_000), "up": rate(256_000)}));
    let upload = with(root(10), json!({"method": "POST", "request_body_bytes": 10_000}));
    let took = |resource: Value| {
        let run = exactly(&job(&page(&[resource]), &link, &["tcp"]))?;
        let measured = &run.only("world")["measured"];
        assert_eq!(measured["down_bit_per_s"]["asked"], 8_000_000);
        assert_eq!(measured["up_bit_per_s"]["asked"], 256_000);
        Some(number(&run.valid("tcp")["plt_ns"]))
    };
    let Some(down) = took(root(100_000)) else { return };
    assert_eq!(down, ns([60, 52, 452], [60, 52, 100_300 + 70 * 52]));
    assert_eq!(took(upload), Some(ns([60, 52, 10_400 + 8 * 52], [60, 52, 362])));
}

#[test]
fn packets_leave_at_the_times_of_a_trace_alone() {
    // The trace lets 1500 bytes pass every 10 ms. The response fills 30 packets of 1500 bytes. The ACK or
    // SYN-ACK before them uses a part of the first 1500 bytes, so the last packet leaves 30 intervals later.
    let trace = json!({"rate_bit_per_s": null, "trace_ms": [10], "queue_bytes": null});
    let link = with(network(20_000), json!({"down": trace}));
    let mut job = job(&page(&[root(30 * 1448 - 300)]), &link, &["tcp", "warm"]);
    job["tolerance"]["rtt_us"] = json!(1000);
    let Some(run) = exactly(&job) else { return };
    assert_eq!(run.only("world")["measured"]["down_bit_per_s"], json!({"asked": null, "median": null}));
    // The response reaches the link at the very moment when a packet may pass, but has to wait for the next
    // such moment.
    let tcp = run.valid("tcp");
    let connected_ns = number(&list(&tcp["connections"])[0]["connected_ns"]);
    assert_eq!(number(&tcp["plt_ns"]) - connected_ns, 330_000_000);
    // The SYN-ACK waits for the next time in the trace.
    let warm_us = plt_us(run.valid("warm"));
    assert!((320_000..=330_000).contains(&warm_us), "{warm_us} us");
}

#[test]
fn a_round_trip_above_the_first_timeout_of_tcp_is_measured() {
    let link = network(1_500_000);
    let Some(run) = exactly(&job(&page(&[root(500)]), &link, &["tcp", "warm"])) else { return };
    assert_eq!(number(&run.only("world")["measured"]["rtt_us"]["median"]), 1_500_000);
    assert_eq!(plt_us(run.valid("tcp")), 3_000_000);
    assert_eq!(plt_us(run.valid("warm")), 1_500_000);
}

#[test]
fn the_measured_round_trip_is_what_was_asked_and_the_probes_own_serialisation() {
    // SYN and SYN-ACK have 60 bytes each. Each takes 7.5 ms at 64 kbit/s.
    let link = with(network(40_000), json!({"down": rate(64_000), "up": rate(64_000)}));
    let Some(run) = exactly(&job(&page(&[root(10)]), &link, &["tcp"])) else { return };
    let rtt = &run.only("world")["measured"]["rtt_us"];
    assert_eq!(
        (&rtt["asked"], &rtt["expected"], &rtt["samples"]),
        (&json!(40_000), &json!(55_000), &json!(5))
    );
    assert_eq!(number(&rtt["median"]), 55_000);
}

#[test]
fn the_times_of_a_request_are_in_their_order_and_a_round_trip_apart() {
    let Some(run) =
        exactly(&job(&page(&[root(3000), image("http://a.test/i", 3000)]), &network(30_000), &["tcp"]))
    else {
        return;
    };
    let load = run.valid("tcp");
    let times = |resource, keys: &[&str]| -> Vec<u64> {
        keys.iter().map(|key| number(&request(load, resource)[*key])).collect()
    };
    let first =
        times(0, &["queued_ns", "connect_start_ns", "connected_ns", "sent_ns", "first_byte_ns", "end_ns"]);
    assert!(first.is_sorted(), "{first:?}");
    assert!(first[2] - first[1] >= 30_000_000 && first[4] - first[3] >= 30_000_000, "{first:?}");
    let second = times(1, &["queued_ns", "sent_ns", "first_byte_ns", "end_ns"]);
    assert!(second.is_sorted() && second[0] >= first[5], "{second:?}");
    // Both requests use the same connection.
    assert_eq!(request(load, 1)["connect_start_ns"], json!(null));
    assert_eq!(request(load, 1)["connection"], request(load, 0)["connection"]);
}
