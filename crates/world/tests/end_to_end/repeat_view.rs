//! Tests of the repeat view in Chromium: it uses fresh responses of the first view, revalidates stale ones,
//! and loads all other resources again.

use serde_json::{Value, json};

use crate::chromium::{browser, in_chromium};
use crate::support::{
    image, job, list, network, number, page, plt_ms, request, root, run, with, with_syn_data,
};
use crate::virtual_time::exactly;

/// Returns a page with resources of each kind of caching. By number: 0 is stale and has a validator, 1 and 4
/// are fresh for a day, 2 must not be stored, 3 has no caching headers, 5 has only a validator, and 6 is a
/// permanent redirect to 7. Both 6 and 7 are fresh for a day.
fn site() -> Value {
    let day = json!({"fresh_s": 86_400, "mime": "image/gif"});
    let script = json!({"url": "http://b.test/s.js", "type": "script", "body_bytes": 3000, "initiator": 0});
    let moved = json!({"url": "http://a.test/moved", "type": "image", "status": 301, "redirect_to": "/there",
        "body_bytes": 0, "initiator": 0, "fresh_s": 86_400});
    page(&[
        with(root(20_000), json!({"fresh_s": 0, "validator": true})),
        with(script, json!({"fresh_s": 86_400, "validator": true})),
        with(image("http://b.test/new", 5000), json!({"fresh_s": 0, "mime": "image/gif"})),
        with(image("http://c.test/unknown", 6000), json!({"mime": "image/gif"})),
        with(image("http://c.test/day", 7000), day.clone()),
        with(image("http://c.test/same", 8000), json!({"validator": true, "mime": "image/gif"})),
        moved,
        with(image("http://a.test/there", 900), with(day, json!({"initiator": 6}))),
    ])
}

fn repeat_view(job: Value) -> Value {
    with(in_chromium(job), json!({"client": {"kind": "chromium", "view": "repeat"}}))
}

fn by_cache(load: &Value, cache: &Value) -> Vec<u64> {
    let requests = list(&load["requests"]).iter().filter(|one| &one["cache"] == cache);
    requests.map(|one| number(&one["resource"])).collect()
}

#[test]
fn fresh_responses_are_reused_stale_ones_revalidated_and_all_others_loaded_again() {
    if !browser() {
        return;
    }
    let with_arms = |arms: &[&str]| repeat_view(job(&site(), &network(100_000), arms));
    // The virtual kernel runs one arm less, because each of its browser loads takes seconds.
    let clear = ["tcp", "warm"];
    let on_host = run(&with_arms(&["tcp", "warm", "tls-warm"]));
    for run in [Some(on_host), exactly(&with_arms(&clear))].into_iter().flatten() {
        for arm in clear.into_iter().chain((!run.is_of("virtual")).then_some("tls-warm")) {
            let load = run.valid(arm);
            assert_eq!(by_cache(load, &json!("fresh")), [1, 4, 6, 7], "{arm}: {run}");
            assert_eq!(by_cache(load, &json!("revalidated")), [0, 5], "{arm}: {run}");
            assert_eq!(by_cache(load, &Value::Null), [2, 3], "{arm}: {run}");
            for kept in by_cache(load, &json!("fresh")).into_iter().map(|kept| request(load, kept)) {
                assert_eq!((&kept["connection"], &kept["body_bytes"]), (&Value::Null, &json!(0)), "{kept:#}");
                assert!(kept["sent_ns"].is_null() && !kept["end_ns"].is_null(), "{kept:#}");
            }
            for confirmed in [0, 5].map(|number| request(load, number)) {
                assert_eq!((&confirmed["status"], &confirmed["body_bytes"]), (&json!(304), &json!(0)));
            }
            // The record has only the connections and counters of the repeat view, in which four requests are
            // sent: 0, 2, 3 and 5.
            let carried: u64 = list(&load["connections"]).iter().map(|one| number(&one["requests"])).sum();
            assert_eq!(carried, 4, "{arm}: {load:#}");
        }
        let [tcp, warm] = ["tcp", "warm"].map(|arm| with_syn_data(run.valid(arm), "client"));
        assert!(tcp == 0 && warm >= 3, "{run}");
        // In real time, a busy machine may add more than the round trip that Fast Open saves.
        if run.is_of("virtual") {
            assert!(plt_ms(run.valid("warm")) < plt_ms(run.valid("tcp")) - 90.0, "{run}");
        }
    }
}

#[test]
fn a_first_view_has_an_empty_cache_whatever_the_page_allows() {
    if !browser() {
        return;
    }
    let run = run(&in_chromium(job(&site(), &network(20_000), &["tcp", "warm"])));
    for arm in ["tcp", "warm"] {
        assert_eq!(by_cache(run.valid(arm), &Value::Null).len(), 8, "{run}");
    }
}

#[test]
fn a_completely_cached_page_needs_no_network() {
    if !browser() {
        return;
    }
    let kept = json!({"fresh_s": 86_400});
    let page = page(&[
        with(root(9000), kept.clone()),
        with(image("http://b.test/1", 500), with(kept, json!({"mime": "image/gif"}))),
    ]);
    let run = run(&repeat_view(job(&page, &network(1_000_000), &["tcp", "warm"])));
    for arm in ["tcp", "warm"] {
        let load = run.valid(arm);
        assert_eq!(by_cache(load, &json!("fresh")), [0, 1], "{run}");
        assert!(plt_ms(load) < 1000.0, "{run}");
    }
}

#[test]
fn a_failed_first_view_is_the_reason_of_an_invalid_load() {
    if !browser() {
        return;
    }
    let slow = with(root(100), json!({"server_think_us": 3_600_000_000_u64}));
    let job =
        with(repeat_view(job(&page(&[slow]), &network(0), &["tcp"])), json!({"load_timeout_us": 2_000_000}));
    let run = run(&job);
    let reason = &run.load("tcp")["invalid"][0];
    let detail = reason["detail"].as_str().unwrap_or_default();
    assert!(reason["kind"] == "incomplete" && detail.starts_with("the first view: no load event"), "{run}");
}
