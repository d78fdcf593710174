//! Tests of clients' name lookups over the link: round trips, timeouts of the stub resolver, and the evidence
//! of both ends.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::chromium::browser;
use crate::packets;
use crate::support::{
    Run, grown, image, job, list, network, number, page, plt_ms, root, run, with, with_syn_data,
};
use crate::virtual_time::{exactly, on_each_engine};

const RTT_US: u64 = 100_000;

/// Returns a job that loads a document of one host and images of two other hosts. `changes` are applied to
/// its network.
fn asking(changes: Value, arms: &[&str]) -> Value {
    let pictures =
        ["http://b.test/1", "http://b.test/2", "http://c.test/3"].map(|url| image(url, 1000)).to_vec();
    let resources: Vec<_> = [vec![root(1000)], pictures].concat();
    job(&page(&resources), &with(network(RTT_US), changes), arms)
}

fn plain(resolver_rtt_us: Option<u64>) -> Value {
    json!({"names": "do53", "resolver_rtt_us": resolver_rtt_us})
}

/// Returns a tuple for each lookup: the host, the duration in milliseconds, the number of queries that the
/// client sent, and the numbers of queries and answers that the resolver counted.
fn lookups(load: &Value) -> Vec<(&str, u64, u64, u64, u64)> {
    let of = |one: &'static str| move |lookup: &Value| number(&lookup["resolver"][one]);
    list(&load["lookups"])
        .iter()
        .map(|one| {
            let took = number(&one["answered_ns"]).saturating_sub(number(&one["asked_ns"]));
            let host = one["host"].as_str().expect("it has a host");
            (host, took / 1_000_000, number(&one["queries"]), of("queries")(one), of("answers")(one))
        })
        .collect()
}

#[test]
fn a_lookup_takes_the_round_trip_to_the_resolver_once_for_each_host() {
    for (resolver_rtt_us, took_ms) in [(None, 100), (Some(20_000), 20), (Some(300_000), 300)] {
        let Some(known) = exactly(&asking(json!({}), &["tcp", "warm"])) else { return };
        let run = exactly(&asking(plain(resolver_rtt_us), &["tcp", "warm"])).expect("there is a kernel");
        for arm in ["tcp", "warm"] {
            let load = run.valid(arm);
            let expected = ["a.test", "b.test", "c.test"].map(|host| (host, took_ms, 1, 1, 1));
            assert_eq!(lookups(load), expected, "{arm}");
            // The load waits for the lookup of the document's host, and then for the other two lookups, which
            // run at the same time.
            let longer = plt_ms(load) - plt_ms(known.valid(arm));
            assert!((longer - 2.0 * took_ms as f64).abs() < 0.5, "{longer} ms longer, {took_ms}");
            assert_eq!(
                (grown(load, "client", "UdpOutDatagrams"), grown(load, "origins", "UdpInDatagrams")),
                (3, 3)
            );
        }
        assert_eq!(run.only("world")["measured"]["rtt_us"]["asked"], RTT_US);
    }
}

#[test]
fn each_lookup_over_udp_has_a_port_of_its_own_as_in_the_c_library() {
    // A queue for each flow then treats lookups as separate flows.
    for run in on_each_engine(&with(asking(plain(None), &["tcp"]), json!({"packets": true}))) {
        let file = packets::file(&run, "tcp");
        let queries = packets::segments(&file)
            .into_iter()
            .filter(|(interface, datagram, _)| *interface == 0 && datagram[2..4] == 53_u16.to_be_bytes());
        let ports: Vec<_> = queries.map(|(_, datagram, _)| datagram[..2].to_vec()).collect();
        assert_eq!((ports.len(), ports.iter().collect::<BTreeSet<_>>().len()), (3, 3));
    }
}

#[test]
fn over_tcp_the_first_lookup_takes_a_handshake_that_fast_open_saves() {
    let over_tcp = json!({"names": "tcp", "resolver_rtt_us": 50_000});
    let Some(run) = exactly(&asking(over_tcp, &["tcp", "cold", "warm"])) else { return };
    for (arm, first_ms, carried) in [("tcp", 100, 0), ("cold", 100, 0), ("warm", 50, 5)] {
        let load = run.valid(arm);
        let expected = [("a.test", first_ms, 1, 1, 1), ("b.test", 50, 1, 1, 1), ("c.test", 50, 1, 1, 1)];
        assert_eq!(lookups(load), expected, "{arm}");
        let connections = list(&load["connections"]);
        let resolver = connections.iter().find(|one| one["port"] == 53).expect("it was asked");
        assert_eq!((&resolver["host"], &resolver["requests"]), (&json!("198.19.255.53"), &json!(3)));
        assert_eq!(resolver["client"]["syn_data_acked"], arm == "warm", "{arm}");
        assert_eq!(with_syn_data(load, "client"), carried, "{arm}: {load}");
        assert_eq!(grown(load, "client", "UdpOutDatagrams"), 0);
    }
}

