//! Tests of HTTP/2: one connection to each host carries all requests, origins send urgent responses first,
//! both kernels give evidence, and each run gives the same bytes.

use std::process::Command;

use serde_json::{Value, json};

use crate::chromium::{browser, in_chromium};
use crate::support::{
    image, job, list, network, number, page, plt_ms, rate, request, root, run, with, with_syn_data,
};
use crate::virtual_time::{exactly, in_virtual_time, on_each_engine, written};

const ARMS: [&str; 6] = ["tcp", "cold", "warm", "tls", "tls-cold", "tls-warm"];
/// A key share with which the `ClientHello` fits into a SYN.
const SMALL: &str = "x25519";

/// Returns a page with this number of images of `a.test`, each of `body_bytes`.
fn gallery(images: usize, body_bytes: u64) -> Value {
    let images: Vec<_> =
        (0..images).map(|number| image(&format!("http://a.test/{number}"), body_bytes)).collect();
    page(&[&[root(500)][..], &images].concat())
}

/// Returns a job over HTTP/2, with a `ClientHello` that fits into a SYN.
fn over_http2(page: &Value, network: &Value, names: &[&str]) -> Value {
    with(job(page, network, names), json!({"origins": {"http": "2"}, "tls": {"key_share": SMALL}}))
}

fn times(load: &Value, key: &str) -> Vec<u64> {
    list(&load["requests"]).iter().map(|request| number(&request[key])).collect()
}

#[test]
fn one_connection_a_host_carries_all_requests_with_complete_responses() {
    let post = json!({"url": "http://b.test/post", "type": "xhr", "method": "POST",
        "request_body_bytes": 70_000, "body_bytes": 10, "initiator": 0});
    let head = json!({"url": "http://b.test/head", "type": "other", "method": "HEAD", "body_bytes": 0,
        "initiator": 0});
    let moved = json!({"url": "http://b.test/moved", "type": "image", "status": 302, "redirect_to": "/\u{e4}",
        "body_bytes": 0, "initiator": 0});
    let slow = json!({"url": "http://b.test/slow", "type": "image", "server_think_us": 20_000,
        "server_send_us": 30_000, "body_bytes": 60_000, "initiator": 0});
    let large = image("http://b.test/large", 3_000_000);
    let odd: Vec<_> = ["/?", "//x//y", "/a?b?c=/d", "/%00%20", "/;a=1,2!*'()@:$&+"]
        .iter()
        .map(|target| image(&format!("http://a.test{target}"), 77))
        .collect();
    let page = page(&[&[root(500), post, head, moved, slow, large][..], &odd].concat());
    let run = run(&over_http2(&page, &network(2000), &ARMS));
    for arm in ARMS {
        let load = run.valid(arm);
        assert_eq!(list(&load["requests"]).len(), 11, "{arm}");
        assert_eq!(list(&load["connections"]).len(), 2, "{arm}");
    }
    assert_eq!(run.load("tls")["connections"][0]["tls"]["alpn"], "h2");
}

#[test]
fn resources_that_are_known_at_once_are_requested_at_once_and_fast_open_saves_a_round_trip() {
    let Some(run) = exactly(&over_http2(&gallery(12, 500), &network(100_000), &ARMS)) else { return };
    let round_trips = ARMS.map(|arm| (plt_ms(run.valid(arm)) / 100.0).round() as u64);
    assert_eq!(round_trips, [3, 3, 2, 4, 4, 3]);
    for arm in ARMS {
        let sent = &times(run.load(arm), "sent_ns")[1..];
        assert!(sent.iter().all(|at| at == &sent[0]), "{arm}: {sent:?}");
        assert_eq!(list(&run.load(arm)["connections"])[0]["requests"], 13, "{arm}");
    }
    assert_eq!(with_syn_data(run.load("warm"), "origin"), 1);
}

#[test]
fn no_more_requests_are_in_flight_than_the_origin_allows() {
    let Some(run) = exactly(&over_http2(&gallery(150, 500), &network(100_000), &["tls"])) else { return };
    let sent = &times(run.valid("tls"), "sent_ns")[1..];
    assert_eq!(sent.iter().filter(|at| *at == &sent[0]).count(), 100, "{sent:?}");
}

