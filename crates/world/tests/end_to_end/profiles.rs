//! Tests of the loader's two profiles: the browser profile follows priorities and initiators, `mget` requests
//! resources from a list.

use serde_json::{Value, json};

use crate::support::{grown, image, job, list, network, number, page, request, root, run, with};

/// Returns the largest number of requests in flight at the same time. A request that opened a connection
/// counts from the start of the handshake.
fn most_at_once(load: &Value) -> usize {
    let spans: Vec<_> = list(&load["requests"])
        .iter()
        .map(|request| {
            let began = request["connect_start_ns"].as_u64().unwrap_or(number(&request["sent_ns"]));
            (began, number(&request["end_ns"]))
        })
        .collect();
    let at = |moment: u64| spans.iter().filter(|(began, ended)| *began <= moment && moment < *ended).count();
    spans.iter().map(|(began, _)| at(*began)).max().unwrap_or(0)
}

#[test]
fn mget_uses_five_connections_at_most_and_each_for_one_request() {
    let images: Vec<_> =
        (0..20).map(|number| image(&format!("http://{}.test/{number}", number % 4), 3000)).collect();
    let slow = images.iter().map(|image| with(image.clone(), json!({"processing_us": 300_000_000})));
    let page = page(&[&[root(1000)][..], &slow.collect::<Vec<_>>()].concat());
    let run =
        run(&with(job(&page, &network(5000), &["tcp", "warm"]), json!({"client": {"profile": "mget"}})));
    for id in ["tcp", "warm"] {
        let load = run.valid(id);
        let connections = list(&load["connections"]);
        assert_eq!(connections.len(), 21);
        assert!(connections.iter().all(|connection| connection["requests"] == 1));
        assert_eq!(most_at_once(load), 5);
        assert_eq!(grown(load, "origins", "PassiveOpens"), 21);
    }
}

#[test]
fn a_browser_opens_six_persistent_connections_to_a_host() {
    let images: Vec<_> = (0..30).map(|number| image(&format!("http://a.test/{number}"), 3000)).collect();
    let run = run(&job(&page(&[&[root(1000)][..], &images].concat()), &network(5000), &["tcp", "warm"]));
    for id in ["tcp", "warm"] {
        let load = run.valid(id);
        assert_eq!(most_at_once(load), 6);
        let used = list(&load["connections"]).iter().filter(|connection| connection["requests"] != 0).count();
        assert!((5..=6).contains(&used), "{used} connections were used");
    }
}

#[test]
fn the_job_may_set_other_limits() {
    let images: Vec<_> = (0..12).map(|number| image(&format!("http://{number}.test/"), 3000)).collect();
    let client = json!({"client": {"connections_per_host": 1, "connections_total": 3}});
    let run =
        run(&with(job(&page(&[&[root(1000)][..], &images].concat()), &network(5000), &["tcp"]), client));
    assert_eq!(most_at_once(run.valid("tcp")), 3);
}

#[test]
fn a_resource_is_requested_when_its_initiator_has_revealed_it_and_processing_is_over() {
    let early = with(image("http://a.test/early", 10), json!({"initiator_at_bytes": 1000}));
    let late = with(image("http://a.test/late", 10), json!({"processing_us": 40_000}));
    let page = page(&[root(400_000), early, late]);
    // The document's 400 kB take 400 ms at 8 Mbit/s.
    let link = with(network(10_000), json!({"down": crate::support::rate(8_000_000)}));
    let run = run(&job(&page, &link, &["tcp"]));
    let load = run.valid("tcp");
    let root_end = number(&request(load, 0)["end_ns"]);
    assert!(number(&request(load, 1)["queued_ns"]) < root_end / 2);
    let wait = number(&request(load, 2)["queued_ns"]) - root_end;
    assert!((39_000_000..400_000_000).contains(&wait), "queued {wait} ns after its initiator");
}

#[test]
fn processing_can_be_scaled_to_nothing() {
    let late = with(image("http://a.test/late", 10), json!({"processing_us": 30_000_000}));
    let page = with(page(&[root(100), late]), json!({"load_event_processing_us": 30_000_000}));
    let client = json!({"client": {"processing_scale": 0.0}});
    let run = run(&with(job(&page, &network(1000), &["tcp"]), client));
    assert!(number(&run.valid("tcp")["plt_ns"]) < 5_000_000_000);
}

#[test]
fn the_load_event_waits_for_its_own_processing() {
    let page = with(page(&[root(100)]), json!({"load_event_processing_us": 200_000}));
    let run = run(&job(&page, &network(1000), &["tcp"]));
    let load = run.valid("tcp");
    assert!(number(&load["plt_ns"]) >= number(&request(load, 0)["end_ns"]) + 200_000_000);
}

#[test]
fn phases_beyond_those_of_the_job_are_not_loaded() {
    let phase = |name: &str| with(image(&format!("http://a.test/{name}"), 10), json!({"phase": name}));
    let page = page(&[root(100), phase("async"), phase("after")]);
    let loaded = |client: Value| {
        let run = run(&with(job(&page, &network(1000), &["tcp"]), json!({"client": client})));
        list(&run.valid("tcp")["requests"])
            .iter()
            .map(|request| number(&request["resource"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(loaded(json!({})), [0, 1]);
    assert_eq!(loaded(json!({"phases": ["load"]})), [0]);
    assert_eq!(loaded(json!({"phases": ["after", "load"]})), [0, 2]);
}

#[test]
fn the_load_event_does_not_wait_for_async_resources() {
    let slow = with(image("http://a.test/slow", 10), json!({"phase": "async", "server_think_us": 300_000}));
    let run = run(&job(&page(&[root(100), slow]), &network(1000), &["tcp"]));
    let load = run.valid("tcp");
    assert!(number(&load["plt_ns"]) < number(&request(load, 1)["end_ns"]));
}