/// Returns a job whose lookups use this protocol (`dot` or `doh`) and begin with this kind of TLS session.
/// The `ClientHello` fits into a SYN.
fn over_tls(names: &str, session: &str, arms: &[&str]) -> Value {
    let network = json!({"names": names, "resolver_rtt_us": 50_000});
    with(asking(network, arms), json!({"tls": {"key_share": "x25519", "session": session}}))
}

fn resolver(load: &Value) -> &Value {
    let connections = list(&load["connections"]);
    connections.iter().find(|one| one["host"] == "198.19.255.53").expect("it was asked")
}

#[test]
fn over_tls_and_https_each_flight_that_carries_more_saves_the_first_lookup_a_round_trip() {
    for (names, port, alpn) in [("dot", 853, "dot"), ("doh", 443, "h2")] {
        for (session, round_trips) in [("none", [3, 3, 2]), ("resumed", [3, 3, 2]), ("early", [2, 2, 1])] {
            let asked = over_tls(names, session, &["tcp", "cold", "warm"]);
            let Some(run) = exactly(&asked) else { return };
            for (arm, round_trips) in ["tcp", "cold", "warm"].into_iter().zip(round_trips) {
                let load = run.valid(arm);
                let case = format!("{names} {session} {arm}");
                let expected = [("a.test", 50 * round_trips), ("b.test", 50), ("c.test", 50)];
                let expected = expected.map(|(host, took_ms)| (host, took_ms, 1, 1, 1));
                assert_eq!(lookups(load), expected, "{case}");
                let connection = resolver(load);
                assert_eq!((&connection["port"], &connection["requests"]), (&json!(port), &json!(3)));
                for end in ["client", "origin"] {
                    assert_eq!(connection[end]["syn_data_acked"], arm == "warm", "{case} {end}");
                }
                let tls = &connection["tls"];
                assert_eq!((&tls["version"], &tls["alpn"]), (&json!("1.3"), &json!(alpn)), "{case}");
                for end in [tls, &tls["origin"]] {
                    assert_eq!(end["resumed"], session != "none", "{case}");
                    assert_eq!(number(&end["early_bytes"]) > 0, session == "early", "{case}");
                }
                assert_eq!(with_syn_data(load, "client"), if arm == "warm" { 5 } else { 0 }, "{case}");
                assert_eq!(grown(load, "client", "UdpOutDatagrams"), 0);
            }
        }
    }
}

#[test]
fn a_client_hello_that_no_syn_holds_saves_the_lookup_nothing() {
    let Some(run) = exactly(&asking(json!({"names": "dot"}), &["tcp", "warm"])) else { return };
    for arm in ["tcp", "warm"] {
        let load = run.valid(arm);
        assert_eq!(lookups(load)[0], ("a.test", 300, 1, 1, 1), "{arm}");
        assert_eq!(resolver(load)["origin"]["syn_data_acked"], arm == "warm");
    }
}

#[test]
fn pages_over_tls_are_looked_up_over_tls() {
    for names in ["dot", "doh"] {
        let Some(run) = exactly(&over_tls(names, "early", &["tls", "tls-warm"])) else { return };
        for (arm, round_trips) in [("tls", 2), ("tls-warm", 1)] {
            let load = run.valid(arm);
            assert_eq!(lookups(load)[0], ("a.test", 50 * round_trips, 1, 1, 1), "{names} {arm}");
            assert!(list(&load["connections"]).iter().all(|one| one["tls"]["resumed"] == true), "{load}");
        }
    }
}

#[test]
fn over_tls_and_https_faults_are_those_of_tcp() {
    for names in ["dot", "doh"] {
        let asked =
            |resolver: &str| exactly(&asking(json!({"names": names, "resolver": resolver}), &["tcp"]));
        let Some(run) = asked("drop-first") else { return };
        let took: Vec<_> = lookups(run.valid("tcp")).iter().map(|one| (one.1, one.2, one.3, one.4)).collect();
        assert_eq!(took, [(5300, 2, 2, 1), (5100, 2, 2, 1), (5100, 2, 2, 1)], "{names}");
        let silent = asked("silent").expect("there is a kernel");
        let (kind, queries, answers, error) = failed(&silent);
        assert_eq!((kind, queries, answers), ("incomplete", 2, 0), "{names}");
        assert!(error.contains("no answer to 2 queries in 10 s"), "{error}");
        let unknown = asked("nxdomain").expect("there is a kernel");
        let (kind, queries, answers, error) = failed(&unknown);
        assert_eq!((kind, queries, answers), ("incomplete", 1, 1), "{names}");
        assert!(error.contains("NXDOMAIN"), "{error}");
        for seed in 1..4 {
            let way = json!({"rate_bit_per_s": null, "queue_bytes": null, "loss": 0.1});
            let lossy = json!({"names": names, "down": way, "up": way});
            let asked = with(asking(lossy, &["tcp", "warm"]), json!({"seed": seed}));
            let run = exactly(&asked).expect("there is a kernel");
            assert!(["tcp", "warm"].iter().all(|arm| run.valid(arm)["plt_ns"].is_u64()));
        }
    }
}