#[test]
fn an_urgent_response_overtakes_those_requested_before() {
    let script = json!({"url": "http://a.test/late.js", "type": "script", "body_bytes": 20_000,
        "initiator": 1, "initiator_at_bytes": 1000});
    let images = [image("http://a.test/1", 300_000), image("http://a.test/2", 300_000)];
    let page = page(&[&[root(500)][..], &images, &[script]].concat());
    let thin = with(network(40_000), json!({"down": rate(4_000_000)}));
    let Some(run) = exactly(&over_http2(&page, &thin, &["tls"])) else { return };
    let load = run.valid("tls");
    let ended = |resource| number(&request(load, resource)["end_ns"]) / 1_000_000;
    assert!(number(&request(load, 3)["sent_ns"]) >= number(&request(load, 1)["first_byte_ns"]));
    // At 4 Mbit/s, the script takes 40 ms and both images take 1200 ms if nothing else is sent.
    assert!(ended(3) < ended(1) / 2, "script {} ms, images {} and {} ms", ended(3), ended(1), ended(2));
    // Images are sent incrementally, in turns (round-robin), so both end at about the same time.
    assert!(ended(2) - ended(1) < 100, "images {} and {} ms", ended(1), ended(2));
}

#[test]
fn headers_are_compressed_and_their_common_part_is_sent_once() {
    let sizes = json!({"request_header_bytes": 600, "response_header_bytes": 500});
    let pictures: Vec<_> =
        (0..20).map(|number| with(image(&format!("http://a.test/{number}"), 10), sizes.clone())).collect();
    let page = page(&[&[with(root(10), sizes)][..], &pictures].concat());
    let run = run(&over_http2(&page, &network(2000), &["tcp"]));
    let load = run.valid("tcp");
    let heads = times(load, "header_bytes");
    assert!((250..500).contains(&heads[0]), "{heads:?}");
    assert!(heads[2..].iter().all(|bytes| *bytes < 120), "{heads:?}");
    // Header sections take far fewer bytes than over HTTP/1.1, where the header section of each of the 21
    // requests has 600 bytes.
    let uploaded = number(&load["connections"][0]["origin"]["bytes_received"]);
    assert!((600..600 * 21 / 3).contains(&uploaded), "{uploaded}");
}

#[test]
fn without_keep_alive_each_request_has_a_connection() {
    let job =
        with(over_http2(&gallery(4, 500), &network(2000), &ARMS), json!({"client": {"keep_alive": false}}));
    let Some(run) = exactly(&job) else { return };
    for arm in ARMS {
        let load = run.valid(arm);
        assert!(list(&load["connections"]).iter().all(|connection| connection["requests"] == 1), "{load:#}");
    }
}

#[test]
fn the_same_job_over_http2_gives_the_same_bytes() {
    let images: Vec<_> =
        (0..40).map(|number| image(&format!("http://h{}.test/{number}", number % 3), 9000)).collect();
    let page = page(&[&[root(50_000)][..], &images].concat());
    let network = with(network(40_000), json!({"down": rate(4_000_000), "up": rate(256_000)}));
    let job = over_http2(&page, &network, &ARMS).to_string();
    let Some(first) = in_virtual_time() else { return };
    // The first job consumes random numbers, so the second job draws other numbers than when it runs alone.
    let other = over_http2(&gallery(2, 10), &network, &["tls"]);
    let both = written(first, &format!("{other}{job}"));
    let alone = written(in_virtual_time().expect("it was there a moment ago"), &job);
    assert!(both.ends_with(&alone), "the same load took another course");
}

