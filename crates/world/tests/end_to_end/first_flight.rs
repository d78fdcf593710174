//! Tests of first flights with exact times: TLS sessions of an earlier visit and early data, with and without
//! Fast Open.

use serde_json::{Value, json};

use crate::support::{
    Run, arms, image, job, list, network, number, page, plt_ms, request, root, run, with, with_syn_data,
};
use crate::virtual_time::{exactly, in_virtual_time, written};

const ARMS: [&str; 3] = ["tls", "tls-cold", "tls-warm"];

/// Returns a job that loads the resources with a round trip of 100 ms and no rate limit. The `ClientHello`
/// fits into a SYN.
fn of(resources: &[Value], tls: Value, changes: Value) -> Value {
    let tls = with(json!({"key_share": "x25519"}), tls);
    with(with(job(&page(resources), &network(100_000), &ARMS), json!({"tls": tls})), changes)
}

/// Returns, for each arm, the milliseconds from the start of the load to the first byte of the root's
/// response. Panics if a time is not a whole number of milliseconds.
fn first_byte_ms(run: &Run) -> [u64; 3] {
    ARMS.map(|arm| {
        let ns = number(&request(run.valid(arm), 0)["first_byte_ns"]);
        assert_eq!(ns % 1_000_000, 0, "{arm}: {ns} ns");
        ns / 1_000_000
    })
}

fn handshakes(load: &Value) -> Vec<&Value> {
    list(&load["connections"]).iter().map(|connection| &connection["tls"]).collect()
}

#[test]
fn early_data_saves_a_round_trip_and_fast_open_saves_one_of_each_first_flight() {
    for http in ["1.1", "2"] {
        for (session, expected_ms) in
            [("none", [300, 300, 200]), ("resumed", [300, 300, 200]), ("early", [200, 200, 100])]
        {
            let job = of(&[root(500)], json!({"session": session}), json!({"origins": {"http": http}}));
            let Some(run) = exactly(&job) else { return };
            assert_eq!(first_byte_ms(&run), expected_ms, "{session} over HTTP/{http}");
            for arm in ARMS {
                let tls = handshakes(run.valid(arm))[0];
                assert_eq!(tls["resumed"], session != "none");
                assert_eq!(tls["origin"]["resumed"], tls["resumed"]);
                assert_eq!(number(&tls["early_bytes"]) > 0, session == "early");
                assert_eq!(tls["origin"]["early_bytes"], tls["early_bytes"]);
            }
        }
    }
}

#[test]
fn the_first_request_and_the_client_hello_share_a_syn() {
    let Some(run) = exactly(&of(&[root(500)], json!({"session": "early"}), json!({}))) else { return };
    let load = run.valid("tls-warm");
    assert_eq!(with_syn_data(load, "origin"), 1);
    // If the SYN had not held the whole request, the response would have come a round trip later.
    assert_eq!(first_byte_ms(&run)[2], 100);
    // With the larger key share, the ClientHello does not fit into a SYN, with or without early data.
    let large = of(&[root(500)], json!({"session": "early", "key_share": "x25519mlkem768"}), json!({}));
    assert_eq!(exactly(&large).map(|run| first_byte_ms(&run)), Some([200, 200, 200]));
}

#[test]
fn rejected_early_data_costs_the_round_trip_that_it_would_have_saved() {
    for http in ["1.1", "2"] {
        let rejected = json!({"session": "early", "early_data_rejected": true});
        let job = of(&[root(500)], rejected, json!({"origins": {"http": http}}));
        let Some(run) = exactly(&job) else { return };
        assert_eq!(first_byte_ms(&run), [300, 300, 200], "HTTP/{http}");
        let load = run.valid("tls");
        let tls = handshakes(load)[0];
        assert_eq!((&tls["resumed"], &tls["early_bytes"]), (&json!(true), &json!(0)));
        // The early data was sent, and sent again after the rejection.
        assert!(number(&tls["sent_bytes"]) > number(&tls["hello_bytes"]) + 100);
        assert_eq!(load["unknown_requests"], 0);
        assert_eq!(list(&load["requests"]).len(), 1);
    }
}

#[test]
fn tickets_that_are_no_good_cost_what_the_handshake_does_that_they_lead_to() {
    for http in ["1.1", "2"] {
        for (state, resumed, in_vain) in
            [("stale", true, true), ("expired", false, false), ("forgotten", false, true)]
        {
            let tls = json!({"session": "early", "ticket_state": state});
            let resources = [root(500), image("http://a.test/1", 500)];
            let Some(run) = exactly(&of(&resources, tls, json!({"origins": {"http": http}}))) else { return };
            assert_eq!(first_byte_ms(&run), [300, 300, 200], "{state} over HTTP/{http}");
            for arm in ARMS {
                let tls = handshakes(run.valid(arm))[0];
                assert_eq!((&tls["resumed"], &tls["origin"]["resumed"]), (&json!(resumed), &json!(resumed)));
                assert_eq!((&tls["early_bytes"], &tls["origin"]["early_bytes"]), (&json!(0), &json!(0)));
                // The bytes that the client sends between its ClientHello and the end of the handshake are
                // early data.
                let early = number(&tls["sent_bytes"]) - number(&tls["hello_bytes"]);
                assert_eq!(early > 0, in_vain, "{state}: {early} bytes");
            }
        }
    }
}

