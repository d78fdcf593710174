//! Tests of worlds with IPv6, which behave like worlds with IPv4, but whose packets are 20 bytes longer. In
//! worlds with both versions, the client chooses one (Happy Eyeballs, RFC 8305).

use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Value, json};

use crate::chromium::{browser, in_chromium};
use crate::packets::file;
use crate::support::{
    Run, grown, image, job, list, network, number, page, plt_ms, rate, request, root, run, with,
    with_syn_data,
};
use crate::virtual_time::exactly;

/// Returns the job with these versions of IP (`6` or `4+6`) instead of IPv4.
fn over(versions: &str, mut job: Value) -> Value {
    job["network"]["ip"] = json!(versions);
    job
}

/// Runs a job over IPv6 in virtual time. Returns `None` if no kernel is installed or the kernel has no IPv6.
fn exactly_over_ipv6(job: Value) -> Option<Run> {
    let run = exactly(&over("6", job))?;
    let lacks =
        |error: &&Value| error["message"].as_str().is_some_and(|text| text.starts_with("network.ip: "));
    if run.of_type("error").iter().any(lacks) {
        eprintln!("skipped: the kernel of the virtual engine has no IPv6 (fastopen kernel build)");
        return None;
    }
    Some(run)
}

/// Runs a job over IPv6 on each engine that supports it.
fn on_each_engine(job: &Value) -> Vec<Run> {
    [Some(run(&over("6", job.clone()))), exactly_over_ipv6(job.clone())].into_iter().flatten().collect()
}

fn two_hosts() -> Value {
    page(&[root(5000), image("http://b.test/1", 20_000), image("http://b.test/2", 3000)])
}

fn assert_syn_data(load: &Value, connections: usize) {
    assert_eq!(list(&load["connections"]).len(), connections);
    assert_eq!(["client", "origin"].map(|end| with_syn_data(load, end)), [connections; 2]);
}

#[test]
fn data_in_syns_saves_a_round_trip_and_cookies_belong_to_addresses() {
    for run in on_each_engine(&job(&two_hosts(), &network(100_000), &["tcp", "cold", "warm"])) {
        let [tcp, cold, warm] = ["tcp", "cold", "warm"].map(|arm| run.valid(arm));
        assert_eq!(
            run.only("world")["hosts"],
            json!({"a.test": "2001:2:0:19::1", "b.test": "2001:2:0:19::2"})
        );
        assert_eq!([tcp, cold, warm].map(|load| number(&load["cookies_before"])), [0, 0, 2]);
        let clients = [tcp, cold, warm].map(|load| load["client_address"].clone());
        assert_eq!(clients, ["2001:2:0:18::2", "2001:2:0:18::3", "2001:2:0:18::4"]);
        assert_syn_data(warm, 3);
        assert_eq!(with_syn_data(cold, "client"), 0);
        assert!(!run.is_of("virtual") || (plt_ms(tcp) - plt_ms(warm) - 200.0).abs() < 1.0, "{run}");
    }
}

#[test]
fn a_header_of_ipv6_takes_its_20_bytes_on_the_link() {
    // At this rate, the transmission of one byte takes 8 us.
    const BIT_PER_S: u64 = 1_000_000;
    let limit = || rate(BIT_PER_S);
    let slow = with(network(100_000), json!({"down": limit(), "up": limit()}));
    // `before`: the number of packets that cross the link one after another before the response. These are
    // SYN, SYN-ACK, ACK, request and the ACK of the request, or only SYN and SYN-ACK if the SYN carries the
    // request.
    for (body_bytes, arm, before) in [(500, "tcp", 5), (500, "warm", 2), (200_000, "tcp", 5)] {
        let job = job(&page(&[root(body_bytes)]), &slow, &[arm]);
        let Some(six) = exactly_over_ipv6(job.clone()) else { return };
        let four = exactly(&job).expect("there is a kernel");
        let [four, six] = [&four, &six].map(|run| run.valid(arm));
        for key in ["header_bytes", "body_bytes"] {
            assert_eq!(request(four, 0)[key], request(six, 0)[key]);
        }
        let sent = |load: &Value| number(&load["connections"][0]["origin"]["bytes_sent"]);
        assert_eq!(sent(four), sent(six), "the same bytes of application data");
        // Full packets have 1500 bytes, including `headers` bytes of IP and TCP headers with timestamps.
        let on_the_link = |headers: u64| sent(four) + headers * sent(four).div_ceil(1500 - headers);
        let more = 20 * before + on_the_link(40 + 32) - on_the_link(20 + 32);
        let later_ns = number(&six["plt_ns"]) - number(&four["plt_ns"]);
        assert_eq!(later_ns, more * 8 * 1_000_000_000 / BIT_PER_S, "{body_bytes}, {arm}");
    }
}

