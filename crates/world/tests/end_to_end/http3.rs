//! Tests of HTTP/3 over QUIC with exact times: first flights, address tokens, rejected early data,
//! priorities, loss, and paths that break QUIC.

use serde_json::{Value, json};

use crate::support::{Run, image, job, list, network, number, page, rate, request, root, run, with};
use crate::virtual_time::{exactly, in_virtual_time, written};

/// Returns a job that loads the resources over HTTP/3, with a round trip of 100 ms and no rate limit. The
/// certificates fit into the bytes that an origin may send before it has validated the client's address.
fn of(resources: &[Value], tls: Value, changes: Value) -> Value {
    let tls = with(json!({"key_share": "x25519", "chain_bytes": 3000}), tls);
    let http3 = json!({"tls": tls, "origins": {"http": "3"}});
    with(with(job(&page(resources), &network(100_000), &["tls"]), http3), changes)
}

/// The seed with which a loss rate of 0.05 drops the first packet that the client sends in a load, and no
/// other packet that the response waits for.
const LOSES_FIRST: u64 = 8;

/// The seed with which a loss rate of 0.05 drops the first packet that the origin sends, which contains the
/// origin's key share.
const LOSES_KEYS: u64 = 16;

fn first_byte_ms(run: &Run) -> u64 {
    let ns = number(&request(run.valid("tls"), 0)["first_byte_ns"]);
    assert_eq!(ns % 1_000_000, 0, "{ns} ns");
    ns / 1_000_000
}

fn connection(run: &Run) -> &Value {
    let [connection] = list(&run.valid("tls")["connections"]) else { panic!("not one connection") };
    connection
}

#[test]
fn quic_takes_one_round_trip_before_the_request_and_early_data_none() {
    for (session, expected_ms) in [("none", 200), ("resumed", 200), ("early", 100)] {
        let Some(run) = exactly(&of(&[root(500)], json!({"session": session}), json!({}))) else { return };
        assert_eq!(first_byte_ms(&run), expected_ms, "{session}");
        let connection = connection(&run);
        let (tls, quic) = (&connection["tls"], &connection["quic"]);
        assert_eq!(
            (&tls["resumed"], &tls["origin"]["resumed"]),
            (&json!(session != "none"), &tls["resumed"])
        );
        assert_eq!(tls["alpn"], "h3");
        let early = session == "early";
        assert_eq!(number(&tls["early_bytes"]) > 0, early);
        assert_eq!(number(&tls["origin"]["early_bytes"]) > 0, early);
        for zero_rtt in [&quic["client"]["sent"]["zero_rtt"], &quic["origin"]["received"]["zero_rtt"]] {
            assert_eq!(number(zero_rtt) > 0, early, "{session}");
        }
        assert!(connection["client"].is_null() && connection["origin"].is_null());
    }
}

#[test]
fn certificates_beyond_three_times_what_the_client_sent_wait_for_its_next_flight() {
    for (tls, expected_ms) in [
        (json!({"chain_bytes": 3500}), 300),
        (json!({"chain_bytes": 3500, "session": "resumed"}), 200),
        // This ClientHello takes two datagrams, so the origin may send twice as many bytes before it has
        // validated the address.
        (json!({"chain_bytes": 3500, "key_share": "x25519mlkem768"}), 200),
    ] {
        let Some(run) = exactly(&of(&[root(500)], tls.clone(), json!({}))) else { return };
        assert_eq!(first_byte_ms(&run), expected_ms, "{tls}");
    }
}

#[test]
fn a_long_early_answer_needs_an_address_token() {
    for (address_tokens, whole_ms) in [(true, 100), (false, 200)] {
        let tls = json!({"session": "early", "address_tokens": address_tokens});
        let Some(run) = exactly(&of(&[root(9000)], tls, json!({}))) else { return };
        assert_eq!(first_byte_ms(&run), 100);
        assert_eq!(number(&request(run.valid("tls"), 0)["end_ns"]) / 1_000_000, whole_ms);
    }
}

#[test]
fn rejected_early_data_is_sent_again_when_the_handshake_is_complete() {
    let tls = json!({"session": "early", "early_data_rejected": true});
    let resources = [root(500), image("http://a.test/1", 900), image("http://a.test/2", 900)];
    let Some(run) = exactly(&of(&resources, tls, json!({}))) else { return };
    assert_eq!(first_byte_ms(&run), 200);
    let connection = connection(&run);
    assert_eq!((&connection["tls"]["resumed"], &connection["tls"]["early_bytes"]), (&json!(true), &json!(0)));
    assert!(number(&connection["quic"]["client"]["sent"]["zero_rtt"]) > 0);
    assert_eq!(run.valid("tls")["unknown_requests"], 0);
}