#[test]
fn as_many_connections_begin_early_as_there_are_tickets() {
    let images: Vec<_> = (0..6).map(|number| image(&format!("http://b.test/{number}"), 500)).collect();
    for tickets in [1, 2, 4] {
        let tls = json!({"session": "early", "tickets": tickets});
        let Some(run) = exactly(&of(&[&[root(500)][..], &images].concat(), tls, json!({}))) else { return };
        for arm in ARMS {
            let load = run.valid(arm);
            let to_b = list(&load["connections"]).iter().filter(|one| one["host"] == "b.test");
            let early = to_b.filter(|one| number(&one["tls"]["origin"]["early_bytes"]) > 0).count();
            assert!(early >= tickets, "{early} of {tickets} tickets: {arm}");
            assert!(arm == "tls-warm" || early == tickets, "{early} of {tickets} tickets: {arm}");
        }
    }
}

#[test]
fn a_request_that_is_not_safe_waits_for_the_end_of_the_handshake() {
    let unsafe_root = with(root(500), json!({"method": "POST"}));
    for http in ["1.1", "2"] {
        let changes = json!({"origins": {"http": http}});
        let job = of(std::slice::from_ref(&unsafe_root), json!({"session": "early"}), changes);
        let Some(run) = exactly(&job) else { return };
        assert_eq!(first_byte_ms(&run), [300, 300, 200], "HTTP/{http}");
        for arm in ARMS {
            assert_eq!(handshakes(run.valid(arm))[0]["early_bytes"], 0);
        }
    }
}

#[test]
fn early_data_beyond_the_origins_limit_waits_for_the_handshake() {
    // An origin accepts 16,384 bytes of early data. The congestion windows hold the whole request.
    for (request_header_bytes, expected_ms) in [(12_000, 200), (20_000, 300)] {
        let long = with(root(500), json!({"request_header_bytes": request_header_bytes}));
        let wide = json!({"tcp": {"initial_window_segments": 32}, "loads": arms(&["tls"])});
        let Some(run) = exactly(&of(&[long], json!({"session": "early"}), wide)) else { return };
        let ns = number(&request(run.valid("tls"), 0)["first_byte_ns"]);
        assert_eq!(ns, expected_ms * 1_000_000, "{request_header_bytes} bytes");
    }
}

#[test]
fn early_data_that_does_not_fit_into_a_syn_saves_nothing_over_fast_open() {
    let first_bytes = |http: &str, request_header_bytes: u64| {
        let long = with(root(500), json!({"request_header_bytes": request_header_bytes}));
        let changes = json!({"origins": {"http": http}, "tcp": {"initial_window_segments": 32}});
        let run = exactly(&of(&[long], json!({"session": "early"}), changes))?;
        let warm = &handshakes(run.valid("tls-warm"))[0].clone();
        assert_eq!(warm["resumed"], true);
        let [hello, early] = ["hello_bytes", "early_bytes"].map(|name| number(&warm[name]));
        Some((first_byte_ms(&run), number(&warm["origin"]["early_bytes"]), hello + 28 + early))
    };
    let Some((_, _, of_500)) = first_bytes("1.1", 500) else { return };
    // A SYN of 1500 bytes holds 1420 bytes of data: the ClientHello, the early data, and 28 bytes of record
    // headers, ChangeCipherSpec and tag. With one byte more, the last byte arrives only with the client's
    // Finished.
    let most = 1420 - (of_500 - 500);
    assert_eq!(first_bytes("1.1", most), Some(([200, 200, 100], most, 1420)));
    assert_eq!(first_bytes("1.1", most + 1), Some(([200, 200, 200], 0, 1421)));
    for http in ["1.1", "2"] {
        let (first_byte_ms, early_bytes, _) = first_bytes(http, 12_000).expect("the engine is there");
        assert_eq!((first_byte_ms, early_bytes), ([200, 200, 200], 0), "HTTP/{http}");
    }
}

#[test]
fn think_time_runs_while_the_handshake_does() {
    let thinking = with(root(500), json!({"server_think_us": 30_000}));
    let Some(run) = exactly(&of(&[thinking], json!({"session": "early"}), json!({}))) else { return };
    assert_eq!(first_byte_ms(&run), [230, 230, 130]);
}

