//! Tests of loads over TLS: the round trips of handshakes with and without Fast Open. Everything else is the
//! same as in loads without TLS.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{image, job, list, network, number, page, plt_ms, root, run, with, with_syn_data};
use crate::virtual_time::{exactly, in_virtual_time, written};

const ARMS: [&str; 5] = ["tcp", "warm", "tls", "tls-cold", "tls-warm"];
/// A key share with which the `ClientHello` fits into a SYN.
const SMALL: &str = "x25519";

/// Returns a job that loads one resource with a round trip of 100 ms and no rate limit.
fn small_job(tls: &Value) -> Value {
    with(job(&page(&[root(500)]), &network(100_000), &ARMS), json!({"tls": tls}))
}

/// Returns the page load time of each arm, rounded to a number of round trips of 100 ms. Returns `None` if no
/// kernel of the virtual engine is installed.
fn round_trips(tls: &Value) -> Option<[u64; 5]> {
    let run = exactly(&small_job(tls))?;
    Some(ARMS.map(|arm| (plt_ms(run.valid(arm)) / 100.0).round() as u64))
}

fn sessions(load: &Value) -> Vec<&Value> {
    list(&load["connections"]).iter().map(|connection| &connection["tls"]).collect()
}

#[test]
fn fast_open_saves_a_round_trip_of_every_tls_handshake_that_begins_in_the_syn() {
    let Some(newest) = round_trips(&json!({"key_share": SMALL})) else { return };
    assert_eq!(newest, [2, 1, 3, 3, 2]);
    assert_eq!(round_trips(&json!({"version": "1.2", "key_share": SMALL})), Some([2, 1, 4, 4, 3]));
}

#[test]
fn a_key_share_too_large_for_the_syn_leaves_fast_open_nothing_to_save() {
    let Some(run) = exactly(&small_job(&json!({}))) else { return };
    let [without, with] = ["tls", "tls-warm"].map(|arm| plt_ms(run.valid(arm)));
    assert!((with - without).abs() < 1.0, "{without} ms, and {with} ms with Fast Open");
    // The kernels still report SYN data: the SYN carried data, but not the whole ClientHello.
    assert_eq!(with_syn_data(run.load("tls-warm"), "origin"), 1);
    let session = sessions(run.load("tls"))[0];
    assert_eq!((&session["version"], &session["group"]), (&json!("1.3"), &json!("X25519MLKEM768")));
    assert!(number(&session["hello_bytes"]) > 1460 - 40, "{session:#}");
}

#[test]
fn each_key_share_is_negotiated_and_adds_its_bytes_to_the_client_hello() {
    let share = |key_share: &str| {
        let changes = json!({"tls": {"key_share": key_share}});
        let run = run(&with(job(&page(&[root(10)]), &network(2000), &["tls"]), changes));
        let session = sessions(run.valid("tls"))[0].clone();
        (session["group"].as_str().unwrap_or("").to_owned(), number(&session["hello_bytes"]))
    };
    let (group, least) = share("x25519");
    assert_eq!(group, "X25519");
    // A point of P-256 has 65 bytes, a public key of X25519 has 32.
    assert_eq!(share("secp256r1"), ("secp256r1".into(), least + 33));
    // A post-quantum group, which browsers before 2024 lack, also adds two bytes to the list of groups.
    assert_eq!(share("x25519mlkem768"), ("X25519MLKEM768".into(), least + 4 + 1216 + 2));
    assert_eq!(share("mlkem1024"), ("MLKEM1024".into(), least - 32 + 1568 + 2));
}

