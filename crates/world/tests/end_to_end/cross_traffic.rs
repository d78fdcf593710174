//! Tests of cross traffic: bulk flows that share the link with a load.

use serde_json::{Value, json};

use crate::support::{image, job, list, network, number, page, plt_ms, root, with};
use crate::virtual_time::{exactly, on_each_engine};

/// Returns a job that loads a small page twice while this cross traffic (`null` for none) shares the link.
fn sharing(cross: &Value, aqm: &str) -> Value {
    let direction = json!({"rate_bit_per_s": 4_000_000, "queue_bytes": 256_000, "aqm": aqm});
    let ways = json!({"down": direction, "up": direction, "cross": cross});
    let page = page(&[root(5000), image("http://b.test/", 5000)]);
    job(&page, &with(network(20_000), ways), &["tcp", "warm"])
}

#[test]
fn a_bulk_flow_fills_the_queue_before_a_load_unless_each_flow_has_its_own() {
    for way in ["down", "up"] {
        let cross = json!({way: "bulk"});
        let jobs = [sharing(&cross, "none"), sharing(&cross, "fq_codel"), sharing(&Value::Null, "none")];
        let [Some(full), Some(fair), Some(alone)] = jobs.each_ref().map(exactly) else { return };
        for load in ["tcp", "warm"] {
            let [full, fair, alone] = [&full, &fair, &alone].map(|run| run.valid(load));
            let [bloated, managed, least] = [full, fair, alone].map(plt_ms);
            // A full queue of 256 kB delays packets by half a second at 4 Mbit/s. Both round trips of a load
            // meet a queue that is at least partly full.
            assert!(bloated > least + 300.0, "{way} {load}: {bloated} with a flow, {least} alone");
            assert!(managed < least + 100.0, "{way} {load}: {managed} with AQM, {least} alone");
            let moved = number(&full["cross"][format!("{way}_bytes")]);
            let most = bloated / 1000.0 * 500_000.0 * 1.1 + 64_000.0;
            assert!((50_000.0..most).contains(&(moved as f64)), "{way} {load}: {moved} in {bloated} ms");
            let other = if way == "down" { "up_bytes" } else { "down_bytes" };
            assert!(full["cross"][other].is_null() && alone["cross"].is_null());
            assert!(number(&full["link"][way]["bytes"]) >= moved);
        }
    }
}

#[test]
fn flows_of_both_directions_end_with_each_load() {
    for run in on_each_engine(&sharing(&json!({"down": "bulk", "up": "bulk"}), "fq_codel")) {
        for load in ["tcp", "warm"] {
            let load = run.valid(load);
            assert!(number(&load["cross"]["down_bytes"]) > 0 && number(&load["cross"]["up_bytes"]) > 0);
            assert_eq!(list(&load["connections"]).len(), 2, "{:#}", load["connections"]);
        }
    }
}
