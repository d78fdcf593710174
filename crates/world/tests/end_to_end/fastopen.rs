//! Tests of the evidence that the kernels of both ends give: without Fast Open, without a cookie (cold), and
//! with the cookie of an earlier visit (warm).

use serde_json::json;

use crate::support::{arms, grown, image, job, list, network, number, page, root, run, with, with_syn_data};
use crate::virtual_time::on_each_engine;

/// `TCPI_OPT_SYN_DATA` of include/uapi/linux/tcp.h: the data in the SYN was acknowledged.
const OPT_SYN_DATA: u64 = 32;

#[test]
fn without_fast_open_no_connection_and_no_counter_shows_it() {
    let page = page(&[root(5000), image("http://b.test/1", 100), image("http://b.test/2", 100)]);
    let run = run(&job(&page, &network(10_000), &["tcp"]));
    let load = run.valid("tcp");
    assert_eq!(load["cookies_before"], 0);
    for connection in list(&load["connections"]) {
        for end in ["client", "origin"] {
            assert_eq!(connection[end]["syn_data_acked"], false);
            assert_eq!(number(&connection[end]["options"]) & OPT_SYN_DATA, 0);
        }
        assert!(number(&connection["handshake_us"]) >= 10_000);
    }
    for end in ["client", "origins"] {
        let counters = load["counters"][end].as_object().expect("counters by name");
        assert!(!counters.keys().any(|name| name.contains("FastOpen")), "{counters:?}");
    }
}

#[test]
fn with_warm_cookies_every_connection_carries_data_in_its_syn_by_both_ends_and_the_counters() {
    let page = page(&[root(5000), image("http://b.test/1", 100), image("http://b.test/2", 100)]);
    let run = run(&job(&page, &network(100_000), &["warm"]));
    let load = run.valid("warm");
    let connections = list(&load["connections"]);
    assert_eq!((connections.len(), &load["cookies_before"]), (3, &json!(2)));
    for connection in connections {
        for end in ["client", "origin"] {
            assert_ne!(number(&connection[end]["options"]) & OPT_SYN_DATA, 0, "{end} of {connection:#}");
        }
        assert_eq!(connection["client"]["fastopen_client_fail"], 0);
        // `connect` returned before the handshake.
        assert_eq!(connection["handshake_us"], json!(null));
        assert!(number(&connection["connected_ns"]) - number(&connection["opened_ns"]) < 100_000_000);
    }
    assert_eq!(grown(load, "client", "TCPFastOpenActive"), 3);
    assert_eq!(grown(load, "origins", "TCPFastOpenPassive"), 3);
    assert_eq!(grown(load, "origins", "TCPFastOpenCookieReqd"), 0);
}

#[test]
fn with_cold_cookies_a_hosts_first_connections_ask_for_the_cookie_and_later_ones_use_it() {
    // Without keep-alive, the later image's connection is opened after the document's connection has received
    // the cookie.
    let page = page(&[root(100), image("http://a.test/later", 100), image("http://b.test/other", 100)]);
    let job = with(job(&page, &network(10_000), &["cold"]), json!({"client": {"keep_alive": false}}));
    let run = run(&job);
    let load = run.valid("cold");
    assert_eq!(load["cookies_before"], 0);
    let [first, later, other] = list(&load["connections"]) else { panic!("three connections: {load:#}") };
    assert_eq!(first["client"]["syn_data_acked"], false);
    assert!(number(&first["handshake_us"]) >= 10_000);
    assert_eq!((&later["host"], &later["client"]["syn_data_acked"]), (&json!("a.test"), &json!(true)));
    assert_eq!((&other["host"], &other["client"]["syn_data_acked"]), (&json!("b.test"), &json!(false)));
    assert_eq!(grown(load, "origins", "TCPFastOpenCookieReqd"), 2);
    assert_eq!(grown(load, "client", "TCPFastOpenActive"), 1);
}

#[test]
fn six_connections_to_a_host_that_is_new_all_ask_for_the_cookie() {
    let images: Vec<_> = (0..6).map(|number| image(&format!("http://b.test/{number}"), 100)).collect();
    // Even on a busy machine, the last SYN leaves within the RTT, before the first connection has a cookie.
    let run = run(&job(&page(&[&[root(100)][..], &images].concat()), &network(100_000), &["cold"]));
    let load = run.valid("cold");
    assert_eq!(list(&load["connections"]).len(), 7);
    assert_eq!(with_syn_data(load, "client"), 0);
    assert_eq!(grown(load, "origins", "TCPFastOpenCookieReqd"), 7);
}