#[test]
fn tickets_that_are_no_good_cost_what_the_handshake_does_that_they_lead_to() {
    for (state, resumed, in_vain) in
        [("stale", true, true), ("expired", false, false), ("forgotten", false, true)]
    {
        let tls = json!({"session": "early", "ticket_state": state});
        let Some(run) = exactly(&of(&[root(500)], tls, json!({}))) else { return };
        assert_eq!(first_byte_ms(&run), 200, "{state}");
        let connection = connection(&run);
        assert_eq!(
            (&connection["tls"]["resumed"], &connection["tls"]["origin"]["early_bytes"]),
            (&json!(resumed), &json!(0))
        );
        assert_eq!(number(&connection["quic"]["client"]["sent"]["zero_rtt"]) > 0, in_vain, "{state}");
    }
}

#[test]
fn a_request_that_is_not_safe_waits_for_the_end_of_the_handshake() {
    let unsafe_root = with(root(500), json!({"method": "POST", "request_body_bytes": 3000}));
    let Some(run) = exactly(&of(&[unsafe_root], json!({"session": "early"}), json!({}))) else { return };
    assert_eq!(first_byte_ms(&run), 200);
}

#[test]
fn an_urgent_response_overtakes_those_requested_before() {
    let script = json!({"url": "http://a.test/late.js", "type": "script", "body_bytes": 20_000,
        "initiator": 1, "initiator_at_bytes": 1000});
    let images = [image("http://a.test/1", 300_000), image("http://a.test/2", 300_000)];
    let thin = json!({"network": with(network(40_000), json!({"down": rate(4_000_000)}))});
    let resources = [&[root(500)][..], &images, &[script]].concat();
    let Some(run) = exactly(&of(&resources, json!({}), thin)) else { return };
    let load = run.valid("tls");
    let ended = |resource| number(&request(load, resource)["end_ns"]) / 1_000_000;
    assert!(ended(3) < ended(1) / 2, "script {} ms, images {} and {} ms", ended(3), ended(1), ended(2));
    assert!(ended(2).abs_diff(ended(1)) < 100, "images {} and {} ms", ended(1), ended(2));
}

#[test]
fn lost_packets_are_sent_again_and_broken_paths_of_fast_open_let_quic_pass() {
    let lossy = with(
        network(100_000),
        json!({"down": with(rate(8_000_000), json!({"loss": 0.05})), "path": "drop-option"}),
    );
    let images: Vec<_> = (0..9).map(|number| image(&format!("http://a.test/{number}"), 40_000)).collect();
    let resources = [&[root(5000)][..], &images].concat();
    let Some(run) = exactly(&of(&resources, json!({}), json!({"network": lossy}))) else { return };
    assert!(number(&connection(&run)["quic"]["origin"]["lost_packets"]) > 0);
    assert_eq!(run.valid("tls")["link"]["up"]["dropped_path"], 0);
}

#[test]
fn the_same_job_over_quic_gives_the_same_bytes() {
    let images: Vec<_> =
        (0..9).map(|number| image(&format!("http://h{}.test/{number}", number % 3), 9000)).collect();
    let resources = [&[root(5000)][..], &images].concat();
    let Some(first) = in_virtual_time() else { return };
    let jobs =
        ["none", "early"].map(|session| of(&resources, json!({"session": session}), json!({})).to_string());
    let both = written(first, &jobs.concat());
    let alone = written(in_virtual_time().expect("it was there a moment ago"), &jobs[1]);
    assert!(both.ends_with(&alone), "what QUIC draws at random shows in the records");
}

#[test]
fn a_retry_costs_a_round_trip_unless_the_client_has_a_token() {
    for (tls, expected_ms, retries) in [
        (json!({}), 300, 1),
        (json!({"session": "early", "address_tokens": false}), 200, 1),
        (json!({"session": "early"}), 100, 0),
    ] {
        let tls = with(tls, json!({"retry": true}));
        let Some(run) = exactly(&of(&[root(500)], tls.clone(), json!({}))) else { return };
        assert_eq!(first_byte_ms(&run), expected_ms, "{tls}");
        let quic = &connection(&run)["quic"];
        let seen = [&quic["origin"]["sent"]["retry"], &quic["client"]["received"]["retry"]];
        assert_eq!(seen, [&json!(retries), &json!(retries)], "{tls}");
    }
}

