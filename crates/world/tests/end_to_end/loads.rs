//! Tests of the program's records: their order, several loads, several jobs, and the golden examples in
//! tests/contract.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Temporary, forgiving, image, job, list, network, page, root, run, run_text, with};
use crate::virtual_time::exactly;

fn golden(name: &str) -> Value {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/contract").join(format!("{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).expect("the golden examples are there"))
        .expect("they are JSON")
}

/// Adds the paths of all keys in `value` to `found`. The elements of a list share one path. Leaves out the
/// keys of objects that may be null, or whose keys are data such as host names (`BY_DATA`).
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    const BY_DATA: [&str; 8] = [
        // The first two objects may be null. The keys of the others are data, such as names of hosts and
        // counters.
        ".browser",
        ".fidelity_gaps",
        ".hosts",
        ".sysctls.client",
        ".sysctls.origins",
        ".counters.client",
        ".counters.origins",
        ".host_extra_rtt_us",
    ];
    match value {
        Value::Object(entries) if !BY_DATA.contains(&path) => {
            for (key, value) in entries {
                let path = format!("{path}.{key}");
                keys(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, path, found)),
        _ => {}
    }
}

fn keys_of(values: &[&Value]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for value in values {
        keys(value, "", &mut found);
    }
    found
}

#[test]
fn records_have_the_keys_of_the_golden_examples() {
    // The Fast Open queue overflows and makes a load invalid, so that the keys of an invalid load's reason
    // can be compared.
    let images: Vec<_> = (0..6).map(|number| image(&format!("http://b.test/{number}"), 100)).collect();
    let page = page(&[&[root(100)][..], &images].concat());
    let limit = json!({"rate_bit_per_s": 4_000_000, "queue_bytes": null});
    let network =
        with(network(20_000), json!({"down": limit, "up": limit, "cross": {"down": "bulk", "up": "bulk"}}));
    let changes = json!({"origins": {"tfo_queue": 1}, "tcp_trace": true});
    let Some(done) = exactly(&with(job(&page, &network, &["tcp", "warm", "tls"]), changes)) else { return };
    let looked_up = with(network.clone(), json!({"names": "do53"}));
    let http3 = with(job(&page, &looked_up, &["tls"]), json!({"origins": {"http": "3"}}));
    let quic = exactly(&http3).expect("a kernel is installed");
    let server = json!({"origins": {"server": ["python3", "-m", "http.server", "80"]}});
    let from_files = exactly(&with(job(&page, &network, &["tcp"]), server)).expect("a kernel is installed");
    let failed = run_text("{}");
    for (kind, runs) in [
        ("world", &[&done][..]),
        ("load", &[&done, &quic, &from_files]),
        ("end", &[&done]),
        ("error", &[&failed]),
    ] {
        let records: Vec<_> = runs.iter().flat_map(|run| run.of_type(kind)).collect();
        assert_eq!(keys_of(&records), keys_of(&[&golden(kind)]), "{kind}");
    }
}

#[test]
fn the_golden_jobs_make_worlds() {
    let mut minimal = golden("job-minimal");
    minimal["tolerance"] = forgiving();
    run(&minimal).load("tcp");
    let bodies = Temporary::file(vec![b'x'; 5000]);
    let mut job = golden("job");
    job["origins"]["bodies_file"] = json!(bodies.0);
    job["tolerance"] = forgiving();
    // No load may follow a flood in the same world, so a load of the page replaces the flood.
    job["loads"][1]["transactions"] = Value::Null;
    let run = run(&job);
    assert_eq!(run.code, Some(0), "{run}");
    for id in ["tcp", "tfo-cold", "tfo-warm"] {
        run.valid(id);
    }
}

#[test]
fn records_come_in_the_order_of_the_job() {
    let run = run(&job(&page(&[root(10)]), &network(1000), &["warm", "tcp", "cold"]));
    let kinds: Vec<_> = run.records.iter().map(|record| record["type"].as_str().unwrap_or("")).collect();
    assert_eq!(kinds, ["world", "load", "load", "load", "end"]);
    let loads: Vec<_> = run.of_type("load").iter().map(|load| load["id"].clone()).collect();
    assert_eq!(loads, ["warm", "tcp", "cold"]);
    assert_eq!((&run.only("end")["loads"], run.code), (&json!(3), Some(0)));
}

#[test]
fn several_jobs_each_get_a_world_of_their_own() {
    let first = with(job(&page(&[root(10)]), &network(1000), &["warm"]), json!({"id": "first"}));
    let hosts = page(&[with(root(20), json!({"url": "http://c.test/"})), image("http://d.test/", 5)]);
    let second = with(job(&hosts, &network(3000), &["cold"]), json!({"id": "second"}));
    let run = run_text(&format!("{first}\n{second}{first:#}"));
    assert_eq!(run.code, Some(0), "{run}");
    let jobs: Vec<_> = run.records.iter().map(|record| record["job"].as_str().unwrap_or("")).collect();
    assert_eq!(jobs, ["first", "first", "first", "second", "second", "second", "first", "first", "first"]);
    let asked: Vec<_> =
        run.of_type("world").iter().map(|world| &world["measured"]["rtt_us"]["asked"]).collect();
    assert_eq!(asked, [1000, 3000, 1000]);
    assert!(run.of_type("load").iter().all(|load| load["valid"] == true));
    assert_eq!(run.of_type("world")[1]["hosts"].as_object().map(serde_json::Map::len), Some(2));
}

#[test]
fn a_load_that_takes_too_long_is_incomplete_and_the_next_one_is_not() {
    let slow = with(image("http://a.test/slow", 10), json!({"server_think_us": 600_000}));
    let never = with(image("http://a.test/never", 10), json!({"initiator": 1}));
    let job = with(
        job(&page(&[root(10), slow, never]), &network(1000), &["tcp", "warm"]),
        json!({"load_timeout_us": 300_000}),
    );
    let run = run(&job);
    assert_eq!(run.code, Some(0));
    for id in ["tcp", "warm"] {
        let load = run.load(id);
        assert_eq!((&load["valid"], &load["plt_ns"]), (&json!(false), &json!(null)));
        assert_eq!(list(&load["invalid"])[0]["kind"], "incomplete", "{load:#}");
        let errors: Vec<_> =
            list(&load["requests"]).iter().map(|request| request["error"].is_null()).collect();
        assert_eq!(errors, [true, false, false]);
    }
}