#[test]
fn a_cookie_belongs_to_a_host_whatever_the_port() {
    let page = page(&[root(100), image("http://a.test:8080/", 100)]);
    let run = run(&job(&page, &network(10_000), &["cold", "warm"]));
    let cold = run.valid("cold");
    assert_eq!(list(&cold["connections"])[1]["client"]["syn_data_acked"], true);
    let warm = run.valid("warm");
    assert_eq!((&warm["cookies_before"], with_syn_data(warm, "origin")), (&json!(1), 2));
}

#[test]
fn cookies_do_not_pass_from_load_to_load() {
    let page = page(&[root(100), image("http://b.test/", 100)]);
    let loads = ["warm", "cold", "tcp", "warm", "cold"];
    let plans = arms(&loads);
    let numbered =
        list(&plans).iter().enumerate().map(|(at, plan)| with(plan.clone(), json!({"id": at.to_string()})));
    let numbered: Vec<_> = numbered.collect();
    let run = run(&with(job(&page, &network(5000), &[]), json!({"loads": numbered})));
    let wanted = [(2, 2), (0, 0), (0, 0), (2, 2), (0, 0)];
    for (at, wanted) in wanted.into_iter().enumerate() {
        let load = run.valid(&at.to_string());
        assert_eq!((number(&load["cookies_before"]), with_syn_data(load, "client")), wanted, "load {at}");
    }
    let addresses: std::collections::BTreeSet<_> =
        run.of_type("load").iter().map(|load| load["client_address"].to_string()).collect();
    assert_eq!(addresses.len(), loads.len());
}

#[test]
fn a_request_longer_than_a_syn_holds_begins_in_it() {
    let root = with(root(100), json!({"method": "POST", "request_body_bytes": 20_000}));
    let run = run(&job(&page(&[root]), &network(5000), &["warm"]));
    let load = run.valid("warm");
    assert_eq!(with_syn_data(load, "origin"), 1);
    assert_eq!(list(&load["connections"])[0]["origin"]["bytes_received"], 20_400);
}

#[test]
fn a_fast_open_queue_that_is_too_short_makes_the_load_invalid() {
    let images: Vec<_> = (0..6).map(|number| image(&format!("http://b.test/{number}"), 100)).collect();
    let page = page(&[&[root(100)][..], &images].concat());
    let job = with(job(&page, &network(50_000), &["warm"]), json!({"origins": {"tfo_queue": 1}}));
    let run = run(&job);
    let load = run.load("warm");
    let kinds: Vec<_> = list(&load["invalid"]).iter().map(|reason| &reason["kind"]).collect();
    assert!(kinds.contains(&&json!("listen_overflow")), "{kinds:?}");
    assert!(grown(load, "origins", "TCPFastOpenListenOverflow") > 0);
}

#[test]
fn a_connection_that_the_client_closes_in_its_handshake_is_counted_apart() {
    // On a non-blocking socket, `connect` sends the SYN, or with Fast Open the first write. The socket is
    // closed before the SYN-ACK arrives.
    let script = r#"use Socket; use Fcntl;
        $server = sockaddr_in(80, inet_aton("a.test"));
        socket(S, PF_INET, SOCK_STREAM, 0); fcntl(S, F_SETFL, O_NONBLOCK);
        connect(S, $server); syswrite(S, "surplus"); close(S);
        socket(S, PF_INET, SOCK_STREAM, 0); connect(S, $server);
        syswrite(S, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        while (sysread(S, $answer, 1000)) {}"#;
    let client = json!({"client": {"kind": "command", "command": ["perl", "-e", script]}});
    let job = with(job(&page(&[root(100)]), &network(300_000), &["tcp", "warm"]), client);
    for run in on_each_engine(&job) {
        for (id, syn_data) in [("tcp", 0), ("warm", 1)] {
            let load = run.valid(id);
            assert_eq!(load["given_up"], json!({"connections": 1, "syn_data": syn_data}), "{run}");
            let [surplus, used] = list(&load["connections"]) else { panic!("two connections: {run}") };
            assert_eq!((&surplus["requests"], &surplus["connected_ns"]), (&json!(0), &json!(null)), "{run}");
            assert_eq!(used["requests"], 1, "{run}");
            assert_eq!(with_syn_data(load, "client"), syn_data, "{run}");
            assert_eq!(with_syn_data(load, "origin"), 2 * syn_data, "{run}");
            assert_eq!(grown(load, "origins", "TCPFastOpenPassive"), 2 * syn_data as u64, "{run}");
        }
    }
}

#[test]
fn a_host_on_two_ports_has_one_cookie() {
    let page = page(&[root(500), image("http://a.test:8080/1", 500), image("https://a.test/2", 500)]);
    let run = run(&job(&page, &network(1000), &["warm", "tls-warm"]));
    for id in ["warm", "tls-warm"] {
        assert_eq!(
            (run.valid(id)["cookies_before"].as_u64(), with_syn_data(run.valid(id), "client")),
            (Some(1), 3)
        );
    }
}
