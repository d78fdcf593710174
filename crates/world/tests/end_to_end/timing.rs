//! Times against their physical lower bound and a loose upper one, for busy machines.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};

use serde_json::{Value, json};

use crate::support::{image, job, list, network, number, page, plt_ms, rate, request, root, run, with};

/// Later than a machine that is not too busy makes it.
struct Late(String);

/// Not sooner than `least`, and less than `slack` later.
fn assert_within(what: &str, ms: f64, least: f64, slack: f64) {
    let text = format!("{what}: {ms} ms instead of {least} to {} ms", least + slack);
    assert!(ms >= least, "{text}");
    if ms >= least + slack {
        panic_any(Late(text));
    }
}

/// Three times at most: a machine that stood still makes a load later. Whatever else fails, fails at once.
fn undisturbed(test: impl Fn()) {
    for attempt in 1..=3 {
        let Err(failed) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        match failed.downcast::<Late>() {
            Ok(late) if attempt < 3 => eprintln!("{}", late.0),
            Ok(late) => panic!("{}", late.0),
            Err(other) => resume_unwind(other),
        }
    }
}

#[test]
fn a_page_of_one_packet_takes_two_round_trips_without_and_one_with_warm_cookies() {
    undisturbed(|| {
        let run = run(&job(&page(&[root(500)]), &network(100_000), &["tcp", "cold", "warm"]));
        assert_within("tcp", plt_ms(run.valid("tcp")), 200.0, 60.0);
        assert_within("cold", plt_ms(run.valid("cold")), 200.0, 60.0);
        assert_within("warm", plt_ms(run.valid("warm")), 100.0, 60.0);
    });
}

#[test]
fn the_server_thinks_before_it_answers() {
    undisturbed(|| {
        let think = |scale: f64| {
            let root = with(root(500), json!({"server_think_us": 150_000}));
            let job = with(
                job(&page(&[root]), &network(10_000), &["tcp"]),
                json!({"origins": {"think_scale": scale}}),
            );
            plt_ms(run(&job).valid("tcp"))
        };
        assert_within("as recorded", think(1.0), 170.0, 80.0);
        assert_within("doubled", think(2.0), 320.0, 80.0);
        assert_within("not at all", think(0.0), 20.0, 80.0);
    });
}

#[test]
fn a_body_may_be_sent_over_a_time_and_its_first_bytes_name_resources_at_once() {
    undisturbed(|| {
        let root = with(root(20_000), json!({"server_send_us": 300_000}));
        let early = with(image("http://a.test/early", 10), json!({"initiator_at_bytes": 10_000}));
        let run = run(&job(&page(&[root, early]), &network(10_000), &["tcp"]));
        let load = run.valid("tcp");
        let ms = |resource: u64, key: &str| number(&request(load, resource)[key]) as f64 / 1e6;
        // Since the load's start: two round trips and the time of sending.
        assert_within("the first byte", ms(0, "first_byte_ns"), 20.0, 80.0);
        assert_within("the body", ms(0, "end_ns"), 319.0, 80.0);
        // The seventh of 14 pieces of 1439 bytes (the last one is smaller) has the byte: 6 / 12.9 of 300 ms.
        assert_within("half of it", ms(1, "queued_ns"), 159.5, 80.0);
    });
}

#[test]
fn a_host_may_be_further_away_than_the_link_is_long() {
    undisturbed(|| {
        let page = page(&[root(500), image("http://far.test/", 500)]);
        let link = with(network(20_000), json!({"host_extra_rtt_us": {"far.test": 100_000}}));
        let run = run(&job(&page, &link, &["tcp", "warm"]));
        let handshake =
            |load: &Value, at: usize| number(&list(&load["connections"])[at]["handshake_us"]) as f64 / 1e3;
        let tcp = run.valid("tcp");
        assert_within("near", handshake(tcp, 0), 20.0, 50.0);
        assert_within("far", handshake(tcp, 1), 120.0, 50.0);
        assert_within("both", plt_ms(tcp), 40.0 + 240.0, 80.0);
        assert_within("both, warm", plt_ms(run.valid("warm")), 20.0 + 120.0, 80.0);
    });
}

