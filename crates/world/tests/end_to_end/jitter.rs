//! Tests of the link's jitter, which shows in the durations of handshakes.

use serde_json::{Value, json};

use crate::support::{image, job, list, network, number, page, root, run, with};
use crate::virtual_time::{in_virtual_time, on_each_engine, written};

/// Returns a job that loads a page of 25 hosts with a round trip of 100 ms, and jitter in each direction.
fn jittered(jitter: &Value, seed: u64) -> Value {
    let hosts = (0..24).map(|host| image(&format!("http://h{host}.test/"), 1000));
    let resources: Vec<_> = [root(5000)].into_iter().chain(hosts).collect();
    let direction = json!({"rate_bit_per_s": null, "queue_bytes": null, "jitter": jitter});
    let link = with(network(100_000), json!({"down": direction, "up": direction}));
    with(job(&page(&resources), &link, &["tcp", "warm"]), json!({"seed": seed}))
}

fn handshakes_ms(load: &Value) -> Vec<u64> {
    let took = |connection: &Value| number(&connection["connected_ns"]) - number(&connection["opened_ns"]);
    list(&load["connections"]).iter().map(|connection| took(connection) / 1_000_000).collect()
}

#[test]
fn handshakes_differ_by_what_the_link_may_vary() {
    for run in on_each_engine(&jittered(&json!({"uniform_us": 20_000}), 7)) {
        assert_eq!(run.only("world")["link"], "program");
        let took = handshakes_ms(run.valid("tcp"));
        let (least, most) = (*took.iter().min().unwrap(), *took.iter().max().unwrap());
        assert!(least >= 60 && most - least >= 10, "{took:?}");
        if run.is_of("virtual") {
            assert!(most <= 140, "{took:?}");
        }
        run.valid("warm");
    }
}

#[test]
fn the_seed_decides_how_each_packet_is_delayed() {
    let by_seed = |seed| {
        let job = jittered(&json!({"normal_us": 5000}), seed).to_string();
        in_virtual_time().map(|engine| written(engine, &job))
    };
    let plts = |records: &str| -> Vec<u64> {
        let records = records.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
        records
            .filter(|record: &Value| record["type"] == "load")
            .map(|load| number(&load["plt_ns"]))
            .collect()
    };
    let (Some(one), Some(again), Some(other)) = (by_seed(1), by_seed(1), by_seed(2)) else { return };
    assert_eq!(plts(&one), plts(&again));
    assert_ne!(plts(&one), plts(&other));
}

#[test]
fn a_jitter_that_cannot_be_is_refused_with_its_place() {
    let message = |job: &Value| run(job).only("error")["message"].as_str().expect("there is one").to_owned();
    assert!(
        message(&jittered(&json!({"normal_us": 0}), 7))
            .contains("network.down.jitter: not within 1 us and a minute")
    );
    assert!(message(&jittered(&json!({"normal_ms": 1}), 7)).contains("network.down.jitter: unknown variant"));
}
