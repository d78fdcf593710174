//! Tests of Chromium's first flights: QUIC, TLS sessions of an earlier visit, and early data. The evidence is
//! the origins' reports and the packets at the client's interface.

use serde_json::{Value, json};

use crate::chromium::{browser, in_chromium};
use crate::support::{Run, image, job, list, network, number, page, request, root, run, with};
use crate::virtual_time::exactly;

/// Returns a page with a font, which browsers fetch over a connection without credentials.
fn site() -> Value {
    let style = json!({"url": "http://b.test/s.css", "type": "stylesheet", "body_bytes": 2000,
        "initiator": 0, "mime": "text/css"});
    let font = json!({"url": "http://b.test/f.woff", "type": "font", "body_bytes": 3000, "initiator": 1});
    let send = json!({"url": "http://a.test/send", "type": "xhr", "body_bytes": 100, "initiator": 0,
        "method": "POST", "request_body_bytes": 200});
    page(&[
        root(5000),
        style,
        font,
        with(image("http://a.test/1", 4000), json!({"mime": "image/gif"})),
        with(image("http://c.test/2", 4000), json!({"mime": "image/gif"})),
        send,
    ])
}

/// Returns a job whose RTT is long enough for a browser on a busy machine to send early data in time.
fn begins(http: &str, session: &str, arms: &[&str]) -> Value {
    let job = in_chromium(job(&site(), &network(300_000), arms));
    let origins = json!({"http": http, "bodies": "synthetic"});
    with(job, json!({"origins": origins, "tls": {"session": session}}))
}

/// Returns the first connection that was opened to the host, ignoring connections without a request.
fn first_to<'a>(load: &'a Value, host: &str) -> &'a Value {
    let of_host = list(&load["connections"]).iter().filter(|one| one["host"] == host);
    let carried = of_host.filter(|one| number(&one["requests"]) > 0);
    carried.min_by_key(|one| number(&one["opened_ns"])).expect("there is one")
}

/// Returns the milliseconds from the opening of the document's connection to the first byte of the response.
/// The time is rounded, because the browser reports the start of the load a few tenths of a millisecond late.
fn first_byte_ms(load: &Value) -> u64 {
    let opened_ns = number(&first_to(load, "a.test")["opened_ns"]);
    (number(&request(load, 0)["first_byte_ns"]) - opened_ns + 500_000) / 1_000_000
}

/// Asserts that the first connection to each host began with this kind of session, according to the origin.
fn assert_began(run: &Run, arm: &str, session: &str) {
    let load = run.valid(arm);
    assert_eq!(load["unknown_requests"], 0, "{run}");
    for host in ["a.test", "b.test", "c.test"] {
        let tls = &first_to(load, host)["tls"]["origin"];
        assert_eq!(tls["resumed"], session != "none", "{host}: {load:#}");
        assert_eq!(number(&tls["early_bytes"]) > 0, session == "early", "{host}: {load:#}");
    }
}

#[test]
fn a_browser_speaks_quic_and_begins_as_its_session_says() {
    if !browser() {
        return;
    }
    for session in ["none", "resumed", "early"] {
        let run = run(&begins("3", session, &["tls"]));
        assert_began(&run, "tls", session);
        for connection in list(&run.valid("tls")["connections"]) {
            let quic = &connection["quic"];
            let early = number(&connection["tls"]["origin"]["early_bytes"]) > 0;
            for packets in [&quic["client"]["sent"], &quic["origin"]["received"]] {
                assert_eq!(number(&packets["zero_rtt"]) > 0, early, "{connection:#}");
                assert!(number(&packets["initial"]) > 0, "{connection:#}");
            }
            assert!(quic["client"]["lost_packets"].is_null() && connection["client"].is_null());
            assert_eq!(connection["tls"]["alpn"], "h3");
        }
    }
}

#[test]
fn early_data_over_quic_saves_a_browser_a_round_trip() {
    if !browser() {
        return;
    }
    let Some(run) = exactly(&begins("3", "early", &["tls"])) else { return };
    assert_began(&run, "tls", "early");
    assert_eq!(first_byte_ms(run.valid("tls")), 300, "{run}");
}

#[test]
fn early_data_over_tcp_saves_a_browser_a_round_trip_and_fast_open_none_beside_it() {
    if !browser() {
        return;
    }
    let Some(run) = exactly(&begins("2", "early", &["tls", "tls-warm"])) else { return };
    for arm in ["tls", "tls-warm"] {
        assert_began(&run, arm, "early");
        let load = run.valid(arm);
        // The ClientHello is longer than the 1420 bytes that a SYN holds. The rest follows after the SYN-ACK.
        assert!(number(&first_to(load, "a.test")["tls"]["hello_bytes"]) > 1420, "{load:#}");
        assert_eq!(first_byte_ms(load), 600, "{arm}: {run}");
    }
}

#[test]
fn a_browser_sends_early_data_over_each_of_its_connections_with_a_ticket() {
    if !browser() {
        return;
    }
    for session in ["resumed", "early"] {
        let run = run(&begins("1.1", session, &["tls", "tls-cold"]));
        for arm in ["tls", "tls-cold"] {
            assert_began(&run, arm, session);
        }
    }
}

#[test]
fn a_repeat_view_begins_as_its_session_says() {
    if !browser() {
        return;
    }
    for (http, session) in [("3", "none"), ("3", "early"), ("2", "none")] {
        let job = begins(http, session, &["tls"]);
        let run = run(&with(job, json!({"client": {"kind": "chromium", "view": "repeat"}})));
        assert_began(&run, "tls", session);
    }
}

#[test]
fn a_browser_knows_that_hosts_over_quic_honour_priorities_and_asks_for_all_images_at_once() {
    if !browser() {
        return;
    }
    let slow = json!({"mime": "image/gif", "server_think_us": 2_000_000});
    let images = (1..=20).map(|number| with(image(&format!("http://a.test/{number}"), 50), slow.clone()));
    let page = page(&std::iter::once(root(20_000)).chain(images).collect::<Vec<_>>());
    let quic = json!({"origins": {"http": "3", "bodies": "synthetic"}});
    let run = run(&with(in_chromium(job(&page, &network(20_000), &["tls"])), quic));
    let requests = list(&run.valid("tls")["requests"]);
    let (first_end, last_sent) = (
        requests[1..].iter().map(|one| number(&one["end_ns"])).min(),
        requests[1..].iter().map(|one| number(&one["sent_ns"])).max(),
    );
    assert!(last_sent < first_end, "{run}");
}

#[test]
fn a_browser_does_not_retry_without_its_large_key_share() {
    if !browser() {
        return;
    }
    let behind = |path: &str, http: &str| {
        let changes =
            json!({"network": with(network(100_000), json!({"path": path})), "load_timeout_us": 8_000_000});
        exactly(&with(with(begins(http, "none", &["tls"]), json!({"page": page(&[root(5000)])})), changes))
    };
    for path in ["drop-split-hello", "rst-split-hello"] {
        let Some(run) = behind(path, "1.1") else { return };
        assert_eq!(run.load("tls")["invalid"][0]["kind"], "incomplete", "{path}");
    }
    // TCP retransmits the lost segment when its timer expires. QUIC retransmits the datagram two round trips
    // later.
    for (path, http, expected_ms) in [("stall-second-segment", "1.1", 711), ("drop-large-udp", "3", 400)] {
        let Some(run) = behind(path, http) else { return };
        let came_ms = first_byte_ms(run.valid("tls"));
        assert!((expected_ms..expected_ms + 8).contains(&came_ms), "{path}: {came_ms} ms");
    }
}
