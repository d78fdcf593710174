//! Tests of transactions with a server under load: latencies, which are exact in virtual time, and the
//! evidence of both kernels.

use serde_json::{Value, json};

use crate::support::{Run, grown, image, job, list, network, number, page, root, run, with};
use crate::virtual_time::{exactly, on_each_engine};

/// Returns a job of one load with these transactions and an RTT of 100 ms. Each of the `hosts` hosts has a
/// resource of 5,000 bytes. `queue` is the length of the Fast Open queues.
fn asking(hosts: usize, cookies: Option<&str>, transactions: &Value, queue: u16) -> Value {
    let others = (1..hosts).map(|at| image(&format!("http://h{at}.test/"), 5000));
    let page = page(&[vec![root(5000)], others.collect()].concat());
    let transport = if cookies.is_some() { "tfo" } else { "tcp" };
    let load =
        json!({"id": "load", "transport": transport, "cookies": cookies, "transactions": transactions});
    let given = json!({"loads": [load], "origins": {"tfo_queue": queue}});
    with(job(&page, &network(100_000), &[]), given)
}

fn transactions(run: &Run) -> &Value {
    let record = run.only("transactions");
    assert_eq!(record["valid"], true, "{run}");
    record
}

fn of_server(record: &Value, counter: &str) -> u64 {
    grown(record, "origins", counter)
}

/// Returns pairs of a latency in microseconds and the number of transactions with that latency.
fn latencies(record: &Value) -> Vec<(u64, u64)> {
    list(&record["latency_us"]).iter().map(|pair| (number(&pair[0]), number(&pair[1]))).collect()
}

#[test]
fn a_queue_of_4_and_10_clients_at_once_give_4_answers_after_a_round_trip_and_6_after_two() {
    let at_once = json!({"arrivals": {"clients": 10}, "duration_us": 1});
    let Some(run) = exactly(&asking(2, Some("warm"), &at_once, 4)) else { return };
    let record = transactions(&run);
    assert_eq!(latencies(record), [(100_000, 4), (200_000, 6)], "{run}");
    assert_eq!(of_server(record, "TCPFastOpenListenOverflow"), 6);
    assert_eq!(of_server(record, "TCPFastOpenPassive"), 4);
    assert_eq!((&record["syn_data"], &record["fallbacks"]), (&json!(4), &json!(6)));
}

#[test]
fn after_a_change_of_key_one_connection_falls_back_and_the_next_has_the_new_cookie() {
    let slowly =
        |new_key| json!({"arrivals": {"rate_per_s": 2}, "duration_us": 10_000_000, "new_key": new_key});
    let Some(run) = exactly(&asking(1, Some("warm"), &slowly("replace"), 16)) else { return };
    let record = transactions(&run);
    assert_eq!(latencies(record), [(100_000, 19), (200_000, 1)], "{run}");
    assert_eq!(of_server(record, "TCPFastOpenPassiveFail"), 1);
    // If the server also keeps the old key, no connection falls back.
    let run = exactly(&asking(1, Some("warm"), &slowly("add"), 16)).expect("there is a kernel");
    let record = transactions(&run);
    assert_eq!(latencies(record), [(100_000, 20)], "{run}");
    assert_eq!(of_server(record, "TCPFastOpenPassiveAltKey"), 1);
}

#[test]
fn segments_and_round_trips_of_an_arm_are_exact() {
    for (cookies, round_trips, segments) in [(None, 2, 16), (Some("cold"), 2, 16), (Some("warm"), 1, 14)] {
        let steady = json!({"arrivals": {"rate_per_s": 100}, "duration_us": 1_000_000});
        let Some(run) = exactly(&asking(3, cookies, &steady, 64)) else { return };
        let record = transactions(&run);
        assert_eq!(latencies(record), [(round_trips * 100_000, 100)], "{run}");
        let both = of_server(record, "InSegs") + of_server(record, "OutSegs");
        assert_eq!(both, segments * 100, "{run}");
        assert_eq!((number(&record["begun"]), number(&record["late"])), (100, 0));
        assert_eq!(number(&record["arrived_over_us"]), 990_000);
    }
}

#[test]
fn each_arm_shows_its_evidence_on_each_engine() {
    let steady = json!({"arrivals": {"rate_per_s": 50}, "duration_us": 400_000, "late_us": 1_000_000});
    for (cookies, syn_data, cookie_requests) in [(None, 0, 0), (Some("cold"), 0, 20), (Some("warm"), 20, 0)] {
        for run in on_each_engine(&asking(3, cookies, &steady, 64)) {
            let record = transactions(&run);
            assert_eq!(number(&record["answered"]), 20, "{run}");
            assert_eq!(number(&record["syn_data"]), syn_data, "{run}");
            assert_eq!(of_server(record, "TCPFastOpenPassive"), syn_data, "{run}");
            assert_eq!(of_server(record, "TCPFastOpenCookieReqd"), cookie_requests, "{run}");
            assert!(record["core"].is_null() || !run.is_of("virtual"), "{run}");
        }
    }
}

#[test]
fn a_generator_that_cannot_keep_the_rate_says_so() {
    // With a `late_us` of 0, every arrival counts as late.
    let rushed = json!({"arrivals": {"rate_per_s": 50}, "duration_us": 400_000, "late_us": 0});
    let run = run(&asking(1, None, &rushed, 64));
    let record = run.only("transactions");
    assert_eq!(record["valid"], false, "{run}");
    assert_eq!(record["invalid"][0]["kind"], "generator_late", "{run}");
    let detail = record["invalid"][0]["detail"].as_str().expect("a text");
    assert!(
        detail.starts_with("the generator was the limit: 20 of 20 arrivals were over 0 us late"),
        "{detail}"
    );
}