#[test]
fn each_path_that_breaks_fast_open_costs_the_same() {
    for path in [
        "drop-syn-data",
        "drop-option",
        "drop-synack-option",
        "strip-option",
        "strip-data",
        "strip-both",
        "strip-synack-option",
        "break-cookie",
        "rst-syn-data",
        "drop-synack",
        "drop-answers",
    ] {
        let link = with(network(100_000), json!({"path": path}));
        let job = with(
            job(&page(&[root(3000)]), &link, &["cold", "warm"]),
            json!({"client": {"profile": "mget"}, "load_timeout_us": 5_000_000}),
        );
        let Some(six) = exactly_over_ipv6(job.clone()) else { return };
        let four = exactly(&job).expect("there is a kernel");
        for arm in ["cold", "warm"] {
            let [four, six] = [&four, &six].map(|run| run.load(arm));
            for key in ["valid", "invalid", "counters", "plt_ns"] {
                assert_eq!(four[key], six[key], "{path}, {arm}");
            }
        }
    }
}

#[test]
fn names_are_looked_up_as_aaaa_over_each_transport() {
    for names in ["do53", "tcp", "dot", "doh"] {
        let link = with(network(100_000), json!({"names": names, "resolver_rtt_us": 20_000}));
        for run in on_each_engine(&job(&two_hosts(), &link, &["tcp", "warm"])) {
            for load in ["tcp", "warm"].map(|arm| run.valid(arm)) {
                let answered = list(&load["lookups"]).iter().filter(|one| one["answered_ns"].is_u64());
                assert_eq!(answered.count(), 2, "{names}: {run}");
                let datagrams = if names == "do53" { 2 } else { 0 };
                assert_eq!(grown(load, "client", "UdpOutDatagrams"), datagrams, "{names}");
                assert_eq!(grown(load, "origins", "UdpInDatagrams"), datagrams, "{names}");
            }
        }
    }
}

#[test]
fn quic_crosses_ipv6_with_early_data_and_paths_that_break_it() {
    let over_quic = |path: &str, session: &str| {
        let link = with(network(100_000), json!({"path": path}));
        let http3 = json!({"tls": {"key_share": "x25519", "chain_bytes": 3000, "session": session},
            "origins": {"http": "3"}, "client": {"h3_fallback_us": 300_000}});
        with(job(&page(&[root(500)]), &link, &["tls"]), http3)
    };
    for run in on_each_engine(&over_quic("none", "early")) {
        let load = run.valid("tls");
        assert_eq!(load["connections"][0]["tls"]["alpn"], "h3");
        assert!(number(&load["connections"][0]["quic"]["origin"]["received"]["zero_rtt"]) > 0);
    }
    for path in ["block-udp", "limit-udp", "drop-0rtt", "delay-initial", "rebind"] {
        let Some(six) = exactly_over_ipv6(over_quic(path, "early")) else { return };
        let four = exactly(&over_quic(path, "early")).expect("there is a kernel");
        let [four, six] = [&four, &six].map(|run| run.valid("tls"));
        assert_eq!(four["plt_ns"], six["plt_ns"], "{path}");
    }
}

#[test]
fn an_aqm_serves_flows_of_ipv6_apart() {
    let took = |aqm: &str| {
        let down = with(rate(2_000_000), json!({"aqm": aqm}));
        let link = with(network(40_000), json!({"down": down, "cross": {"down": "bulk"}, "link": "program"}));
        let run = exactly_over_ipv6(job(&page(&[root(20_000)]), &link, &["tcp"]))?;
        Some(plt_ms(run.valid("tcp")))
    };
    let Some((one_queue, own_queue)) = took("none").zip(took("fq_codel")) else { return };
    assert!(own_queue < one_queue / 2.0, "{own_queue} and {one_queue} ms");
}

/// Returns a job with an external server for the bodies of a.test, which listens on a socket of this address
/// family.
fn server(family: &str) -> Value {
    let script = format!(
        r#"
import functools, http.server, socket, socketserver
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, address_family = True, True, socket.{family}
    def server_activate(self):
        super().server_activate()
        self.socket.setsockopt(6, 23, 16)
Handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="site/a.test")
Server(("", 80), Handler).serve_forever()
"#
    );
    let origins = json!({"server": ["python3", "-c", script]});
    with(job(&page(&[root(5000)]), &network(100_000), &["tcp", "warm"]), json!({"origins": origins}))
}

