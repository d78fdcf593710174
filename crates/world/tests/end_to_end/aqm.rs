//! Tests of the link's active queue management (AQM): how much a download delays other hosts' handshakes.

use serde_json::{Value, json};

use crate::support::{Run, image, job, list, network, number, page, root, run_command, with};
use crate::virtual_time::{exactly, in_virtual_time, on_each_engine};

/// Returns a job whose page downloads 1.5 MB in 3 s. After the first 500 kB (1 s), the page opens connections
/// to three other hosts.
fn download(aqm: &str, link: &str) -> Value {
    let late = (0..3).map(|host| {
        with(
            image(&format!("http://late{host}.test/"), 2000),
            json!({"initiator": 1, "initiator_at_bytes": 500_000}),
        )
    });
    let document = image("http://b.test/", 1_500_000);
    let resources: Vec<_> =
        [root(5000), with(document, json!({"type": "document"}))].into_iter().chain(late).collect();
    let direction = |bit_per_s| json!({"rate_bit_per_s": bit_per_s, "queue_bytes": 256_000, "aqm": aqm});
    let ways = json!({"down": direction(4_000_000), "up": direction(1_000_000), "link": link});
    job(&page(&resources), &with(network(20_000), ways), &["tcp"])
}

/// Returns the durations, in milliseconds, of the handshakes with the hosts `late…`.
fn late_handshakes_ms(load: &Value) -> Vec<u64> {
    let late = |connection: &&Value| connection["host"].as_str().is_some_and(|host| host.starts_with("late"));
    let took = |connection: &Value| {
        (number(&connection["connected_ns"]) - number(&connection["opened_ns"])) / 1_000_000
    };
    list(&load["connections"]).iter().filter(late).map(took).collect()
}

#[test]
fn a_download_delays_other_handshakes_unless_each_flow_has_a_queue() {
    let of = |aqm| on_each_engine(&download(aqm, "auto"));
    for (plain, fair) in of("none").iter().zip(&of("fq_codel")) {
        let waited = late_handshakes_ms(plain.valid("tcp"));
        assert!(waited.len() == 3 && waited.iter().all(|took| *took >= 100), "{waited:?}");
        let waited = late_handshakes_ms(fair.valid("tcp"));
        assert!(waited.len() == 3 && waited.iter().all(|took| *took <= 80), "{waited:?}");
    }
}

#[test]
fn a_load_shares_queues_as_it_would_anywhere_in_the_world() {
    // With some 100 flows in 1024 queues, about five queues have two flows.
    let hosts = (0..100).map(|host| image(&format!("http://h{host}.test/"), 20_000));
    let resources: Vec<_> = [root(5000)].into_iter().chain(hosts).collect();
    let way = json!({"rate_bit_per_s": 4_000_000, "queue_bytes": 256_000, "aqm": "fq_codel"});
    let link = with(network(20_000), json!({"down": way, "up": way, "link": "program"}));
    let loads = ["first", "between", "last"].map(|id| json!({"id": id, "transport": "tcp"}));
    let job = with(job(&page(&resources), &link, &[]), json!({"loads": loads}));
    let Some(run) = exactly(&job) else { return };
    let (first, last) = (run.valid("first"), run.valid("last"));
    assert_ne!(first["client_address"], last["client_address"]);
    for part in ["plt_ns", "requests", "link"] {
        assert_eq!(first[part], last[part], "{part}");
    }
}

#[test]
fn codel_drops_before_the_queue_is_full() {
    for run in on_each_engine(&download("codel", "auto")) {
        let load = run.valid("tcp");
        let down = &load["link"]["down"];
        assert!(number(&down["dropped_queue"]) > 0, "{down}");
        if let Some(most) = down["queue_bytes_max"].as_u64() {
            assert!(most < 200_000, "{down}");
        }
    }
}

#[test]
fn the_kernels_own_aqm_does_what_the_link_model_does() {
    let on = |aqm, link| -> Option<Run> {
        let run = run_command(&mut in_virtual_time()?, download(aqm, link).to_string().as_bytes());
        let without = run.of_type("error").iter().any(|error| error["fault"] == "machine");
        (!without).then_some(run)
    };
    for aqm in ["codel", "fq_codel"] {
        let (Some(program), Some(kernel)) = (on(aqm, "program"), on(aqm, "kernel")) else {
            eprintln!(
                "skipped: no kernel of the virtual engine with {aqm} is installed (fastopen kernel build)"
            );
            return;
        };
        assert_eq!(
            (&program.only("world")["link"], &kernel.only("world")["link"]),
            (&json!("program"), &json!("kernel"))
        );
        let [program, kernel] = [&program, &kernel].map(|run| run.valid("tcp"));
        let [model, own] = [program, kernel].map(|load| number(&load["plt_ns"]) as f64 / 1e9);
        assert!((model - own).abs() < 0.1 * model, "{aqm}: {model} s, by the kernel {own} s");
        let [model, own] = [program, kernel].map(|load| number(&load["link"]["down"]["dropped_queue"]));
        assert!(
            model.min(own) > 0 && model.abs_diff(own) <= model / 2 + 3,
            "{aqm}: {model} dropped, by the kernel {own}"
        );
    }
}