#[test]
fn a_placeholder_for_encrypted_client_hello_adds_the_same_bytes_to_each_hello() {
    let hello = |ech: &str, key_share: &str, session: &str, http: &str| {
        let tls = json!({"ech": ech, "key_share": key_share, "session": session});
        let changes = json!({"tls": tls, "origins": {"http": http}});
        let run = exactly(&with(job(&page(&[root(10)]), &network(2000), &["tls"]), changes))?;
        let connection = &list(&run.valid("tls")["connections"])[0];
        Some(number(&connection["tls"]["hello_bytes"]))
    };
    // The placeholder has 46 bytes and a payload: an inner ClientHello, padded to a multiple of 32 bytes, and
    // the cipher's tag of 16 bytes. With a placeholder, rustls leaves out the extensions for TLS 1.2.
    for (session, added) in [("none", 406), ("resumed", 506), ("early", 506)] {
        for key_share in ["x25519", "x25519mlkem768"] {
            let Some(without) = hello("none", key_share, session, "1.1") else { return };
            assert_eq!(hello("grease", key_share, session, "1.1"), Some(without + added), "{session}");
        }
        assert!(hello("grease", "x25519", session, "3").is_some(), "{session}");
    }
}

#[test]
fn compressed_certificates_take_fewer_bytes_over_tcp_and_quic() {
    let received = |http: &str, compression: &str| {
        let tls = json!({"chain_bytes": 3000, "certificate_compression": compression});
        let changes = json!({"tls": tls, "origins": {"http": http}});
        // This runs in virtual time, without retransmissions, because QUIC counts the bytes of retransmitted
        // handshake packets twice.
        let run = exactly(&with(job(&page(&[root(10)]), &network(2000), &["tls"]), changes))?;
        Some(number(&sessions(run.valid("tls"))[0]["received_bytes"]))
    };
    for http in ["1.1", "3"] {
        let Some(none) = received(http, "none") else { return };
        for compression in ["brotli", "zlib"] {
            let Some(bytes) = received(http, compression) else { return };
            // Names and extensions can be compressed, keys and signatures cannot.
            assert!((bytes + 100..bytes + 1000).contains(&none), "{http}, {compression}: {none} and {bytes}");
        }
    }
}

#[test]
fn a_later_connection_resumes_with_a_session_ticket_unless_origins_send_none() {
    let images: Vec<_> = (0..4).map(|number| image(&format!("http://a.test/{number}"), 500)).collect();
    let page = page(&[&[root(500)][..], &images].concat());
    let resumed = |tls: Value| {
        let changes = json!({"tls": tls, "client": {"keep_alive": false, "connections_per_host": 1}});
        let run = run(&with(job(&page, &network(2000), &["tls"]), changes));
        sessions(run.valid("tls")).iter().map(|session| session["resumed"] == true).collect::<Vec<_>>()
    };
    assert_eq!(resumed(json!({})), [false, true, true, true, true]);
    assert_eq!(resumed(json!({"version": "1.2"})), [false, true, true, true, true]);
    assert_eq!(resumed(json!({"tickets": 0})), [false; 5]);
}

#[test]
fn headers_and_bodies_have_the_pages_sizes_inside_tls_too() {
    let resource = with(root(12_345), json!({"request_header_bytes": 431, "response_header_bytes": 677}));
    for changes in [json!({}), json!({"tls": {"version": "1.2"}}), json!({"origins": {"http": "1.0"}})] {
        let job = job(&page(std::slice::from_ref(&resource)), &network(2000), &["tls"]);
        let run = run(&with(job, changes.clone()));
        let request = &run.valid("tls")["requests"][0];
        assert_eq!((&request["header_bytes"], &request["body_bytes"]), (&json!(677), &json!(12_345)));
        // Origins and clients offer only the job's HTTP version, so ALPN shows the version that the load
        // used.
        let version = changes["origins"]["http"].as_str().unwrap_or("1.1");
        assert_eq!(sessions(run.load("tls"))[0]["alpn"], format!("http/{version}"));
    }
}

#[test]
fn the_certificate_chain_has_the_size_of_the_job() {
    let received = |chain: u64| {
        let changes = json!({"tls": {"chain_bytes": chain}});
        let run = run(&with(job(&page(&[root(10)]), &network(2000), &["tls"]), changes));
        number(&sessions(run.valid("tls"))[0]["received_bytes"])
    };
    assert_eq!(received(6000) - received(3000), 3000);
}