/// A Python program that serves the body of a.test, one request at a time. The first response takes 1 s.
const SLOW_AT_FIRST: &str = r#"
import functools, http.server, time
class Handler(http.server.SimpleHTTPRequestHandler):
    wait = 1
    def do_GET(self):
        time.sleep(Handler.wait); Handler.wait = 0
        super().do_GET()
class Server(http.server.HTTPServer):
    request_queue_size = 100
Server(("", 80), functools.partial(Handler, directory="site/a.test")).serve_forever()
"#;

#[test]
fn while_a_server_stands_still_an_open_loop_goes_on_and_counts_the_waits() {
    let open = json!({"arrivals": {"rate_per_s": 10}, "duration_us": 1_500_000});
    let mut job = asking(1, None, &open, 64);
    job["origins"] = json!({"server": ["python3", "-c", SLOW_AT_FIRST]});
    let Some(run) = exactly(&job) else { return };
    let record = transactions(&run);
    assert_eq!(number(&record["answered"]), 15, "{run}");
    // The first transaction waits a second, and each later one 0.1 s less, until one need not wait.
    let latencies = latencies(record);
    let waited = latencies.iter().filter(|(us, _)| *us > 250_000).map(|(_, count)| count).sum::<u64>();
    assert!((9..=10).contains(&waited), "{latencies:?}");
    assert!(latencies.last().is_some_and(|(us, _)| *us >= 1_200_000), "{latencies:?}");
}

#[test]
fn clients_of_a_closed_loop_begin_when_their_last_transaction_is_over() {
    let closed = json!({"arrivals": {"clients": 3}, "duration_us": 1_000_000});
    let Some(run) = exactly(&asking(1, None, &closed, 64)) else { return };
    let record = transactions(&run);
    // The server's FIN arrives with the response, so each transaction is over after two round trips:
    // handshake and request.
    assert_eq!(latencies(record), [(200_000, 15)], "{run}");
    assert_eq!(number(&record["elapsed_us"]), 1_000_000, "{run}");
}

#[test]
fn a_flood_fills_the_queue_that_syn_cookies_keep_open() {
    let flooded = |cookies, syncookies| {
        // At this rate, no connection begins at the very moment when another one ends and leaves its place in
        // the queue.
        json!({"arrivals": {"rate_per_s": 35}, "duration_us": 1_000_000, "syncookies": syncookies,
            "flood": {"rate_per_s": 500, "cookies": cookies}})
    };
    // SYNs with valid cookies fill the Fast Open queue, and almost all other connections fall back.
    let Some(run) = exactly(&asking(1, Some("warm"), &flooded("valid", 0), 4)) else { return };
    let record = transactions(&run);
    assert!(number(&record["flood_syns"]) >= 500, "{run}");
    assert_eq!(number(&record["answered"]), 35, "{run}");
    assert!(number(&record["fallbacks"]) >= 30, "{run}");
    assert!(of_server(record, "TCPFastOpenListenOverflow") > 400, "{run}");
    // SYNs without a valid cookie do not fill the queue.
    for cookies in ["none", "invalid"] {
        let run = exactly(&asking(1, Some("warm"), &flooded(cookies, 0), 4)).expect("there is a kernel");
        let record = transactions(&run);
        assert_eq!((number(&record["syn_data"]), number(&record["fallbacks"])), (35, 0), "{cookies}: {run}");
        // The refused SYNs are in either counter, because the kernel checks the queue before the cookie
        // (`tcp_try_fastopen`).
        let refused =
            ["TCPFastOpenPassiveFail", "TCPFastOpenListenOverflow"].map(|one| of_server(record, one));
        assert_eq!(refused.iter().sum::<u64>() > 400, cookies == "invalid", "{run}");
    }
    // A server that always answers with SYN cookies does not use Fast Open.
    let run = exactly(&asking(1, Some("warm"), &flooded("none", 2), 4)).expect("there is a kernel");
    let record = transactions(&run);
    assert_eq!((number(&record["syn_data"]), number(&record["answered"])), (0, 35), "{run}");
    assert_eq!(of_server(record, "SyncookiesRecv"), 35, "{run}");
}

#[test]
fn nothing_follows_a_flood_in_its_world() {
    let flooded =
        json!({"arrivals": {"clients": 1}, "duration_us": 1, "flood": {"rate_per_s": 1, "cookies": "none"}});
    let mut job = asking(1, None, &flooded, 64);
    let load = job["loads"][0].clone();
    job["loads"] = json!([load, load]);
    let run = run(&job);
    let message = run.only("error")["message"].as_str().expect("a text");
    assert!(message.contains("follow a flood"), "{run}");
}

#[test]
fn a_wrong_answer_is_told_from_a_slow_one() {
    let once = json!({"arrivals": {"clients": 1}, "duration_us": 1});
    let script =
        "import http.server as s; s.HTTPServer((\"\", 80), s.BaseHTTPRequestHandler).serve_forever()";
    let mut job = asking(1, None, &once, 64);
    job["origins"] = json!({"server": ["python3", "-c", script]});
    let run = run(&job);
    let record = run.only("transactions");
    assert_eq!(record["invalid"][0]["kind"], "wrong_bytes", "{run}");
    let detail = record["invalid"][0]["detail"].as_str().expect("a text");
    assert!(detail.contains("status 501"), "{detail}");
}