#[test]
fn packets_of_a_far_host_take_room_in_the_queue_only_once_they_have_reached_it() {
    undisturbed(|| {
        // The far image's first packets leave its host at 330 ms and occupy the link of 1 Mbit/s from 430 to
        // 550 ms. The near image leaves 5 ms after them and must not wait for them.
        let near = with(image("http://near.test/", 500), json!({"server_think_us": 305_000}));
        let page = page(&[root(500), image("http://far.test/", 60_000), near]);
        let network = json!({"down": rate(1_000_000), "host_extra_rtt_us": {"far.test": 200_000}});
        let run = run(&job(&page, &with(crate::support::network(20_000), network), &["tcp"]));
        let near = &list(&run.valid("tcp")["requests"])[2];
        let took = (number(&near["end_ns"]) - number(&near["connect_start_ns"])) as f64 / 1e6;
        assert_within("near", took, 20.0 + 20.0 + 305.0, 80.0);
    });
}

#[test]
fn the_two_directions_have_rates_of_their_own() {
    undisturbed(|| {
        // 100 kB down at 8 Mbit/s take 100 ms, 10 kB up at 256 kbit/s 312 ms.
        let link = with(network(10_000), json!({"down": rate(8_000_000), "up": rate(256_000)}));
        let upload = with(root(10), json!({"method": "POST", "request_body_bytes": 10_000}));
        let took = |resource: Value| {
            let run = run(&job(&page(&[resource]), &link, &["tcp"]));
            let measured = &run.only("world")["measured"];
            assert_eq!(measured["down_bit_per_s"]["asked"], 8_000_000);
            assert_eq!(measured["up_bit_per_s"]["asked"], 256_000);
            plt_ms(run.valid("tcp"))
        };
        assert_within("down", took(root(100_000)), 120.0, 120.0);
        assert_within("up", took(upload), 332.0, 150.0);
    });
}

#[test]
fn packets_leave_at_the_times_of_a_trace_alone() {
    undisturbed(|| {
        // One packet every 10 ms: 30 packets of the body need 29 gaps.
        let trace = json!({"rate_bit_per_s": null, "trace_ms": [10], "queue_bytes": null});
        let link = with(network(20_000), json!({"down": trace}));
        let mut job = job(&page(&[root(30 * 1448 - 300)]), &link, &["tcp", "warm"]);
        job["tolerance"]["rtt_us"] = json!(1000);
        let run = run(&job);
        assert_eq!(run.only("world")["measured"]["down_bit_per_s"], json!({"asked": null, "median": null}));
        assert_within("tcp", plt_ms(run.valid("tcp")), 20.0 + 20.0 + 290.0, 100.0);
        assert_within("warm", plt_ms(run.valid("warm")), 20.0 + 290.0, 100.0);
    });
}

#[test]
fn the_measured_round_trip_is_what_was_asked_and_the_probes_own_serialisation() {
    undisturbed(|| {
        // A SYN and its answer have 60 bytes each: 7.5 ms each at 64 kbit/s.
        let link = with(network(40_000), json!({"down": rate(64_000), "up": rate(64_000)}));
        let run = run(&job(&page(&[root(10)]), &link, &["tcp"]));
        let rtt = &run.only("world")["measured"]["rtt_us"];
        assert_eq!(
            (&rtt["asked"], &rtt["expected"], &rtt["samples"]),
            (&json!(40_000), &json!(55_000), &json!(5))
        );
        assert_within("measured", number(&rtt["median"]) as f64 / 1e3, 55.0, 20.0);
    });
}

#[test]
fn the_times_of_a_request_are_in_their_order_and_a_round_trip_apart() {
    let run = run(&job(&page(&[root(3000), image("http://a.test/i", 3000)]), &network(30_000), &["tcp"]));
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
    // On the same connection.
    assert_eq!(request(load, 1)["connect_start_ns"], json!(null));
    assert_eq!(request(load, 1)["connection"], request(load, 0)["connection"]);
}
