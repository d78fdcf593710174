//! Tests of a job's TCP settings: congestion control, windows, packet size and sysctls.

use serde_json::{Value, json};

use crate::support::{image, job, list, network, number, page, plt_ms, root, run, with};
use crate::virtual_time::exactly;

fn route(algorithm: &str, window: u64) -> Value {
    json!({"congestion_control": algorithm, "initial_window_segments": window})
}

#[test]
fn both_ends_use_the_congestion_control_and_initial_window_that_were_asked_for() {
    for (algorithm, window) in [("cubic", 10), ("reno", 3)] {
        let settings = json!({"tcp": route(algorithm, window)});
        let run = run(&with(job(&page(&[root(100)]), &network(1000), &["tcp"]), settings));
        let routes = &run.only("world")["routes"];
        assert_eq!(routes, &json!({"client": route(algorithm, window), "origins": route(algorithm, window)}));
    }
}

#[test]
fn a_larger_initial_window_saves_round_trips() {
    // With an initial window of 10 segments, 30 segments take two windows of slow start (10 + 20). With 40,
    // they take one.
    let took = |window: u64| {
        let settings = json!({"tcp": {"initial_window_segments": window}});
        let run = exactly(&with(job(&page(&[root(29 * 1448)]), &network(100_000), &["tcp"]), settings))?;
        Some(plt_ms(run.valid("tcp")))
    };
    let Some((ten, forty)) = took(10).zip(took(40)) else { return };
    assert!((300.0..301.0).contains(&ten) && (200.0..201.0).contains(&forty), "{ten} and {forty} ms");
}

#[test]
fn a_window_that_grew_is_used_again_after_a_pause_unless_it_shrinks_while_idle() {
    let mut late = image("http://a.test/late", 29 * 1448);
    late["server_think_us"] = json!(3_000_000);
    let took = |shrinks: bool| {
        let settings = json!({"tcp": {"slow_start_after_idle": shrinks}});
        let job = job(&page(&[root(200_000), late.clone()]), &network(100_000), &["tcp"]);
        let run = exactly(&with(job, settings))?;
        let restart = if shrinks { "1" } else { "0" };
        assert_eq!(run.only("world")["sysctls"]["origins"]["net.ipv4.tcp_slow_start_after_idle"], restart);
        Some(plt_ms(run.valid("tcp")))
    };
    let Some((shrunk, kept)) = took(true).zip(took(false)) else { return };
    // The 30 segments take two windows if the congestion window is back at 10 segments, and one if it is
    // still as large as after the document's 200 kB.
    assert!((99.0..101.0).contains(&(shrunk - kept)), "{shrunk} and {kept} ms");
}

#[test]
fn packets_are_no_larger_than_the_mtu() {
    let link = with(network(1000), json!({"mtu_bytes": 576}));
    let run = run(&job(&page(&[root(52_400)]), &link, &["tcp", "warm"]));
    for id in ["tcp", "warm"] {
        let load = run.valid(id);
        // A packet of 576 bytes holds 524 bytes of data after the headers of IP and TCP with timestamps.
        let [connection] = list(&load["connections"]) else { panic!("one connection") };
        assert!(number(&connection["origin"]["segments_out"]) >= 100);
        let down = &load["link"]["down"];
        assert!(number(&down["bytes"]) <= 576 * number(&down["packets"]));
    }
}

#[test]
fn settings_are_the_worlds_own_and_recorded_as_read_back() {
    let run = run(&job(&page(&[root(100)]), &network(1000), &["tcp"]));
    let world = run.only("world");
    for end in ["client", "origins"] {
        let sysctls = &world["sysctls"][end];
        assert_eq!(sysctls["net.ipv4.tcp_no_metrics_save"], "1");
        assert_eq!(sysctls["net.ipv4.tcp_fastopen_blackhole_timeout_sec"], "0");
        assert_eq!(sysctls["net.ipv4.tcp_syncookies"], "0");
    }
}
