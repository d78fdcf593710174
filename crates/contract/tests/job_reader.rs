//! Tests that reading a changed job returns either a job or one line with the problem, whatever the change.
//!
//! For a long run: `PROPTEST_CASES=1000000 cargo test --release -p fastopen-contract --test job_reader`.

use std::fs;
use std::path::Path;

use fastopen_contract::Job;
use fastopen_page::Origin;
use fastopen_replay::tls::{KeyShare, Version};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/contract").join(name);
    fs::read_to_string(path).expect("the golden examples are there")
}

fn read(text: &str) -> Result<Job, String> {
    let raw: Box<RawValue> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Job::read(&raw)
}

fn assert_ends_well(text: &str) {
    if let Err(message) = read(text) {
        assert!(!message.is_empty() && !message.contains(char::is_control), "{message:?} for {text}");
        assert!(message.len() < 3000, "{message}");
    }
}

/// Counts a value and all values inside it.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Object(entries) => entries.values().map(count).sum(),
        Value::Array(values) => values.iter().map(count).sum(),
        _ => 0,
    }
}

/// Walks through `value` and all values inside it, and returns the one with the index `number`. Decrements
/// `number` for each value that it passes.
fn inside<'v>(value: &'v mut Value, number: &mut usize) -> Option<&'v mut Value> {
    if *number == 0 {
        return Some(value);
    }
    *number -= 1;
    match value {
        Value::Object(entries) => entries.values_mut().find_map(|value| inside(value, number)),
        Value::Array(values) => values.iter_mut().find_map(|value| inside(value, number)),
        _ => None,
    }
}

fn values() -> impl Strategy<Value = Value> {
    let numbers = [
        json!(0),
        json!(-1),
        json!(1),
        json!(2),
        json!(63_999),
        json!(65_536),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(0.5),
        json!(-0.5),
        json!(1e300),
        json!(1_u64 << 40),
        json!(1_000_000_000_000_u64),
    ];
    let texts = [
        "",
        "tcp",
        "tfo",
        "warm",
        "cold",
        "load",
        "after",
        "http://a.test/",
        "https://x.test:1/?q",
        "HEAD",
        "1.0",
        "\u{0}",
        "\n",
        "\u{fc}",
    ];
    let other = [json!(null), json!(true), json!([]), json!({}), json!([0, 1]), json!(["load"]), json!([[]])];
    prop_oneof![
        prop::sample::select(numbers.to_vec()),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
        prop::sample::select(other.to_vec()),
        any::<i64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ]
}

/// Changes a value. In an object or a list, removes a key or an element if `how` is 0, and adds one if it is
/// 1. Otherwise, replaces the value with `other`.
fn change(place: &mut Value, how: u8, other: Value) {
    match (how, &mut *place) {
        (0, Value::Object(entries)) if !entries.is_empty() => {
            let key = entries.keys().nth(other.to_string().len() % entries.len()).cloned();
            entries.remove(&key.expect("there are as many keys"));
        }
        (0, Value::Array(values)) => drop(values.pop()),
        (1, Value::Object(entries)) => drop(entries.insert("surprise".into(), other)),
        (1, Value::Array(values)) => values.push(values.last().cloned().unwrap_or(other)),
        _ => *place = other,
    }
}

#[test]
fn with_http2_a_client_that_keeps_connections_has_one_a_server_with_room_for_many_requests() {
    let limits = |keep_alive: bool| {
        let mut job: Value = serde_json::from_str(&golden("job-minimal.json")).expect("it is JSON");
        job["origins"] = json!({"http": "2"});
        job["client"] = json!({"keep_alive": keep_alive});
        let policy = read(&job.to_string()).expect("it is a job").policy();
        let limits = policy.limits(&Origin { host: "a.test".to_owned(), port: 80 });
        (limits.connections, limits.streams)
    };
    assert_eq!((limits(true), limits(false)), ((1, 100), (6, 1)));
}

#[test]
fn a_client_that_cannot_load_the_page_is_refused() {
    for (key, value) in [
        ("connections_per_host", json!(0)),
        ("connections_total", json!(0)),
        ("phases", json!(["async"])),
        ("processing_scale", json!(-0.1)),
        ("processing_scale", json!(1000.1)),
    ] {
        let mut job: Value = serde_json::from_str(&golden("job-minimal.json")).expect("it is JSON");
        job["client"] = json!({key: value});
        let error = read(&job.to_string()).unwrap_err();
        assert!(error.starts_with(&format!("client.{key}: ")), "{error}");
    }
}