#[test]
fn a_lost_first_flight_is_sent_again_after_a_second() {
    let lossy =
        with(network(100_000), json!({"up": {"rate_bit_per_s": null, "queue_bytes": null, "loss": 0.05}}));
    for (session, expected_ms) in [("none", 1199), ("early", 1299)] {
        let job =
            of(&[root(500)], json!({"session": session}), json!({"network": lossy, "seed": LOSES_FIRST}));
        let Some(run) = exactly(&job) else { return };
        // The probe timeout (PTO) is three times the initial RTT of 333 ms (RFC 9002 section 6.2.2). Then the
        // client sends the Initial packet again. It sends early data again only when later packets are
        // acknowledged, which takes another round trip.
        assert_eq!(first_byte_ms(&run), expected_ms, "{session}");
    }
}

#[test]
fn early_answers_that_came_before_the_keys_are_sent_again() {
    let lossy =
        with(network(100_000), json!({"down": {"rate_bit_per_s": null, "queue_bytes": null, "loss": 0.05}}));
    let changes = json!({"network": lossy, "seed": LOSES_KEYS});
    let Some(run) = exactly(&of(&[root(9000)], json!({"session": "early"}), changes)) else { return };
    // The loss delays the handshake by a PTO of 999 ms. The end of the handshake shows the origin that the
    // response was lost too. Because of the loss, the congestion window is smaller, which costs another round
    // trip.
    let answer = request(run.valid("tls"), 0);
    let [first_ms, last_ms] = ["first_byte_ns", "end_ns"].map(|key| number(&answer[key]) / 1_000_000);
    assert_eq!([first_ms, last_ms], [1399, 1499]);
}

#[test]
fn datagrams_that_never_arrive_are_sent_again_at_doubled_times_until_the_load_is_given_up() {
    // This queue has room for the packets that measure the link, but not for a datagram with an Initial
    // packet.
    let narrow = with(network(100_000), json!({"up": with(rate(10_000_000), json!({"queue_bytes": 1000}))}));
    let changes = json!({"network": narrow, "load_timeout_us": 10_000_000});
    let Some(run) = exactly(&of(&[root(500)], json!({}), changes)) else { return };
    let load = run.load("tls");
    assert_eq!(load["invalid"][0]["kind"], "incomplete");
    // The client sends one datagram at 0 s, and two each at 1, 3 and 7 s (RFC 9002 section 6.2).
    assert_eq!(number(&load["link"]["up"]["dropped_queue"]), 7);
}

fn behind(path: &str, changes: Value) -> Value {
    json!({"network": with(with(network(100_000), json!({"path": path})), changes)})
}

#[test]
fn where_udp_is_blocked_a_page_never_loads() {
    let changes = with(behind("block-udp", json!({})), json!({"load_timeout_us": 10_000_000}));
    let Some(run) = exactly(&of(&[root(500)], json!({}), changes)) else { return };
    let load = run.load("tls");
    assert_eq!(load["invalid"][0]["kind"], "incomplete");
    assert_eq!(number(&load["link"]["up"]["dropped_path"]), 7);
}

#[test]
fn a_hello_of_two_datagrams_waits_where_only_the_first_passes() {
    let path = || behind("drop-large-udp", json!({}));
    for (key_share, session, expected_ms, dropped) in [
        ("x25519", "none", 200, 0),
        ("x25519mlkem768", "none", 500, 1),
        ("x25519", "early", 100, 0),
        ("x25519mlkem768", "early", 600, 1),
    ] {
        let tls = json!({"key_share": key_share, "session": session});
        let Some(run) = exactly(&of(&[root(500)], tls, path())) else { return };
        assert_eq!(first_byte_ms(&run), expected_ms, "{key_share}, {session}");
        let dropped_path = number(&run.valid("tls")["link"]["up"]["dropped_path"]);
        assert_eq!(dropped_path, dropped, "{key_share}, {session}");
    }
}

/// Returns changes to a job that make its client open a TCP connection as well if a QUIC connection is not
/// ready after `after_ms` milliseconds.
fn falling_back(after_ms: u64) -> Value {
    json!({"client": {"h3_fallback_us": after_ms * 1000}})
}