#[test]
fn over_https_queries_of_more_hosts_than_usual_streams_are_repeated_in_time() {
    let pictures = (0..120).map(|host| image(&format!("http://h{host}.test/"), 1000));
    let resources: Vec<_> = std::iter::once(root(1000)).chain(pictures).collect();
    let lost = with(network(RTT_US), json!({"names": "doh", "resolver": "drop-first"}));
    // The profile is `mget`, because the browser profile requests only a few images at once.
    let client = json!({"client": {"profile": "mget", "connections_total": 200}});
    let Some(run) = exactly(&with(job(&page(&resources), &lost, &["tcp"]), client)) else { return };
    let seen = lookups(run.valid("tcp"));
    assert_eq!(seen.len(), 121);
    let others = seen[1..].iter().map(|one| (one.1, one.2, one.3, one.4));
    assert_eq!(others.collect::<Vec<_>>(), [(5100, 2, 2, 1); 120]);
}

#[test]
fn over_tcp_a_lost_query_is_sent_again_and_a_silent_resolver_fails() {
    let asked = |resolver: &str| exactly(&asking(json!({"names": "tcp", "resolver": resolver}), &["tcp"]));
    let Some(run) = asked("drop-first") else { return };
    let load = run.valid("tcp");
    let took: Vec<_> = lookups(load).iter().map(|one| (one.1, one.2, one.3, one.4)).collect();
    assert_eq!(took, [(5200, 2, 2, 1), (5100, 2, 2, 1), (5100, 2, 2, 1)]);
    let silent = asked("silent").expect("there is a kernel");
    let (kind, queries, answers, error) = failed(&silent);
    assert_eq!((kind, queries, answers), ("incomplete", 2, 0));
    assert!(error.contains("no answer to 2 queries in 10 s"), "{error}");
}

#[test]
fn names_are_looked_up_on_each_engine() {
    for names in ["do53", "tcp", "dot", "doh"] {
        let asked = json!({"names": names, "resolver_rtt_us": 10_000});
        for run in on_each_engine(&asking(asked, &["tcp"])) {
            let seen = lookups(run.valid("tcp"));
            assert_eq!(
                seen.iter().map(|one| (one.0, one.2, one.3, one.4)).collect::<Vec<_>>(),
                [("a.test", 1, 1, 1), ("b.test", 1, 1, 1), ("c.test", 1, 1, 1)]
            );
            assert!(seen.iter().all(|one| one.1 >= 9), "{names}: {seen:?}");
        }
    }
}

#[test]
fn a_lost_query_is_sent_again_after_five_seconds() {
    let asked = asking(json!({"names": "do53", "resolver": "drop-first"}), &["tcp"]);
    let Some(run) = exactly(&asked) else { return };
    let load = run.valid("tcp");
    assert_eq!(lookups(load), ["a.test", "b.test", "c.test"].map(|host| (host, 5100, 2, 2, 1)));
}

fn failed(run: &Run) -> (&str, u64, u64, &str) {
    let load = run.load("tcp");
    assert_eq!(load["valid"], false);
    let [lookup] = list(&load["lookups"]) else { panic!("not one lookup: {load}") };
    assert_eq!(lookup["answered_ns"], Value::Null);
    let kind = load["invalid"][0]["kind"].as_str().expect("there is a reason");
    let counted = (number(&lookup["queries"]), number(&lookup["resolver"]["answers"]));
    (kind, counted.0, counted.1, lookup["error"].as_str().expect("it failed"))
}

#[test]
fn a_load_fails_without_an_answer_and_without_the_name() {
    let Some(silent) = exactly(&asking(json!({"names": "do53", "resolver": "silent"}), &["tcp"])) else {
        return;
    };
    let (kind, queries, answers, error) = failed(&silent);
    assert_eq!((kind, queries, answers), ("incomplete", 2, 0));
    assert!(error.contains("no answer to 2 queries in 10 s"), "{error}");
    let unknown = asking(json!({"names": "do53", "resolver": "nxdomain"}), &["tcp"]);
    let unknown = exactly(&unknown).expect("there is a kernel");
    let (kind, queries, answers, error) = failed(&unknown);
    assert_eq!((kind, queries, answers), ("incomplete", 1, 1));
    assert!(error.contains("NXDOMAIN"), "{error}");
}

#[test]
fn hosts_that_are_addresses_are_not_looked_up() {
    let resources = [with(root(1000), json!({"url": "http://192.0.2.7/"}))];
    let asked = job(&page(&resources), &with(network(20_000), plain(None)), &["tcp"]);
    assert_eq!(lookups(run(&asked).valid("tcp")), []);
}

#[test]
fn chromium_asks_the_worlds_resolver() {
    if !browser() {
        return;
    }
    let asked = asking(plain(None), &["tcp", "warm"]);
    let bodies = json!({"client": {"kind": "chromium"}, "origins": {"bodies": "synthetic"}});
    let run = run(&with(asked, bodies));
    for arm in ["tcp", "warm"] {
        let load = run.valid(arm);
        let answered = list(&load["lookups"]).iter().filter(|one| one["answered_ns"].is_u64());
        assert!(answered.count() >= 3, "{load}");
    }
}