#[test]
fn http3_needs_tls_13() {
    let mut job: Value = serde_json::from_str(&golden("job-minimal.json")).expect("it is JSON");
    job["tls"] = json!({"version": "1.2"});
    assert!(read(&job.to_string()).is_ok());
    job["origins"] = json!({"http3_hosts": ["a.test"]});
    assert!(read(&job.to_string()).is_err_and(|error| error.starts_with("tls.version: ")));
}

#[test]
fn the_golden_jobs_are_read() {
    let job = read(&golden("job.json")).expect("it is a job");
    assert_eq!((job.seed, job.loads.len(), job.page.resources.len()), (i64::MAX as u64, 5, 4));
    assert_eq!(job.network.host_extra_rtt_us["c.test"], 20_000);
    assert_eq!((job.start_phase_us, job.policy().order_seed), (5_000_000, Some(job.seed)));
}

#[test]
fn a_minimal_job_gets_the_contracts_defaults() {
    let job = read(&golden("job-minimal.json")).expect("it is a job");
    let policy = job.policy();
    assert_eq!((job.start_phase_us, policy.order_seed), (0, None));
    assert_eq!((policy.connections_per_host, policy.connections_total, policy.keep_alive), (6, 256, true));
    assert_eq!((job.tcp.congestion_control.as_str(), job.tcp.initial_window_segments), ("cubic", 10));
    assert_eq!((job.tolerance.rtt_us, job.tolerance.late_us, job.load_timeout_us), (1000, None, 120_000_000));
    let tls = job.tls;
    assert_eq!((tls.version, tls.key_share), (Version::Tls13, KeyShare::X25519MlKem768));
    assert_eq!((tls.tickets, tls.chain_bytes), (2, 3500));
    assert_eq!((job.origins.tfo_queue, job.origins.keep_alive, job.network.mtu_bytes), (4096, true, 1500));
}

#[test]
fn what_is_long_or_has_line_ends_is_told_in_one_short_line() {
    let mut job: Value = serde_json::from_str(&golden("job-minimal.json")).expect("it is JSON");
    job[format!("surprise\n{}", "x".repeat(1_000_000))] = json!(1);
    let message = read(&job.to_string()).expect_err("there is no such key");
    assert!(message.starts_with("surprise\\nxxx") || message.contains("`surprise\\nxxx"), "{message}");
    assert!(message.len() < 500 && !message.contains('\n'), "{message}");
}

#[test]
fn a_profile_brings_its_own_defaults() {
    let mut job: Value = serde_json::from_str(&golden("job-minimal.json")).expect("it is JSON");
    job["client"] = json!({"profile": "mget"});
    let policy = read(&job.to_string()).expect("it is a job").policy();
    assert_eq!((policy.connections_per_host, policy.connections_total, policy.keep_alive), (5, 5, false));
}

proptest! {
    #[test]
    fn a_changed_job_is_read_or_refused_in_one_line(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, values()), 1..4),
    ) {
        let mut job: Value = serde_json::from_str(&golden("job.json")).expect("it is JSON");
        for (place, how, other) in changes {
            let mut number = place.index(count(&job));
            if let Some(place) = inside(&mut job, &mut number) {
                change(place, how, other);
            }
        }
        assert_ends_well(&job.to_string());
    }

    #[test]
    fn a_job_with_changed_bytes_is_read_or_refused_in_one_line(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        end in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = golden("job.json").into_bytes();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        assert_ends_well(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn cleartext_servers_beside_tls_speak_http11_whatever_their_host_speaks_over_tls() {
    let mut job: Value = serde_json::from_str(&golden("job-minimal.json")).expect("it is JSON");
    let image = |url: &str| json!({"url": url, "type": "image", "body_bytes": 9, "initiator": 0});
    job["page"]["resources"][0]["url"] = json!("https://a.test/");
    let resources = job["page"]["resources"].as_array_mut().expect("it is one");
    resources.extend([image("http://a.test/clear"), image("https://a.test/secure")]);
    job["origins"] = json!({"http": "2"});
    job["tls"] = json!({"security": "recorded"});
    job["loads"] = json!([{"id": "tls", "transport": "tls"}]);
    let policy = read(&job.to_string()).expect("it is a job").policy();
    let streams = |port| policy.limits(&Origin { host: "a.test".to_owned(), port }).streams;
    assert_eq!((streams(80), streams(443)), (1, 100));
}

#[test]
fn a_job_is_foreign_if_its_client_or_its_server_is() {
    let foreign = |part: &str, value: Value| {
        let mut job: Value = serde_json::from_str(&golden("job-minimal.json")).expect("it is JSON");
        job[part] = value;
        read(&job.to_string()).expect("it is a job").is_foreign()
    };
    assert!(!foreign("client", json!({"kind": "loader"})));
    assert!(foreign("client", json!({"kind": "chromium"})));
    assert!(foreign("origins", json!({"server": ["nginx"]})));
}