#[test]
fn a_server_that_listens_on_ipv6_is_met_and_one_of_ipv4_is_refused() {
    for run in on_each_engine(&server("AF_INET6")) {
        let warm = run.valid("warm");
        assert_syn_data(warm, 1);
        assert_eq!(warm["server"]["listeners"][0]["address"], "::");
        assert_eq!(warm["server"]["listeners"][0]["syn_data"], 1);
    }
    for run in on_each_engine(&server("AF_INET")) {
        let message = run.only("error")["message"].as_str().expect("it is text").to_owned();
        assert!(message.contains("0.0.0.0:80"), "{message}");
    }
}

#[test]
fn a_command_is_intercepted_over_ipv6() {
    let words = ["curl", "--silent", "--output", "out", "http://a.test/"];
    let curl = json!({"client": {"kind": "command", "command": words}});
    for run in on_each_engine(&with(job(&page(&[root(5000)]), &network(100_000), &["tcp", "warm"]), curl)) {
        assert_syn_data(run.valid("warm"), 1);
        assert_eq!(with_syn_data(run.valid("tcp"), "client"), 0);
    }
}

#[test]
fn chromium_loads_a_page_over_ipv6_with_names_that_it_looks_up() {
    if !browser() {
        return;
    }
    for names in ["none", "do53"] {
        let link = with(network(50_000), json!({"names": names}));
        let run = run(&over("6", in_chromium(job(&two_hosts(), &link, &["tcp", "warm"]))));
        let warm = run.valid("warm");
        assert!(with_syn_data(warm, "client") >= 2, "{run}");
        assert_eq!(with_syn_data(warm, "client"), with_syn_data(warm, "origin"));
    }
}

/// Returns true if a connection uses this version of IP (`4` or `6`).
fn is_over(connection: &Value, version: &str) -> bool {
    let address: IpAddr = serde_json::from_value(connection["address"].clone()).expect("it has an address");
    address.is_ipv6() == (version == "6")
}

/// Returns the number of a load's connections that carried requests over this version of IP (`4` or `6`).
fn used(load: &Value, version: &str) -> usize {
    let connections = list(&load["connections"]).iter();
    connections.filter(|one| is_over(one, version) && number(&one["requests"]) > 0).count()
}

fn in_curl(job: Value, more: &[&str]) -> Value {
    let words = [&["curl", "--silent", "--output", "out"], more, &["http://a.test/"]].concat();
    with(over("4+6", job), json!({"client": {"kind": "command", "command": words}}))
}

#[test]
fn a_client_of_both_versions_holds_cookies_of_both_and_prefers_ipv6() {
    let job = job(&page(&[root(5000)]), &network(100_000), &["tcp", "cold", "warm"]);
    let forced = |version| in_curl(job.clone(), version);
    for (version, used_version) in [(&[][..], "6"), (&["-6"], "6"), (&["-4"], "4")] {
        for run in [Some(run(&forced(version))), exactly(&forced(version))].into_iter().flatten() {
            let warm = run.valid("warm");
            assert_eq!((number(&warm["cookies_before"]), used(warm, used_version)), (2, 1), "{run}");
            assert_syn_data(warm, 1);
            assert_eq!(with_syn_data(run.valid("cold"), "client"), 0);
            run.valid("tcp");
        }
    }
}

#[test]
fn a_resolver_of_both_versions_has_both_addresses_of_a_name() {
    let link = with(network(100_000), json!({"names": "do53"}));
    let run = run(&in_curl(job(&page(&[root(5000)]), &link, &["tcp"]), &["-4"]));
    assert_eq!(used(run.valid("tcp"), "4"), 1, "{run}");
}

#[test]
fn curl_turns_to_ipv4_after_200_ms_unless_fast_open_reports_a_connection_that_does_not_exist() {
    let link = with(network(100_000), json!({"path": "block-ipv6"}));
    let job = |arms: &[&str]| {
        let job = with(job(&page(&[root(5000)]), &link, arms), json!({"load_timeout_us": 5_000_000}));
        in_curl(job, &[])
    };
    let Some(run) = exactly(&job(&["tcp", "cold", "warm"])) else { return };
    for arm in ["tcp", "cold"] {
        let load = run.valid(arm);
        assert_eq!((used(load, "4"), used(load, "6")), (1, 0), "{run}");
        let opened = |version: &str| {
            let of_version = list(&load["connections"]).iter().find(|one| is_over(one, version));
            number(&of_version.expect("it was tried")["opened_ns"]) as f64 / 1e6
        };
        assert!((opened("4") - opened("6") - 200.0).abs() < 2.0, "{run}");
    }
    // With a cookie, connect(2) succeeds before any packet is sent, so that the client never turns to IPv4.
    let warm = run.load("warm");
    assert_eq!((used(warm, "4"), used(warm, "6")), (0, 0), "{run}");
    assert_eq!(warm["invalid"][0]["kind"], "incomplete", "{run}");
    let detail = warm["invalid"][0]["detail"].as_str().expect("it is text");
    assert!(detail.contains("a.test did not answer over IPv6, and the client did not try IPv4"), "{detail}");
}