#[test]
fn hosts_of_every_kind_have_a_valid_certificate() {
    let urls = [
        "https://b.test/1",
        "http://b.test:8443/2",
        "https://a_b.test/3",
        "http://192.0.2.7/4",
        "https://[2001:db8::1]/5",
    ];
    let images: Vec<_> = urls.iter().map(|url| image(url, 700)).collect();
    let page = page(&[&[root(500)][..], &images].concat());
    for load in run(&job(&page, &network(2000), &["tls", "tls-cold", "tls-warm"])).of_type("load") {
        assert_eq!(load["valid"], true, "{:#}", load["invalid"]);
        assert_eq!(list(&load["requests"]).len(), 6);
    }
}

#[test]
fn a_connection_in_the_clear_has_no_session_and_one_over_tls_has_its_parameters() {
    let run = run(&job(&page(&[root(10)]), &network(2000), &["tcp", "tls"]));
    assert_eq!(sessions(run.valid("tcp")), [&Value::Null]);
    let connection = &run.valid("tls")["connections"][0];
    assert_eq!(connection["tls"]["alpn"], "http/1.1");
    assert!(number(&connection["tls"]["secured_ns"]) > number(&connection["connected_ns"]));
    assert!(number(&connection["client"]["bytes_received"]) > number(&connection["tls"]["received_bytes"]));
}

#[test]
fn the_same_job_over_tls_gives_the_same_bytes() {
    let images: Vec<_> =
        (0..9).map(|number| image(&format!("http://h{}.test/{number}", number % 3), 900)).collect();
    let page = page(&[&[root(5000)][..], &images].concat());
    let job = job(&page, &network(40_000), &["tls", "tls-cold", "tls-warm"]).to_string();
    let Some(first) = in_virtual_time() else { return };
    // The first job consumes random numbers, so the second job draws other numbers than when it runs alone.
    let both = written(first, &format!("{}{job}", small_job(&json!({}))));
    let alone = written(in_virtual_time().expect("it was there a moment ago"), &job);
    assert!(both.ends_with(&alone), "what TLS draws at random shows in the records");
}

#[test]
fn a_downloader_that_follows_references_does_so_over_tls() {
    if !Path::new("/usr/bin/wget2").exists() {
        eprintln!("not tested: there is no wget2 on this machine (apt install wget2)");
        return;
    }
    let options = "--page-requisites --span-hosts --tries=1 --robots=off --no-hsts --no-ocsp --http2=off \
        --no-tcp-fastopen --output-document=/dev/null https://a.test:80/";
    let words: Vec<_> = ["wget2"].into_iter().chain(options.split_whitespace()).collect();
    let page = page(&[root(5000), image("http://b.test/1", 20_000), image("https://a.test/2", 3000)]);
    let changes =
        json!({"client": {"kind": "command", "command": words}, "origins": {"bodies": "synthetic"}});
    let Some(run) = exactly(&with(job(&page, &network(100_000), &["tls", "tls-warm"]), changes)) else {
        return;
    };
    let [without, fast] = ["tls", "tls-warm"].map(|arm| run.valid(arm));
    for load in [without, fast] {
        let asked: BTreeSet<u64> =
            list(&load["requests"]).iter().map(|one| number(&one["resource"])).collect();
        assert_eq!(asked, (0..3).collect(), "{run}");
        // wget2 2.2 requests robots.txt from each host, even with --robots=off.
        let is_robots = |one: &Value| one.as_str().is_some_and(|url| url.ends_with("/robots.txt"));
        assert!(list(&load["unmatched"]).iter().all(is_robots), "{run}");
        // The ClientHello of wget2 fits into a SYN.
        assert!(sessions(load).iter().all(|session| number(&session["hello_bytes"]) < 1420), "{run}");
    }
    assert!(plt_ms(without) - plt_ms(fast) > 190.0, "a round trip for each handshake after another: {run}");
}