#[test]
fn where_udp_is_blocked_a_client_that_falls_back_pays_what_it_waited_and_the_handshakes_of_tcp() {
    for (session, after_ms) in [("none", 0), ("none", 200), ("resumed", 300), ("early", 300)] {
        let changes = with(behind("block-udp", json!({})), falling_back(after_ms));
        let resources = [root(500), image("http://a.test/1", 900)];
        let Some(run) = exactly(&of(&resources, json!({"session": session}), changes)) else { return };
        let load = run.valid("tls");
        let [left, taken] = list(&load["connections"]) else { panic!("not two connections: {load}") };
        // The client has tickets only for QUIC, so TLS over TCP begins with a full handshake.
        assert_eq!(first_byte_ms(&run), after_ms + 300, "{session}");
        assert_eq!(number(&load["plt_ns"]) / 1_000_000, after_ms + 400, "{session}");
        for resource in [0, 1] {
            assert_eq!(request(load, resource)["connection"], taken["id"], "{session}");
        }
        assert_eq!((&taken["tls"]["alpn"], &taken["quic"]), (&json!("h2"), &Value::Null));
        assert!(number(&taken["origin"]["bytes_received"]) > 0);
        assert!(number(&left["quic"]["client"]["sent"]["initial"]) > 0);
        assert_eq!(number(&left["quic"]["client"]["sent"]["zero_rtt"]) > 0, session == "early");
        assert_eq!((&left["quic"]["origin"], &left["tls"]), (&Value::Null, &Value::Null), "{session}");
        assert_eq!(number(&taken["opened_ns"]) - number(&left["opened_ns"]), after_ms * 1_000_000);
    }
}

#[test]
fn a_client_that_falls_back_stays_with_quic_where_that_is_ready_first() {
    // QUIC is ready after one round trip. If the round trip takes 300 ms, the client opens the TCP connection
    // at 200 ms, but its handshakes (TCP and TLS) take two more round trips.
    for (rtt_us, path, connections) in
        [(100_000, "none", 1), (100_000, "limit-udp", 1), (300_000, "none", 2), (300_000, "limit-udp", 2)]
    {
        let network = with(network(rtt_us), json!({"path": path}));
        let changes = with(json!({"network": network}), falling_back(200));
        let Some(run) = exactly(&of(&[root(500)], json!({}), changes)) else { return };
        let load = run.valid("tls");
        assert_eq!(first_byte_ms(&run), 2 * rtt_us / 1000, "{path}");
        assert_eq!(list(&load["connections"]).len(), connections, "{rtt_us} us, {path}");
        let used = &list(&load["connections"])[0];
        assert_eq!((&request(load, 0)["connection"], &used["tls"]["alpn"]), (&used["id"], &json!("h3")));
    }
}

#[test]
fn each_host_falls_back_by_itself() {
    let resources = [root(500), image("http://b.test/1", 900)];
    let changes = with(behind("block-udp", json!({"path_hosts": ["b.test"]})), falling_back(200));
    let Some(run) = exactly(&of(&resources, json!({}), changes)) else { return };
    let load = run.valid("tls");
    let alpn = |resource| {
        let used = &request(load, resource)["connection"];
        let found = list(&load["connections"]).iter().find(|one| one["id"] == *used);
        found.expect("it is one of the load's")["tls"]["alpn"].clone()
    };
    assert_eq!([alpn(0), alpn(1)], [json!("h3"), json!("h2")]);
    assert_eq!(number(&request(load, 1)["first_byte_ns"]) / 1_000_000, 200 + 200 + 300);
}

#[test]
fn early_data_that_is_dropped_costs_what_a_lost_first_flight_does() {
    for (session, expected_ms, dropped) in [("none", 200, false), ("early", 1299, true)] {
        let job = of(&[root(500)], json!({"session": session}), behind("drop-0rtt", json!({})));
        let Some(run) = exactly(&job) else { return };
        assert_eq!(first_byte_ms(&run), expected_ms, "{session}");
        assert_eq!(number(&run.valid("tls")["link"]["up"]["dropped_path"]) > 0, dropped, "{session}");
        assert_eq!(connection(&run)["quic"]["origin"]["received"]["zero_rtt"], 0, "{session}");
    }
}

#[test]
fn early_packets_that_overtake_the_initial_are_lost_to_its_origin() {
    // The path holds Initial packets for 10 ms. A round trip later, the acknowledgements of the handshake
    // show the client that its early data was lost, and it sends the data again.
    for (session, request_header_bytes, expected_ms) in
        [("none", 500, 210), ("early", 500, 310), ("early", 3000, 310)]
    {
        let long = with(root(500), json!({"request_header_bytes": request_header_bytes}));
        let job = of(&[long], json!({"session": session}), behind("delay-initial", json!({})));
        let Some(run) = exactly(&job) else { return };
        assert_eq!(first_byte_ms(&run), expected_ms, "{session}");
        let quic = &connection(&run)["quic"];
        // All packets arrive; the origin drops packets for which it has no keys yet.
        assert_eq!(run.valid("tls")["link"]["up"]["dropped_path"], 0);
        let early = number(&quic["client"]["sent"]["zero_rtt"]);
        assert_eq!((early > 0, &quic["origin"]["received"]["zero_rtt"]), (session == "early", &json!(early)));
        assert_eq!(number(&quic["client"]["lost_packets"]) > 0, early > 0, "{session}");
    }
}