#[test]
fn a_client_may_wait_for_ipv6_until_fast_open_would_have_failed() {
    let link = with(network(100_000), json!({"path": "block-ipv6"}));
    let job =
        with(job(&page(&[root(5000)]), &link, &["tcp", "cold"]), json!({"load_timeout_us": 20_000_000}));
    let Some(run) = exactly(&in_curl(job, &["--happy-eyeballs-timeout-ms", "6000"])) else { return };
    for arm in ["tcp", "cold"] {
        assert!(plt_ms(run.valid(arm)) > 6000.0, "{run}");
    }
}

#[test]
fn cross_traffic_passes_where_ipv6_to_the_hosts_is_blocked() {
    let down = json!({"rate_bit_per_s": 8_000_000, "queue_bytes": 64_000});
    let link = json!({"down": down, "cross": {"down": "bulk"}, "path": "block-ipv6"});
    let Some(run) = exactly(&in_curl(job(&page(&[root(5000)]), &with(network(40_000), link), &["tcp"]), &[]))
    else {
        return;
    };
    let load = run.valid("tcp");
    assert_eq!(used(load, "4"), 1, "{run}");
    assert!(number(&load["cross"]["down_bytes"]) > 0, "{run}");
}

#[test]
fn chromium_turns_to_ipv4_after_300_ms() {
    if !browser() {
        return;
    }
    let both = |path: &str| {
        let link = with(network(100_000), json!({"path": path}));
        exactly(&over("4+6", in_chromium(job(&page(&[root(5000)]), &link, &["tcp", "warm"]))))
    };
    let (Some(open), Some(blocked)) = (both("none"), both("block-ipv6")) else { return };
    assert_eq!([open.valid("tcp"), open.valid("warm")].map(|load| used(load, "6")), [1, 1], "{open}");
    assert_eq!(used(blocked.valid("tcp"), "4"), 1, "{blocked}");
    let later = plt_ms(blocked.valid("tcp")) - plt_ms(open.valid("tcp"));
    assert!((later - 300.0).abs() < 10.0, "{later}");
    assert_eq!(blocked.load("warm")["invalid"][0]["kind"], "incomplete", "{blocked}");
}

#[test]
fn transactions_and_floods_cross_ipv6() {
    let transactions = json!({"arrivals": {"clients": 10}, "duration_us": 1_000_000,
        "flood": {"rate_per_s": 500, "cookies": "valid"}});
    let load = json!({"id": "load", "transport": "tfo", "cookies": "warm", "transactions": transactions});
    let job = with(
        job(&page(&[root(5000)]), &network(100_000), &[]),
        json!({"loads": [load], "origins": {"tfo_queue": 4}}),
    );
    let Some(six) = exactly_over_ipv6(job.clone()) else { return };
    let four = exactly(&job).expect("there is a kernel");
    let [four, six] = [&four, &six].map(|run| run.only("transactions"));
    for key in ["valid", "answered", "latency_us", "flood_syns", "syn_data", "counters"] {
        assert_eq!(four[key], six[key], "{key}");
    }
}

#[test]
fn packets_are_kept_with_the_names_of_their_addresses() {
    let job = with(job(&page(&[root(100)]), &network(1000), &["tcp"]), json!({"packets": true}));
    for run in on_each_engine(&job) {
        run.valid("tcp");
        assert_eq!(run.only("packets")["dropped"], 0);
        let name = [&Ipv6Addr::new(0x2001, 2, 0, 0x19, 0, 0, 0, 1).octets()[..], b"a.test\0"].concat();
        assert!(file(&run, "tcp").windows(name.len()).any(|part| part == name), "{run}");
    }
}

#[test]
fn syns_carry_data_at_the_least_mtu_of_ipv6() {
    let least = with(network(1000), json!({"ip": "6", "mtu_bytes": 1280}));
    assert_syn_data(run(&job(&page(&[root(3000)]), &least, &["warm"])).valid("warm"), 1);
}
