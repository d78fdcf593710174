//! Tests of hosts with unusual names or ports, and of pages with many hosts.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::{
    Run, image, job, list, network, number, page, plt_ms, request, root, run, with, with_syn_data,
};
use crate::virtual_time::{exactly, on_each_engine};

#[test]
fn hosts_with_odd_names_and_ports_are_reached() {
    let urls = [
        "http://a_b.test/",
        "http://-x-.test/",
        "http://b.test:8080/",
        "http://b.test:65535/",
        "https://c.test/",
        "https://c.test:444/",
        "http://203.0.113.9/",
        "http://203.0.113.9:81/",
        "http://[2001:db8::1]/",
        "http://localhost/",
        "http://single/",
        "http://xn--tda.test/",
        "http://1.test/",
        "http://trailing.test./",
        "http://a,b;c=d'e(f)!*$&+~.test/",
    ];
    let images: Vec<_> = urls.iter().map(|url| image(url, 100)).collect();
    let run =
        run(&job(&page(&[&[root(10)][..], &images].concat()), &network(2000), &["tcp", "cold", "warm"]));
    for id in ["tcp", "cold", "warm"] {
        run.valid(id);
    }
    assert_eq!(with_syn_data(run.load("warm"), "origin"), urls.len() + 1);
    assert_eq!(list(&run.load("warm")["connections"])[5]["port"], 443);
}

#[test]
fn a_host_name_may_be_as_long_as_dns_allows() {
    let label = "x".repeat(63);
    let name = format!("{label}.{label}.{label}.{}", "x".repeat(61));
    let run = run(&job(&page(&[root(10), image(&format!("http://{name}/"), 10)]), &network(1000), &["tcp"]));
    run.valid("tcp");
}

#[test]
fn a_hundred_hosts_have_an_address_and_a_cookie_each() {
    let images: Vec<_> = (0..99).map(|number| image(&format!("http://h{number}.test/"), 500)).collect();
    let page = page(&[&[root(10)][..], &images].concat());
    let run = run(&job(&page, &network(5000), &["tcp", "cold", "warm"]));
    let world = run.only("world");
    let addresses: BTreeSet<_> =
        world["hosts"].as_object().expect("by name").values().map(ToString::to_string).collect();
    assert_eq!(addresses.len(), 100);
    run.valid("tcp");
    run.valid("cold");
    let warm = run.valid("warm");
    assert_eq!((&warm["cookies_before"], with_syn_data(warm, "client")), (&json!(100), 100));
}

#[test]
fn connections_to_different_hosts_from_the_same_port_are_told_apart() {
    // The kernel chooses the client's port separately for each destination, so some of these many connections
    // share a port.
    let images: Vec<_> =
        (0..1200).map(|number| image(&format!("http://h{}.test/{number}", number / 2), number)).collect();
    let page = page(&[&[root(10)][..], &images].concat());
    let client = json!({"client": {"connections_total": 2000}});
    let run = run(&with(job(&page, &network(1000), &["tcp", "warm"]), client));
    let mut shared = 0;
    for id in ["tcp", "warm"] {
        let load = run.valid(id);
        let used: Vec<_> =
            list(&load["connections"]).iter().filter(|connection| connection["requests"] != 0).collect();
        let ports: BTreeSet<_> =
            used.iter().map(|connection| connection["client_port"].to_string()).collect();
        shared += used.len() - ports.len();
        // On a busy machine, an end may retransmit. Its count then includes the retransmitted bytes twice.
        let once: Vec<_> = used
            .into_iter()
            .filter(|connection| {
                connection["client"]["retransmits"] == 0 && connection["origin"]["retransmits"] == 0
            })
            .collect();
        assert!(once.len() > 600, "only {} connections sent all once", once.len());
        let mut arrived = 0;
        for connection in once {
            assert_eq!(
                connection["client"]["bytes_received"], connection["origin"]["bytes_sent"],
                "{connection:#}"
            );
            // The client's count lacks its own FIN; the origin counts that FIN if it closes later. When the
            // load ends, acknowledgements on the last connections may still be on their way.
            let (sent, received) =
                (number(&connection["client"]["segments_out"]), number(&connection["origin"]["segments_in"]));
            assert!(received <= sent + 1, "{connection:#}");
            arrived += usize::from(received >= sent);
        }
        assert!(arrived > 600, "all segments of only {arrived} connections arrived");
    }
    assert!(shared > 0, "no port was shared, so this proved nothing");
}