#[test]
fn an_answer_that_waits_for_a_more_urgent_one_is_not_held_until_the_handshake_is_complete() {
    let stylesheet = with(image("http://b.test/2", 200_000), json!({"type": "stylesheet"}));
    let thinking = with(image("http://b.test/1", 500), json!({"server_think_us": 10_000}));
    let resources = [root(500), thinking, stylesheet];
    let changes = json!({"origins": {"http": "2"}});
    let Some(run) = exactly(&of(&resources, json!({"session": "early"}), changes)) else { return };
    for arm in ARMS {
        let load = run.valid(arm);
        assert!(request(load, 1)["first_byte_ns"].as_u64() > request(load, 2)["first_byte_ns"].as_u64());
        assert!(handshakes(load).iter().all(|tls| tls["origin"]["answer_held_ns"] == 0), "{arm}");
    }
}

#[test]
fn origins_that_close_after_an_early_answer_cut_nothing_off() {
    let changes = json!({"origins": {"http": "1.1", "keep_alive": false}});
    let Some(run) = exactly(&of(&[root(5000)], json!({"session": "early"}), changes)) else { return };
    assert_eq!(first_byte_ms(&run), [200, 200, 100]);
}

#[test]
fn sessions_of_one_load_are_worth_nothing_in_the_next() {
    let twice = json!({"loads": [{"id": "tls", "transport": "tls"}, {"id": "again", "transport": "tls"}]});
    let run = run(&of(&[root(500)], json!({}), twice));
    for load in ["tls", "again"] {
        assert_eq!(handshakes(run.valid(load))[0]["resumed"], false);
    }
}

#[test]
fn the_earlier_visit_leaves_tickets_and_no_cookie() {
    let Some(run) = exactly(&of(&[root(500)], json!({"session": "resumed"}), json!({}))) else { return };
    assert_eq!(run.valid("tls-cold")["cookies_before"], 0);
    assert_eq!(run.valid("tls-warm")["cookies_before"], 1);
}

#[test]
fn a_page_whose_urls_are_recorded_begins_early_where_they_are_encrypted() {
    let resources = [
        with(root(500), json!({"url": "https://a.test/"})),
        image("http://b.test/1", 500),
        image("https://b.test/2", 500),
    ];
    let tls = json!({"session": "early", "security": "recorded"});
    let Some(run) = exactly(&of(&resources, tls, json!({}))) else { return };
    for connection in list(&run.valid("tls-warm")["connections"]) {
        let encrypted = connection["port"] == 443;
        assert_eq!(connection["tls"].is_null(), !encrypted);
        assert!(!encrypted || number(&connection["tls"]["early_bytes"]) > 0);
    }
}

#[test]
fn the_same_job_with_early_data_gives_the_same_bytes() {
    let images: Vec<_> =
        (0..9).map(|number| image(&format!("http://h{}.test/{number}", number % 3), 900)).collect();
    let resources = [&[root(5000)][..], &images].concat();
    let Some(first) = in_virtual_time() else { return };
    let jobs: Vec<_> = ["1.1", "2"]
        .map(|http| {
            of(&resources, json!({"session": "early"}), json!({"origins": {"http": http}})).to_string()
        })
        .into();
    let both = written(first, &jobs.concat());
    let alone = written(in_virtual_time().expect("it was there a moment ago"), &jobs[1]);
    assert!(both.ends_with(&alone), "what TLS draws at random shows in the records");
}

#[test]
fn a_handshake_that_the_load_does_not_wait_for_is_in_the_record() {
    // The certificates fill several congestion windows, so the second connection's handshake outlasts the
    // load.
    let resources = [root(500), image("http://a.test/1", 500), image("http://a.test/2", 500)];
    let changes = json!({"origins": {"http": "1.1"}});
    let Some(run) = exactly(&of(&resources, json!({"chain_bytes": 50_000, "tickets": 0}), changes)) else {
        return;
    };
    for (arm, syn_data) in [("tls", 0), ("tls-cold", 1), ("tls-warm", 2)] {
        let load = run.valid(arm);
        let last = list(&load["connections"]).last().expect("there are two");
        assert!(last["tls"].is_null() && last["client"].is_object(), "{arm}: {last}");
        assert_eq!(with_syn_data(load, "client"), syn_data, "{arm}");
    }
}

#[test]
fn early_data_works_on_this_machines_kernel_too() {
    let job =
        with(of(&[root(500)], json!({"session": "early"}), json!({})), json!({"network": network(20_000)}));
    let run = run(&job);
    let [full, _, warm] = ARMS.map(|arm| plt_ms(run.valid(arm)));
    assert!(full >= 40.0 && warm >= 20.0, "{full} ms, {warm} ms with Fast Open");
}
