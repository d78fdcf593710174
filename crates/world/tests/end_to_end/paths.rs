//! Tests of Linux's behaviour on paths that break TCP Fast Open, in virtual time. Most tests load one
//! resource with a round trip of 100 ms.

use serde_json::{Value, json};

use crate::support::{grown, image, job, list, network, number, page, request, root, with, with_syn_data};
use crate::virtual_time::exactly;

/// Columns: the path, the arm, the lower and the exclusive upper bound of the first byte's time in
/// milliseconds, `tcpi_fastopen_client_fail`, the number of segments that the client retransmitted, and the
/// counters that grew at the client and at the origins. A counter that grew by two is named twice.
type Row = (&'static str, &'static str, [u64; 2], u64, u64, &'static [&'static str], &'static [&'static str]);

/// Expected results of loads of one request. A lost SYN is retransmitted after a second, plus a delay from
/// the kernel's timer wheel.
const ROWS: [Row; 13] = [
    ("none", "warm", [100, 101], 0, 0, &["TCPFastOpenActive"], &["TCPFastOpenPassive"]),
    ("none", "cold", [200, 201], 1, 0, &[], &["TCPFastOpenCookieReqd"]),
    (
        "drop-syn-data",
        "warm",
        [1200, 1233],
        3,
        2,
        &["TCPFastOpenActiveFail", "TCPSynRetrans", "TCPTimeouts"],
        &[],
    ),
    ("drop-option", "cold", [1200, 1233], 1, 1, &["TCPSynRetrans", "TCPTimeouts"], &[]),
    (
        "drop-option",
        "warm",
        [1200, 1233],
        3,
        2,
        &["TCPFastOpenActiveFail", "TCPSynRetrans", "TCPTimeouts"],
        &[],
    ),
    ("drop-synack-option", "warm", [100, 101], 0, 0, &["TCPFastOpenActive"], &["TCPFastOpenPassive"]),
    (
        "drop-synack-option",
        "cold",
        [1200, 1233],
        1,
        1,
        &["TCPSynRetrans", "TCPTimeouts"],
        // The origin retransmits its SYN-ACK when its own timer expires, and when the client's second SYN
        // arrives.
        &["TCPFastOpenCookieReqd", "TCPSynRetrans", "TCPSynRetrans", "TCPTimeouts"],
    ),
    ("strip-option", "cold", [200, 201], 1, 0, &[], &[]),
    ("strip-option", "warm", [200, 201], 2, 1, &["TCPFastOpenActiveFail"], &[]),
    ("strip-both", "warm", [200, 201], 2, 1, &["TCPFastOpenActiveFail"], &[]),
    ("strip-data", "warm", [200, 201], 2, 1, &["TCPFastOpenActiveFail"], &["TCPFastOpenPassive"]),
    ("strip-synack-option", "cold", [200, 201], 1, 0, &[], &["TCPFastOpenCookieReqd"]),
    ("break-cookie", "warm", [200, 201], 2, 1, &["TCPFastOpenActiveFail"], &["TCPFastOpenPassiveFail"]),
];

const WATCHED: [&str; 8] = [
    "TCPFastOpenActive",
    "TCPFastOpenActiveFail",
    "TCPFastOpenPassive",
    "TCPFastOpenPassiveFail",
    "TCPFastOpenCookieReqd",
    "TCPFastOpenBlackhole",
    "TCPSynRetrans",
    "TCPTimeouts",
];

fn over(path: &str, page: &Value, arms: &[&str]) -> Value {
    with(
        job(page, &with(network(100_000), json!({"path": path})), arms),
        json!({"load_timeout_us": 5_000_000}),
    )
}

