//! What Linux does about paths that break TCP Fast Open, in virtual time: one request over a round trip of
//! 100 ms.

use serde_json::{Value, json};

use crate::support::{grown, image, job, list, network, number, page, request, root, with, with_syn_data};
use crate::virtual_time::exactly;

/// The moment of the first byte in milliseconds, `tcpi_fastopen_client_fail`, segments that the client sent
/// again, and counters that grew by one, of the client and of the origins.
type Row = (&'static str, &'static str, [u64; 2], u64, u64, &'static [&'static str], &'static [&'static str]);

/// Times and counters of one request each. A SYN is sent again after a second and what the timer wheel adds.
const ROWS: [Row; 11] = [
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
        let Some(run) = exactly(&over(path, &page(&[root(3000)]), &[arm])) else { return };
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
                let times = u64::from(expected.contains(&counter));
                assert_eq!(grown(load, end, counter), times, "{path}, {arm}: {counter} of the {end}");
            }
        }
    }
}

#[test]
fn a_page_is_not_loaded_where_what_follows_data_in_a_syn_is_answered_by_a_reset_or_dropped() {
    for path in ["rst-syn-data", "drop-synack", "drop-answers"] {
        let Some(run) = exactly(&over(path, &page(&[root(3000)]), &["tcp", "warm"])) else { return };
        run.valid("tcp");
        assert_eq!(run.load("warm")["invalid"][0]["kind"], "incomplete", "{path}: {run}");
        let first_byte = &request(run.load("warm"), 0)["first_byte_ns"];
        assert!(first_byte.is_null(), "{path}: {first_byte}");
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