#[test]
fn curl_speaks_it_over_tls() {
    let version = Command::new("curl").arg("--version").output();
    if !version.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("HTTP2")) {
        eprintln!("skipped: there is no curl that knows HTTP/2 (apt-get install curl)");
        return;
    }
    let page = page(&[root(5000), image("http://a.test/1", 20_000), image("http://a.test/2", 3000)]);
    let urls = ["", "1", "2"].map(|path| format!("https://a.test:80/{path}"));
    let words = ["curl", "--silent", "--show-error", "--http2", "--parallel"];
    let words: Vec<&str> = words.into_iter().chain(urls.iter().map(String::as_str)).collect();
    let client = json!({"client": {"kind": "command", "command": words}});
    let job = with(over_http2(&page, &network(20_000), &ARMS[3..]), client);
    for run in on_each_engine(&job) {
        for arm in &ARMS[3..] {
            let load = run.valid(arm);
            assert_eq!(list(&load["requests"]).len(), 3, "{load:#}");
            assert_eq!(request(load, 1)["body_bytes"], 20_000, "{load:#}");
            assert_eq!(list(&load["connections"])[0]["multiplexed"], true, "{load:#}");
        }
    }
}

#[test]
fn origins_of_http2_offer_no_other_version() {
    let words = ["curl", "--silent", "--show-error", "--http1.1", "http://a.test/"];
    let client = json!({"client": {"kind": "command", "command": words}});
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: there is no curl (apt-get install curl)");
        return;
    }
    let run = run(&with(over_http2(&page(&[root(10)]), &network(0), &["tcp"]), client));
    assert_eq!(run.load("tcp")["valid"], false, "{run}");
}

#[test]
fn lost_packets_are_retransmitted_and_every_response_is_complete() {
    let page = page(
        &[&[root(50_000)][..], &[1, 2, 3].map(|n| image(&format!("http://a.test/{n}"), 200_000))].concat(),
    );
    let lossy = json!({"rate_bit_per_s": 4_000_000, "queue_bytes": 256_000, "loss": 0.03});
    let network = |loss: bool| {
        let plain = network(40_000);
        if loss {
            with(plain, json!({"down": lossy, "up": lossy}))
        } else {
            with(plain, json!({"down": rate(4_000_000)}))
        }
    };
    let (Some(run), Some(calm)) = (
        exactly(&over_http2(&page, &network(true), &ARMS)),
        exactly(&over_http2(&page, &network(false), &ARMS)),
    ) else {
        return;
    };
    for arm in ARMS {
        // In a valid load, every response has its status and all its bytes, and the evidence fits the
        // transport in spite of the losses.
        let load = run.valid(arm);
        let connections = list(&load["connections"]);
        assert_eq!(connections.len(), 1, "{arm}: {load:#}");
        let again: u64 =
            ["client", "origin"].iter().map(|end| number(&connections[0][end]["retransmits"])).sum();
        assert!(again > 0, "{arm}: {load:#}");
        let lost = ["down", "up"].map(|way| number(&load["link"][way]["dropped_loss"]));
        assert!(lost.iter().sum::<u64>() > 0, "{arm}: {load:#}");
        assert!(plt_ms(load) > plt_ms(calm.valid(arm)), "{arm}: what is lost costs time");
    }
}

#[test]
fn a_browser_requests_everything_over_one_connection_an_origin() {
    if !browser() {
        return;
    }
    let hosts = ["a.test", "b.test", "c.test"];
    // Stylesheets, because Chromium keeps at most ten images in flight.
    let sheets: Vec<_> = (0..24)
        .map(|number| {
            let sheet = image(&format!("http://{}/{number}", hosts[number % 3]), 6000);
            with(sheet, json!({"type": "stylesheet", "mime": "text/css", "server_think_us": 500_000}))
        })
        .collect();
    let page = page(&[&[root(20_000)][..], &sheets].concat());
    let arms = &ARMS[3..];
    let job = in_chromium(job(&page, &network(100_000), arms));
    let job = with(job, json!({"origins": {"http": "2", "bodies": "synthetic"}}));
    let run = run(&job);
    for arm in arms {
        let load = run.valid(arm);
        assert_eq!(
            (list(&load["requests"]).len(), &load["unknown_requests"]),
            (25, &json!(0)),
            "{arm}: {run}"
        );
        let used: Vec<_> = list(&load["connections"])
            .iter()
            .filter(|connection| number(&connection["requests"]) > 0)
            .collect();
        // Chromium may open several connections to a server whose HTTP version it does not know, but sends
        // requests on only one of them.
        assert_eq!(used.len(), 3, "{arm}: {load:#}");
        let mut served: Vec<_> = used.iter().map(|one| one["host"].as_str().expect("it is text")).collect();
        served.sort_unstable();
        assert_eq!(served, hosts, "{arm}");
        for connection in used {
            let session = &connection["tls"];
            assert_eq!(
                (&session["alpn"], &session["version"]),
                (&json!("h2"), &json!("1.3")),
                "{connection:#}"
            );
            assert_eq!(connection["multiplexed"], true, "{connection:#}");
            let with_data = |end: &str| connection[end]["syn_data_acked"] == true;
            assert_eq!([with_data("client"), with_data("origin")], [*arm == "tls-warm"; 2], "{connection:#}");
        }
        // All eight requests to a host are in flight at once: the last is sent before the first response
        // ends.
        let of_host = |host: usize| (0..8).map(move |number| request(load, (1 + host + 3 * number) as u64));
        for (host, name) in hosts.iter().enumerate() {
            let last_sent = of_host(host).map(|one| number(&one["sent_ns"])).max().expect("there are eight");
            let first_end = of_host(host).map(|one| number(&one["end_ns"])).min().expect("there are eight");
            assert!(last_sent < first_end, "{arm}, {name}: {load:#}");
        }
    }
}