#[test]
fn each_path_costs_what_it_costs_and_the_load_is_valid_by_what_both_kernels_say() {
    for (path, arm, [least, most], fail, again, client, origins) in ROWS {
        // The profile is `mget`, because the browser profile opens a second connection after 250 ms.
        let one_connection = json!({"client": {"profile": "mget"}});
        let job = with(over(path, &page(&[root(3000)]), &[arm]), one_connection);
        let Some(run) = exactly(&job) else { return };
        let load = run.valid(arm);
        let first_byte_ms = number(&request(load, 0)["first_byte_ns"]) / 1_000_000;
        assert!((least..most).contains(&first_byte_ms), "{path}, {arm}: {first_byte_ms} ms");
        let [connection] = list(&load["connections"]) else { panic!("{path}, {arm}: {load:#}") };
        assert_eq!(connection["client"]["fastopen_client_fail"], fail, "{path}, {arm}");
        assert_eq!(grown(load, "client", "RetransSegs"), again, "{path}, {arm}: segments sent again");
        let accepted = client.contains(&"TCPFastOpenActive");
        assert_eq!(with_syn_data(load, "client"), usize::from(accepted), "{path}, {arm}");
        for (end, expected) in [("client", client), ("origins", origins)] {
            for counter in WATCHED {
                let times = expected.iter().filter(|one| **one == counter).count() as u64;
                assert_eq!(grown(load, end, counter), times, "{path}, {arm}: {counter} of the {end}");
            }
        }
    }
}

/// Runs a load over TLS with this key share behind a path. Returns the load's record, and the time of the
/// first byte in milliseconds or, if the load is invalid, the kind of the first reason. Returns `None` if no
/// kernel of the virtual engine is installed.
fn with_hello(path: &str, key_share: &str, arm: &str) -> Option<(Value, Result<u64, String>)> {
    let changes = json!({"tls": {"key_share": key_share}, "client": {"profile": "mget"}});
    let run = exactly(&with(over(path, &page(&[root(3000)]), &[arm]), changes))?;
    let load = run.load(arm).clone();
    let found = if load["valid"] == true {
        Ok(number(&request(&load, 0)["first_byte_ns"]) / 1_000_000)
    } else {
        Err(load["invalid"][0]["kind"].as_str().unwrap_or("").to_owned())
    };
    Some((load, found))
}

#[test]
fn a_path_that_cannot_take_a_hello_of_two_segments_delays_or_ends_those_alone() {
    for path in ["drop-split-hello", "rst-split-hello", "stall-second-segment"] {
        for (arm, least) in [("tls", 300), ("tls-warm", 200)] {
            let Some((load, first_byte_ms)) = with_hello(path, "x25519", arm) else { return };
            assert_eq!(first_byte_ms, Ok(least), "{path}, {arm}");
            assert_eq!(number(&load["link"]["up"]["dropped_path"]), 0, "{path}, {arm}");
        }
    }
    let share = "x25519mlkem768";
    for path in ["drop-split-hello", "rst-split-hello"] {
        let Some((load, found)) = with_hello(path, share, "tls") else { return };
        assert_eq!(found, Err("incomplete".into()), "{path}");
        assert!(number(&load["link"]["up"]["dropped_path"]) > 0, "{path}");
        assert_eq!(grown(&load, "client", "TCPTimeouts") > 0, path == "drop-split-hello", "{path}");
        let warm = with_hello(path, share, "tls-warm").map(|(load, _)| load["invalid"].clone());
        let reasons: Vec<_> = warm.iter().flat_map(list).map(|reason| &reason["kind"]).collect();
        assert_eq!(reasons, ["incomplete"], "{path}");
    }
    // The timer retransmits the second segment 200 ms plus the measured round trip after the first one is
    // acknowledged. With Fast Open, the SYN carries the first segment, so both events come earlier.
    for (arm, first_byte) in [("tls", 711), ("tls-warm", 615)] {
        let Some((load, found)) = with_hello("stall-second-segment", share, arm) else { return };
        assert_eq!(found, Ok(first_byte), "{arm}");
        assert_eq!(number(&load["link"]["up"]["dropped_path"]), 1, "{arm}");
        assert_eq!(grown(&load, "client", "RetransSegs"), 1, "{arm}");
    }
}

