//! Tests of invalid jobs: the program names the invalid place in a one-line error, exits with code 2 and
//! makes no world.

use serde_json::{Value, json};

use crate::support::{image, job, network, page, root, run_text, with};

fn good() -> Value {
    job(&page(&[root(1000), image("http://b.test/", 10)]), &network(1000), &["tcp", "warm"])
}

/// Returns the [`good`] job with the value at `pointer` (RFC 6901) replaced, or removed if `value` is `None`.
fn broken(pointer: &str, value: Option<Value>) -> Value {
    let mut job = good();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    match (job.pointer_mut(parent).expect("the parent is there"), value) {
        (Value::Object(parent), Some(value)) => drop(parent.insert(key.to_owned(), value)),
        (Value::Object(parent), None) => drop(parent.remove(key).expect("it is there")),
        (Value::Array(parent), Some(value)) => parent[key.parse::<usize>().expect("an index")] = value,
        (parent, _) => panic!("nothing to break in {parent}"),
    }
    job
}

/// Runs the program with an invalid input and returns the message of its error record.
fn error_message(input: &str) -> String {
    let run = run_text(input);
    let error = run.only("error");
    assert_eq!((run.records.len(), &error["fault"], run.code), (1, &json!("input"), Some(2)), "{input}");
    let message = error["message"].as_str().expect("a message").to_owned();
    assert!(!message.is_empty() && !message.contains('\n'), "{message}");
    message
}

#[test]
fn every_value_out_of_bounds_is_named_by_its_place() {
    let long = "x".repeat(300);
    for (pointer, value, place) in [
        ("/contract", json!(1), "contract"),
        ("/contract", json!("1"), "contract"),
        ("/seed", json!(-1), "seed"),
        ("/seed", json!(9_223_372_036_854_775_808_u64), "seed"),
        ("/id", json!(1), "id"),
        ("/surprise", json!(1), "surprise"),
        ("/page/format", json!("fastopen-page/2"), "page.format"),
        ("/page/name", json!(""), "page.name"),
        ("/page/url", json!("a.test"), "page.url"),
        ("/page/resources", json!([]), "page.resources"),
        ("/page/resources/0", json!(7), "page.resources[0]"),
        ("/page/resources/0/initiator", json!(0), "page.resources[0].initiator"),
        ("/page/resources/1/initiator", json!(1), "page.resources[1].initiator"),
        ("/page/resources/1/initiator", json!(null), "page.resources[1].initiator"),
        ("/page/resources/1/initiator_at_bytes", json!(1001), "page.resources[1].initiator_at_bytes"),
        ("/page/resources/1/url", json!("http://B.test/"), "page.resources[1].url"),
        ("/page/resources/1/url", json!(long), "page.resources[1].url"),
        (
            "/page/resources/1/url",
            json!(format!("http://b.test/{}", "x".repeat(70_000))),
            "page.resources[1]",
        ),
        ("/page/resources/1/body_bytes", json!(-5), "page.resources[1].body_bytes"),
        ("/page/resources/1/body_bytes", json!(1.5), "page.resources[1].body_bytes"),
        ("/page/resources/1/body_bytes", json!(1_u64 << 41), "page.resources[1].body_bytes"),
        ("/page/resources/1/status", json!(100), "page.resources[1].status"),
        ("/page/resources/1/status", json!(204), "page.resources[1].body_bytes"),
        ("/page/resources/1/method", json!("get"), "page.resources[1].method"),
        ("/page/resources/1/redirect_to", json!("/x"), "page.resources[1].redirect_to"),
        ("/page/resources/1/type", json!("picture"), "page.resources[1].type"),
        ("/page/resources/1/response_header_bytes", json!(300_000), "page.resources[1]"),
        ("/network/rtt_us", json!(60_000_001), "network.rtt_us"),
        ("/network/rtt_us", json!("20ms"), "network.rtt_us"),
        ("/network/down/rate_bit_per_s", json!(63_999), "network.down.rate_bit_per_s"),
        ("/network/up/rate_bit_per_s", json!(1_000_000_001), "network.up.rate_bit_per_s"),
        ("/network/up/loss", json!(0.51), "network.up.loss"),
        ("/network/up/loss", json!(-0.1), "network.up.loss"),
        ("/network/up/trace_ms", json!([]), "network.up.trace_ms"),
        ("/network/up/trace_ms", json!([5, 3]), "network.up.trace_ms"),
        ("/network/up/trace_ms", json!([0]), "network.up.trace_ms"),
        ("/network/host_extra_rtt_us", json!({"a.test": 60_000_001}), "network.host_extra_rtt_us.a.test"),
        ("/network/mtu_bytes", json!(575), "network.mtu_bytes"),
        ("/network/mtu_bytes", json!(1501), "network.mtu_bytes"),
        ("/tcp", json!({"initial_window_segments": 0}), "tcp.initial_window_segments"),
        ("/tcp", json!({"congestion_control": "a b"}), "tcp.congestion_control"),
        ("/tcp", json!({"congestion_control": ""}), "tcp.congestion_control"),
        ("/tcp", json!({"congestion_control": "muchtoolongaword"}), "tcp.congestion_control"),
        ("/client", json!({"kind": "netscape"}), "client.kind"),
        ("/client", json!({"connections_total": 0}), "client"),
        ("/client", json!({"processing_scale": -1.0}), "client"),
        ("/client", json!({"phases": ["async"]}), "client"),
        ("/origins", json!({"http": "4"}), "origins.http"),
        ("/origins", json!({"think_scale": 1001.0}), "origins.think_scale"),
        ("/origins", json!({"tfo_queue": 70_000}), "origins.tfo_queue"),
        ("/loads", json!([]), "loads"),
        ("/loads/0/cookies", json!("warm"), "loads[0].cookies"),
        ("/loads/1/cookies", json!(null), "loads[1].cookies"),
        ("/loads/1/transport", json!("quic"), "loads[1].transport"),
        ("/tolerance/rate_fraction", json!(1.1), "tolerance.rate_fraction"),
        ("/load_timeout_us", json!(0), "load_timeout_us"),
    ] {
        let message = error_message(&broken(pointer, Some(value.clone())).to_string());
        assert!(message.starts_with(&format!("job 1: {place}")), "{pointer} as {value}: {message}");
        assert!(message.len() < 400, "{message}");
    }
}