#[test]
fn connections_that_a_browser_gives_up_when_it_learns_the_version_leave_the_load_valid() {
    if !browser() {
        return;
    }
    // The browser opens the first connection to b.test for the stylesheet. The TLS handshake takes two round
    // trips. After one and a half, the browser finds the images and opens more connections to b.test. It
    // closes these in SYN_SENT once ALPN on the first connection has selected HTTP/2.
    let root = with(root(40_000), json!({"server_send_us": 400_000}));
    let style = json!({"url": "http://b.test/s.css", "type": "stylesheet", "body_bytes": 2000, "initiator": 0,
        "mime": "text/css", "initiator_at_bytes": 1000});
    let images = (0..8).map(|number| {
        let picture = image(&format!("http://b.test/{number}"), 3000);
        with(picture, json!({"mime": "image/gif", "initiator_at_bytes": 16_000}))
    });
    let page = page(&[root, style].into_iter().chain(images).collect::<Vec<_>>());
    let arms = ["tls", "tls-warm"];
    let job = in_chromium(job(&page, &network(100_000), &arms));
    let job = with(job, json!({"origins": {"http": "2", "bodies": "synthetic"}}));
    let Some(run) = exactly(&job) else { return };
    for arm in arms {
        let given_up = &run.valid(arm)["given_up"];
        assert!(number(&given_up["connections"]) > 0, "{arm}: {given_up}");
        let taken = if arm == "tls" { 0 } else { number(&given_up["connections"]) };
        assert_eq!(number(&given_up["syn_data"]), taken, "{arm}");
    }
}

#[test]
fn each_host_of_a_page_speaks_its_own_version() {
    let images: Vec<_> = (0..12)
        .map(|number| image(&format!("http://{}.test/{number}", ["old", "new"][number % 2]), 700))
        .collect();
    let page = page(&[&[root(500)][..], &images].concat());
    let job = with(
        job(&page, &network(100_000), &ARMS),
        json!({"origins": {"http2_hosts": ["new.test"]}, "tls": {"key_share": SMALL}}),
    );
    let Some(run) = exactly(&job) else { return };
    for arm in ARMS {
        let load = run.valid(arm);
        assert_eq!(list(&load["requests"]).len(), 13, "{arm}");
        let connections = list(&load["connections"]);
        for (host, count, each, multiplexed) in
            [("a.test", 1, 1, false), ("old.test", 6, 1, false), ("new.test", 1, 6, true)]
        {
            let of_host: Vec<_> = connections.iter().filter(|one| one["host"] == host).collect();
            assert_eq!(of_host.len(), count, "{arm}: {load:#}");
            for one in of_host {
                assert_eq!(
                    (&one["requests"], &one["multiplexed"]),
                    (&json!(each), &json!(multiplexed)),
                    "{one:#}"
                );
                if arm.starts_with("tls") {
                    assert_eq!(one["tls"]["alpn"], if multiplexed { "h2" } else { "http/1.1" }, "{one:#}");
                }
            }
        }
    }
}