/// Columns: the sysctl `tcp_fastopen` of the client and of the hosts, the arm, the time of the first byte in
/// milliseconds, `tcpi_fastopen_client_fail`, and the counters that grew by one at the client and at the
/// origins.
type Setting =
    (&'static str, &'static str, &'static str, u64, u64, &'static [&'static str], &'static [&'static str]);

const SETTINGS: [Setting; 9] = [
    // Linux's default, which turns Fast Open on only for clients.
    ("0x1", "0x1", "cold", 200, 1, &[], &["TCPFastOpenCookieReqd"]),
    ("0x1", "0x1", "warm", 200, 2, &["TCPFastOpenActiveFail"], &[]),
    // The client sends data without a cookie, in two rows to hosts that require a cookie, then to hosts that
    // do not.
    ("0x5", "0x2", "cold", 200, 2, &["TCPFastOpenActiveFail"], &[]),
    ("0x5", "0x2", "warm", 200, 2, &["TCPFastOpenActiveFail"], &[]),
    ("0x5", "0x202", "cold", 100, 0, &["TCPFastOpenActive"], &["TCPFastOpenPassive"]),
    // Hosts that do not require a cookie issue none, so a client that needs one requests it on every
    // connection.
    ("0x1", "0x202", "cold", 200, 1, &[], &["TCPFastOpenCookieReqd", "TCPFastOpenPassive"]),
    ("0x1", "0x202", "warm", 100, 0, &["TCPFastOpenActive"], &["TCPFastOpenPassive"]),
    ("0x1", "0x402", "warm", 100, 0, &["TCPFastOpenActive"], &["TCPFastOpenPassive"]),
    ("0x5", "0x602", "warm", 100, 0, &["TCPFastOpenActive"], &["TCPFastOpenPassive"]),
];

#[test]
fn each_setting_of_both_ends_shows_what_linux_makes_of_it_and_the_load_is_valid() {
    for (client_bits, listener_bits, arm, first_byte, fail, client, origins) in SETTINGS {
        let place = format!("{client_bits}, {listener_bits}, {arm}");
        let tcp = json!({"tcp": {"client_fastopen": client_bits, "listener_fastopen": listener_bits}});
        let job = with(job(&page(&[root(3000)]), &network(100_000), &[arm]), tcp);
        let Some(run) = exactly(&job) else { return };
        let load = run.valid(arm);
        let first_byte_ms = number(&request(load, 0)["first_byte_ns"]) / 1_000_000;
        assert!((first_byte..=first_byte + 1).contains(&first_byte_ms), "{place}: {first_byte_ms} ms");
        let [connection] = list(&load["connections"]) else { panic!("{place}: {load:#}") };
        assert_eq!(connection["client"]["fastopen_client_fail"], fail, "{place}");
        for (end, expected) in [("client", client), ("origins", origins)] {
            for counter in WATCHED {
                let times = u64::from(expected.contains(&counter));
                assert_eq!(grown(load, end, counter), times, "{place}: {counter} of the {end}");
            }
        }
    }
}

/// Columns: a path over which no page loads with Fast Open, `tcp_fastopen_blackhole_timeout_sec`, and the
/// counters that grew at the client and at the origins, each with its growth.
type Never = (&'static str, u64, &'static [(&'static str, u64)], &'static [(&'static str, u64)]);

const NEVER: [Never; 5] = [
    ("rst-syn-data", 0, &[("AttemptFails", 1)], &[]),
    (
        "drop-synack",
        0,
        &[("TCPFastOpenActiveFail", 1), ("TCPSynRetrans", 10), ("TCPTimeouts", 10)],
        &[("TCPFastOpenPassive", 1), ("TCPSynRetrans", 16), ("TCPTimeouts", 6)],
    ),
    // The detection of black holes also counts the timeouts of SYNs.
    (
        "drop-synack",
        3600,
        &[
            ("TCPFastOpenActiveFail", 1),
            ("TCPFastOpenBlackhole", 1),
            ("TCPSynRetrans", 10),
            ("TCPTimeouts", 10),
        ],
        &[("TCPFastOpenPassive", 1), ("TCPSynRetrans", 16), ("TCPTimeouts", 6)],
    ),
    (
        "drop-answers",
        0,
        &[("TCPFastOpenActive", 1)],
        &[("TCPFastOpenPassive", 1), ("TCPFastOpenActiveFail", 1), ("TCPTimeouts", 8)],
    ),
    // The host's kernel also suspects a black hole, at the third timeout in a row.
    (
        "drop-answers",
        3600,
        &[("TCPFastOpenActive", 1)],
        &[
            ("TCPFastOpenPassive", 1),
            ("TCPFastOpenActiveFail", 1),
            ("TCPFastOpenBlackhole", 1),
            ("TCPTimeouts", 8),
        ],
    ),
];

#[test]
fn a_page_is_not_loaded_where_what_follows_data_in_a_syn_is_answered_by_a_reset_or_dropped() {
    for (path, blackhole_timeout_s, client, origins) in NEVER {
        let settings =
            json!({"load_timeout_us": 130_000_000, "tcp": {"blackhole_timeout_s": blackhole_timeout_s}});
        let job = with(over(path, &page(&[root(3000)]), &["tcp", "warm"]), settings);
        let Some(run) = exactly(&job) else { return };
        run.valid("tcp");
        let load = run.load("warm");
        let reasons: Vec<_> = list(&load["invalid"]).iter().map(|one| &one["kind"]).collect();
        assert_eq!(reasons, ["incomplete"], "{path}: {run}");
        let first_byte = &request(load, 0)["first_byte_ns"];
        assert!(first_byte.is_null(), "{path}: {first_byte}");
        for (end, expected) in [("client", client), ("origins", origins)] {
            for counter in WATCHED.iter().chain(&["AttemptFails"]) {
                let times = expected.iter().find(|(name, _)| name == counter).map_or(0, |(_, times)| *times);
                assert_eq!(grown(load, end, counter), times, "{path}: {counter} of the {end}");
            }
        }
    }
}

#[test]
fn a_client_that_found_a_black_hole_does_without_fast_open_until_the_next_load() {
    // The request is longer than a SYN holds, and its rest is never acknowledged. At the third timeout in a
    // row, the client's kernel suspects a black hole.
    let mut hole = image("http://behind.test/", 500);
    hole["request_header_bytes"] = json!(4000);
    let mut later = image("http://later.test/", 500);
    let mut script = image("http://a.test/wait.js", 500);
    script["type"] = json!("script");
    script["processing_us"] = json!(8_000_000);
    later["initiator"] = json!(2);
    let page = page(&[root(500), hole, script, later]);
    let network = with(network(100_000), json!({"path": "drop-answers", "path_hosts": ["behind.test"]}));
    for (timeout_s, suspected) in [(0, 0), (3600, 1)] {
        let tcp = json!({"tcp": {"blackhole_timeout_s": timeout_s}, "load_timeout_us": 20_000_000});
        let Some(run) = exactly(&with(job(&page, &network, &["warm", "warm"]), tcp)) else { return };
        for load in run.of_type("load") {
            assert_eq!(list(&load["invalid"]).len(), 1, "{load:#}");
            assert_eq!(load["invalid"][0]["kind"], "incomplete");
            assert_eq!(grown(load, "client", "TCPFastOpenBlackhole"), suspected);
            let connections = list(&load["connections"]);
            let to = |host: &str| connections.iter().find(|one| one["host"] == host).expect(host);
            assert_eq!(to("a.test")["client"]["syn_data_acked"], true, "a load begins without a suspicion");
            assert_eq!(to("behind.test")["client"]["syn_data_acked"], true);
            let plain = &to("later.test")["client"];
            assert_eq!(plain["syn_data_acked"], suspected == 0, "{load:#}");
            assert_eq!(plain["fastopen_client_fail"], 0);
        }
    }
}

#[test]
fn of_ten_connections_at_once_a_queue_of_four_takes_data_from_four_and_the_others_wait_a_round_trip() {
    let images: Vec<_> = (0..10).map(|number| image(&format!("http://b.test/{number}"), 500)).collect();
    let page = page(&[vec![root(500)], images].concat());
    let settings = json!({"origins": {"tfo_queue": 4}, "client": {"connections_per_host": 10}});
    let Some(run) = exactly(&with(job(&page, &network(100_000), &["warm"]), settings)) else { return };
    let load = run.load("warm");
    let mut took: Vec<_> = list(&load["requests"])
        .iter()
        .filter(|one| number(&one["resource"]) > 0)
        .map(|one| (number(&one["first_byte_ns"]) - number(&one["queued_ns"])) / 1_000_000)
        .collect();
    took.sort_unstable();
    assert_eq!(took, [[100; 4].as_slice(), &[200; 6]].concat());
    assert_eq!(load["invalid"][0]["kind"], "listen_overflow");
    // The queue accepted the document's connection and four of the images' connections.
    assert_eq!(grown(load, "origins", "TCPFastOpenPassive"), 5);
    assert_eq!(grown(load, "origins", "TCPFastOpenListenOverflow"), 6);
    assert_eq!(grown(load, "client", "TCPFastOpenActiveFail"), 6);
}

#[test]
fn the_program_makes_the_link_of_a_broken_path_whoever_is_asked_for() {
    for (path, link) in [("strip-both", "program"), ("none", "kernel")] {
        let network = with(network(20_000), json!({"path": path, "link": "kernel"}));
        let Some(run) = exactly(&job(&page(&[root(500)]), &network, &["warm"])) else { return };
        assert_eq!(run.only("world")["link"], link, "{path}");
        run.valid("warm");
    }
}

#[test]
fn hosts_that_are_not_behind_it_keep_fast_open() {
    let page = page(&[root(500), image("http://behind.test/", 500)]);
    let network = with(network(100_000), json!({"path": "strip-both", "path_hosts": ["behind.test"]}));
    let job = job(&page, &network, &["warm"]);
    let Some(run) = exactly(&job) else { return };
    let carried: Vec<_> = list(&run.valid("warm")["connections"])
        .iter()
        .map(|one| (one["host"].as_str().unwrap_or_default(), &one["client"]["syn_data_acked"]))
        .collect();
    assert_eq!(carried, [("a.test", &json!(true)), ("behind.test", &json!(false))]);
}

#[test]
fn the_hosts_that_a_share_draws_are_recorded_and_they_alone_lose_fast_open() {
    let images: Vec<_> = (0..8).map(|number| image(&format!("http://h{number}.test/"), 500)).collect();
    let page = page(&[vec![root(500)], images].concat());
    let network = with(network(100_000), json!({"path": "strip-both", "path_share": 0.5}));
    let mut drawn = Vec::new();
    for seed in [1, 2] {
        let Some(run) = exactly(&with(job(&page, &network, &["warm"]), json!({"seed": seed}))) else {
            return;
        };
        let path_hosts = &run.only("world")["path_hosts"];
        let behind: Vec<_> = list(path_hosts).iter().collect();
        assert!((1..9).contains(&behind.len()), "{behind:?}");
        for one in list(&run.valid("warm")["connections"]) {
            let accepted = one["client"]["syn_data_acked"] == true;
            assert_eq!(accepted, !behind.contains(&&one["host"]), "{}", one["host"]);
        }
        drawn.push(path_hosts.clone());
    }
    assert_ne!(drawn[0], drawn[1], "another seed draws others");
}