#[test]
fn udp_that_is_limited_is_not_faster_than_its_limit() {
    // The path lets 15 kB pass at once, and then 1 Mbit/s, so the other 85 kB take 680 ms.
    let Some(open) = exactly(&of(&[root(100_000)], json!({}), behind("none", json!({})))) else { return };
    let Some(limited) = exactly(&of(&[root(100_000)], json!({}), behind("limit-udp", json!({})))) else {
        return;
    };
    let [open_ms, limited_ms] = [&open, &limited].map(|run| number(&run.valid("tls")["plt_ns"]) / 1_000_000);
    assert!(open_ms < 600 && limited_ms >= 680, "{open_ms} ms, {limited_ms} ms limited");
    assert!(number(&limited.valid("tls")["link"]["down"]["dropped_path"]) > 0);
}

#[test]
fn a_connection_outlives_another_port_of_its_client_and_pays_a_round_trip() {
    let late = |path| {
        let resources = [root(500), with(image("http://a.test/1", 9000), json!({"processing_us": 900_000}))];
        exactly(&of(&resources, json!({}), behind(path, json!({}))))
    };
    let (Some(kept), Some(rebound)) = (late("none"), late("rebind")) else { return };
    let [kept_ns, rebound_ns] = [&kept, &rebound].map(|run| number(&run.valid("tls")["plt_ns"]));
    // Until the new path is validated, the origin sends at most three times the bytes that it received over
    // that path (RFC 9000 sections 8.1 and 9.3).
    assert_eq!((rebound_ns - kept_ns) / 1_000_000, 100);
    let quic = &connection(&rebound)["quic"];
    assert_eq!(quic["client"]["received"], quic["origin"]["sent"]);
}

#[test]
fn single_hosts_speak_http3_and_fast_open_serves_the_others() {
    let resources = [root(500), image("http://b.test/1", 900), image("http://c.test/2", 900)];
    let tls = json!({"key_share": "x25519", "chain_bytes": 3000});
    let origins = json!({"http3_hosts": ["b.test"], "http2_hosts": ["c.test"]});
    let job = with(
        job(&page(&resources), &network(100_000), &["tls", "tls-warm"]),
        json!({"tls": tls, "origins": origins}),
    );
    let Some(run) = exactly(&job) else { return };
    for (arm, over_tcp_ms) in [("tls", 300), ("tls-warm", 200)] {
        let load = run.valid(arm);
        for (host, alpn, expected_ms) in
            [("a.test", "http/1.1", over_tcp_ms), ("b.test", "h3", 200), ("c.test", "h2", over_tcp_ms)]
        {
            let connections = list(&load["connections"]);
            let connection = connections.iter().find(|one| one["host"] == host).expect("one to each host");
            assert_eq!(connection["tls"]["alpn"], alpn);
            assert_eq!(connection["quic"].is_null(), alpn != "h3");
            let requests = list(&load["requests"]);
            let first = requests.iter().find(|one| one["connection"] == connection["id"]).expect("one");
            let took_ns = number(&first["first_byte_ns"]) - number(&connection["opened_ns"]);
            assert_eq!(took_ns / 1_000_000, expected_ms, "{arm} {host}");
        }
    }
}

#[test]
fn ports_of_an_earlier_load_are_free_again() {
    // In virtual time, the first connection of each load has the same client port.
    let loads = json!([{"id": "one", "transport": "tls"}, {"id": "two", "transport": "tls"}]);
    let Some(run) = exactly(&of(&[root(500)], json!({"session": "early"}), json!({"loads": loads}))) else {
        return;
    };
    let port = |id| &run.valid(id)["connections"][0]["client_port"];
    assert_eq!(port("one"), port("two"));
}

#[test]
fn http3_works_on_this_machines_kernel_too() {
    let near = json!({"network": network(20_000)});
    let run = run(&of(&[root(500)], json!({"session": "early"}), near));
    assert!(number(&request(run.valid("tls"), 0)["first_byte_ns"]) >= 20_000_000);
}