#[test]
fn hosts_of_one_address_share_its_cookie() {
    let resources = [root(1000), image("http://b.test/1", 1000), image("http://b.test/2", 2000)];
    let asked = |one_address: bool| {
        let cold = job(&page(&resources), &network(20_000), &["cold"]);
        run(&with(cold, json!({"origins": {"one_address": one_address}})))
    };
    // If the hosts share an address, the second host's connections use the first host's cookie.
    for (one_address, carried) in [(false, 0), (true, 2)] {
        let run = asked(one_address);
        let load = run.valid("cold");
        assert_eq!(with_syn_data(load, "client"), carried, "{load}");
        let hosts = run.only("world")["hosts"].as_object().expect("they have addresses");
        assert_eq!(hosts["a.test"] == hosts["b.test"], one_address);
    }
}

#[test]
fn a_single_threaded_host_serves_its_connections_one_after_another() {
    let slow = |url: &str| with(image(url, 1000), json!({"server_think_us": 50_000}));
    let images = [slow("http://a.test/1"), slow("http://a.test/2"), slow("http://b.test/1")];
    let page = page(&[&[root(1000)][..], &images].concat());
    let asked = |single_threaded: bool| {
        let origins = json!({"origins": {"single_threaded": single_threaded}});
        with(job(&page, &network(2000), &["tcp"]), origins)
    };
    let page_load_ms = |run: &Run| run.valid("tcp")["plt_ns"].as_f64().expect("it was loaded") / 1e6;
    // The second image of a.test waits for the first. That of b.test does not wait.
    for run in on_each_engine(&asked(true)) {
        assert!(page_load_ms(&run) > 104.0, "{} ms", page_load_ms(&run));
    }
    if let (Some(at_once), Some(in_turn)) = (exactly(&asked(false)), exactly(&asked(true))) {
        let (at_once, in_turn) = (page_load_ms(&at_once), page_load_ms(&in_turn));
        assert!((at_once - 58.0).abs() < 1.0 && (in_turn - 108.0).abs() < 1.0, "{at_once}, {in_turn} ms");
    }
}

#[test]
fn the_turn_at_a_single_threaded_host_is_no_part_of_a_handshake() {
    let images = [1, 2].map(|number| {
        with(image(&format!("http://a.test/{number}"), 10), json!({"server_think_us": 90_000}))
    });
    let page = page(&[&[root(10)][..], &images].concat());
    let fetch = r#"fetch() { exec 3<>"/dev/tcp/a.test/80"; cat <<<"GET $1 HTTP/1.1"$'\r\nHost: a.test\r\n\r' >&3; cat <&3; }
        fetch / >/dev/null; fetch /1 & fetch /2 & wait"#;
    let changes = json!({
        "client": {"kind": "command", "command": ["bash", "-c", fetch]},
        "origins": {"single_threaded": true},
    });
    let Some(run) = exactly(&with(job(&page, &network(20_000), &["tcp"]), changes)) else { return };
    let load = run.valid("tcp");
    let handshakes: Vec<_> =
        list(&load["connections"]).iter().map(|connection| number(&connection["handshake_us"])).collect();
    assert_eq!(handshakes.len(), 3);
    assert!(handshakes.iter().all(|us| (20_000..21_000).contains(us)), "{handshakes:?}");
    let ends = [1, 2].map(|resource| number(&request(load, resource)["end_ns"]));
    assert!(ends[0].abs_diff(ends[1]) > 85_000_000, "one image waits for the other: {ends:?}");
}

#[test]
fn valid_loads_wait_at_a_single_threaded_host_on_a_link_without_a_rate() {
    // The images' bodies take round trips, for which the second image waits.
    let images = [1, 2].map(|number| image(&format!("http://a.test/{number}"), 105_000));
    let page = page(&[&[root(1000)][..], &images].concat());
    let load_ms = |single_threaded: bool| {
        let changes =
            json!({"origins": {"single_threaded": single_threaded}, "tolerance": {"late_us": 5000}});
        let run = exactly(&with(job(&page, &network(100_000), &["tcp"]), changes))?;
        Some(plt_ms(run.valid("tcp")))
    };
    if let (Some(at_once), Some(in_turn)) = (load_ms(false), load_ms(true)) {
        assert!((in_turn - at_once - 200.0).abs() < 1.0, "{at_once}, {in_turn} ms");
    }
}

#[test]
fn more_hosts_than_a_runtime_has_turns_answer_when_asked_at_the_same_instant() {
    let images: Vec<_> = (0..150).map(|number| image(&format!("http://h{number}.test/"), 500)).collect();
    let page = page(&[&[root(10)][..], &images].concat());
    let client = json!({"client": {"profile": "mget", "connections_total": 200}});
    for run in on_each_engine(&with(job(&page, &network(5000), &["tcp"]), client)) {
        assert_eq!(list(&run.valid("tcp")["connections"]).len(), 151);
    }
}