#[test]
fn every_missing_key_is_named() {
    for pointer in [
        "/contract",
        "/id",
        "/seed",
        "/page",
        "/network",
        "/loads",
        "/page/format",
        "/page/source",
        "/page/initiators",
        "/page/resources/0/initiator",
        "/page/resources/1/url",
        "/page/resources/1/body_bytes",
        "/network/rtt_us",
        "/network/down",
        "/network/down/rate_bit_per_s",
        "/network/up/queue_bytes",
        "/loads/0/transport",
    ] {
        let key = pointer.rsplit('/').next().expect("it has a slash");
        let message = error_message(&broken(pointer, None).to_string());
        assert!(message.contains(&format!("missing field `{key}`")), "{pointer}: {message}");
    }
}

#[test]
fn text_that_is_no_json_is_refused() {
    for input in ["", " \n", "{", "nonsense", "[]", "7", "null", "{}", "\u{0}", "{\"contract\":1,}"] {
        error_message(input);
    }
}

#[test]
fn bytes_that_are_no_utf_8_are_refused() {
    let run = crate::support::run_command(
        &mut std::process::Command::new(crate::support::PROGRAM),
        b"{\"id\": \"\xff\"}",
    );
    assert_eq!((&run.only("error")["fault"], run.code), (&json!("input"), Some(2)));
}

#[test]
fn no_job_is_run_where_a_later_one_is_invalid() {
    let message = error_message(&format!("{}\n{}", good(), with(good(), json!({"seed": "x"}))));
    assert!(message.starts_with("job 2: seed"), "{message}");
    let message = error_message(&format!("{}\nnonsense", good()));
    assert!(message.starts_with("job 2: "), "{message}");
}
