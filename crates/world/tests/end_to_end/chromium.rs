//! Tests of Chromium as a client: it requests exactly the page's resources, uses Fast Open, and starts each
//! load in a new, empty browser context.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{
    PROGRAM, Run, Temporary, image, job, list, network, number, page, plt_ms, request, root, run,
    run_command, with, with_syn_data,
};
use crate::virtual_time::exactly;

/// Returns true if Chromium is installed; otherwise prints that the test is skipped.
pub(crate) fn browser() -> bool {
    let there =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser"].iter().any(|path| Path::new(path).exists());
    if !there {
        eprintln!("not tested: chromium is not installed on this machine (apt install chromium)");
    }
    there
}

fn resource(url: &str, kind: &str, initiator: usize, more: Value) -> Value {
    let plain =
        json!({"url": url, "type": kind, "body_bytes": 2000, "initiator": initiator, "mime": "image/gif"});
    with(plain, more)
}

/// Returns a page with resources of each type on three hosts, one of which is on the HSTS preload list.
fn site() -> Value {
    let redirect = json!({"status": 301, "redirect_to": "/elsewhere"});
    let same = "http://en.wikipedia.org/same";
    page(&[
        with(root(100), redirect.clone()),
        with(root(30_000), json!({"url": "http://en.wikipedia.org/", "initiator": 0})),
        resource("http://b.test/s.css", "stylesheet", 1, json!({"initiator_at_bytes": 5000})),
        resource("http://b.test/more.css?{1}", "stylesheet", 2, json!({})),
        resource("http://b.test/i?a=1&b='2'", "image", 2, json!({"processing_us": 3000})),
        resource("http://en.wikipedia.org/f", "font", 3, json!({})),
        resource("http://b.test/s.js", "script", 1, json!({"processing_us": 2000})),
        resource("http://en.wikipedia.org/x", "xhr", 6, json!({"processing_us": 50_000})),
        resource("http://b.test/post", "xhr", 6, json!({"method": "POST", "request_body_bytes": 300})),
        resource("http://b.test/tiny.js", "script", 6, json!({"body_bytes": 3})),
        resource("http://a.test/i", "image", 9, json!({})),
        resource("http://a.test/frame", "document", 1, json!({})),
        resource("http://a.test/in-frame", "image", 11, json!({})),
        resource("http://a.test/moved", "other", 1, redirect),
        resource("http://b.test/target", "image", 13, json!({})),
        resource(same, "image", 1, json!({})),
        resource(same, "image", 1, json!({})),
        resource("http://b.test/none", "xhr", 1, json!({"status": 204, "body_bytes": 0})),
        resource("http://b.test/gone", "image", 1, json!({"status": 404})),
        resource("http://b.test/beacon", "image", 6, json!({"phase": "async", "server_think_us": 200_000})),
        resource("http://b.test/leave", "other", 6, json!({"method": "OPTIONS", "body_bytes": 0})),
        resource("http://b.test/leave", "xhr", 20, json!({"method": "PUT", "request_body_bytes": 10})),
        resource("http://b.test/film", "media", 1, json!({"mime": "video/mp4", "body_bytes": 70_000})),
    ])
}

pub(crate) fn in_chromium(job: Value) -> Value {
    with(job, json!({"client": {"kind": "chromium"}, "origins": {"bodies": "synthetic"}}))
}

/// Returns the numbers of the resources whose requests have a complete response.
fn answered(load: &Value) -> Vec<u64> {
    list(&load["requests"])
        .iter()
        .filter(|one| !one["end_ns"].is_null())
        .map(|one| number(&one["resource"]))
        .collect()
}

#[test]
fn a_browser_requests_exactly_the_pages_resources_every_time() {
    if !browser() {
        return;
    }
    let site = site();
    let run = run(&in_chromium(job(&site, &network(20_000), &["tcp", "cold", "warm"])));
    let all: Vec<u64> = (0..list(&site["resources"]).len() as u64).collect();
    for id in ["tcp", "cold", "warm"] {
        let load = run.valid(id);
        assert_eq!(answered(load), all, "{id}");
        assert_eq!(load["unknown_requests"], 0, "{id}: {run}");
    }
    let gaps = &run.only("world")["fidelity_gaps"];
    assert_eq!(gaps, &json!({"left_out": [], "relocated": [10], "early": []}));
    let counts = ["tcp", "cold", "warm"].map(|id| with_syn_data(run.valid(id), "client"));
    assert_eq!(counts[0], 0, "{run}");
    assert!(counts[2] > 3, "{run}");
}

#[test]
fn a_film_has_what_was_shown_from_the_start_to_the_end() {
    if !browser() {
        return;
    }
    let late = with(image("http://a.test/1", 2000), json!({"server_think_us": 500_000}));
    let page = page(&[root(3000), late]);
    let film = json!({"client": {"kind": "chromium", "filmstrip": true}, "origins": {"bodies": "synthetic"}});
    let run = run(&with(job(&page, &network(20_000), &["tcp"]), film));
    let load = run.valid("tcp");
    let times: Vec<u64> = list(&load["browser"]["frames"]).iter().map(|one| number(&one["at_ns"])).collect();
    // On a busy machine, the browser may draw only the finished page, so one frame is enough.
    assert!(!times.is_empty() && times.is_sorted(), "{times:?}");
    let end_ns = number(&load["plt_ns"]) + 2_500_000_000;
    assert!(times.iter().all(|at| *at < end_ns), "{times:?}");
    let is_jpeg = |one: &Value| one["jpeg"].as_str().is_some_and(|text| text.starts_with("/9j/"));
    assert!(list(&load["browser"]["frames"]).iter().all(is_jpeg));
}

/// Returns the number of request bytes that the origins' kernel received. Over TLS, the number would also
/// include the handshakes.
fn request_bytes(load: &Value) -> u64 {
    let of_origin = list(&load["connections"]).iter().map(|connection| &connection["origin"]);
    of_origin.filter(|info| !info.is_null()).map(|info| number(&info["bytes_received"])).sum()
}

#[test]
fn requests_have_the_recorded_size_if_asked_and_need_no_preflight_for_it() {
    if !browser() {
        return;
    }
    requests_have_the_recorded_size([("a.test", "a.test"), ("b.test", "b.test")], [340, 480]);
    // Browsers treat addresses of the local machine as secure, so requests to these also have `Sec-Fetch-*`
    // headers.
    requests_have_the_recorded_size([("a.test", "127.0.0.1:8080"), ("b.test", "localhost")], [700, 800]);
}

/// Loads [`site`] with requests of recorded sizes, and checks these sizes. `hosts` pairs each host of the
/// page with its replacement. `less` is a size below that of the browser's own header section, and `about` a
/// size near it, both in bytes.
fn requests_have_the_recorded_size(hosts: [(&str, &str); 2], [less, about]: [u64; 2]) {
    // Sizes of header sections: below the browser's own, near it, above it, and above the size of one cookie.
    let sizes = [less, about, 900, 6000];
    let mut text = site().to_string();
    for (name, other) in hosts {
        text = text.replace(&format!("//{name}/"), &format!("//{other}/"));
    }
    let mut site: Value = serde_json::from_str(&text).expect("what was JSON");
    let resources = site["resources"].as_array_mut().expect("a page has resources");
    for (number, resource) in resources.iter_mut().enumerate() {
        resource["request_header_bytes"] = json!(sizes[number % sizes.len()]);
    }
    // The browser itself makes preflight requests, so their size cannot be set.
    resources.retain(|resource| !resource["url"].as_str().is_some_and(|url| url.ends_with("/leave")));
    let recorded = |name: &str| resources.iter().filter_map(|one| one[name].as_u64()).sum::<u64>();
    let asked = recorded("request_header_bytes") + recorded("request_body_bytes");
    let job = in_chromium(job(&site, &network(20_000), &["tcp", "warm", "tls"]));
    let job = with(job, json!({"client": {"kind": "chromium", "request_heads": "recorded"}}));
    let run = run(&job);
    let all: Vec<u64> = (0..list(&site["resources"]).len() as u64).collect();
    for id in ["tcp", "warm", "tls"] {
        let load = run.valid(id);
        assert_eq!((answered(load), &load["unknown_requests"]), (all.clone(), &json!(0)), "{id}: {run}");
    }
    assert_eq!([request_bytes(run.valid("tcp")), request_bytes(run.valid("warm"))], [asked, asked], "{run}");
}

#[test]
fn a_load_waits_for_requests_of_timers_long_after_the_load_event() {
    if !browser() {
        return;
    }
    let late = json!({"phase": "async", "processing_us": 2_500_000, "mime": "image/gif"});
    let page = page(&[root(20_000), with(image("http://a.test/late", 43), late)]);
    let run = run(&in_chromium(job(&page, &network(20_000), &["tcp"])));
    assert_eq!(answered(run.valid("tcp")), [0, 1], "{run}");
}

#[test]
fn a_load_counts_whose_preflight_is_recorded_without_the_request_it_is_of() {
    if !browser() {
        return;
    }
    let alone = json!({"method": "OPTIONS", "type": "xhr", "mime": "text/html", "phase": "async"});
    let page = page(&[root(20_000), with(image("http://b.test/data", 0), alone)]);
    let run = run(&in_chromium(job(&page, &network(20_000), &["tcp"])));
    assert_eq!(answered(run.valid("tcp")), [0, 1], "{run}");
}

#[test]
fn loader_and_browser_wait_for_what_an_answer_to_a_script_reveals_in_time() {
    if !browser() {
        return;
    }
    let plts_ms = |answer_after_ms: u64| {
        let think = |ms: u64| json!({"server_think_us": ms * 1000, "mime": "image/gif"});
        let asked_by_script = json!({"type": "xhr", "phase": "async"});
        let page = page(&[
            root(20_000),
            with(image("http://b.test/waited-for", 43), think(600)),
            with(with(image("http://c.test/answer", 43), think(answer_after_ms)), asked_by_script),
            with(with(image("http://c.test/named", 43), think(900)), json!({"initiator": 2})),
        ]);
        let job = job(&page, &network(50_000), &["tcp"]);
        Some([exactly(&job)?, exactly(&in_chromium(job))?].map(|run| plt_ms(run.valid("tcp"))))
    };
    // The RTT is 50 ms: three round trips for the root, two for the first response of each other host, and
    // one for the resource that the response of c.test names. If that response takes 1000 ms, it comes after
    // the load event.
    for (answer_after_ms, expected_ms) in [(300, 1500.0), (1000, 850.0)] {
        let Some(found) = plts_ms(answer_after_ms) else { return };
        for found_ms in found {
            assert!((found_ms - expected_ms).abs() < 10.0, "{found_ms} is not about {expected_ms}");
        }
    }
}

#[test]
fn a_browser_loads_the_same_page_over_tls_and_trusts_the_worlds_authority() {
    if !browser() {
        return;
    }
    let site = site();
    let run = run(&in_chromium(job(&site, &network(20_000), &["tls", "tls-warm", "tcp"])));
    let all: Vec<u64> = (0..list(&site["resources"]).len() as u64).collect();
    for id in ["tls", "tls-warm", "tcp"] {
        let load = run.valid(id);
        assert_eq!((answered(load), &load["unknown_requests"]), (all.clone(), &json!(0)), "{id}: {run}");
        let sessions = list(&load["connections"]).iter().map(|connection| &connection["tls"]);
        let secured: Vec<_> = sessions.filter(|session| !session.is_null()).collect();
        assert_eq!(secured.is_empty(), id == "tcp", "{run}");
        for session in secured {
            assert_eq!((&session["version"], &session["alpn"]), (&json!("1.3"), &json!("http/1.1")));
            assert!(number(&session["hello_bytes"]) > 200, "{session}");
        }
    }
}

#[test]
fn a_browser_needs_its_round_trips_and_reports_its_own_times() {
    if !browser() {
        return;
    }
    let late = with(image("http://a.test/late", 43), json!({"processing_us": 300_000, "mime": "image/gif"}));
    let page = with(page(&[root(20_000), late]), json!({"load_event_processing_us": 70_000}));
    let run = run(&in_chromium(job(&page, &network(100_000), &["tcp", "warm"])));
    for (id, round_trips) in [("tcp", 3.0), ("warm", 2.0)] {
        let load = run.valid(id);
        let browser = &load["browser"];
        assert!(browser["product"].as_str().is_some_and(|text| text.contains("Chrom")), "{browser}");
        let event_ms = number(&browser["load_event_ns"]) as f64 / 1e6;
        assert!(event_ms >= 300.0 + 100.0 * round_trips, "the load event waits for timers: {run}");
        assert!((plt_ms(load) - event_ms - 70.0).abs() < 0.01, "{run}");
        let content = number(&browser["dom_content_loaded_ns"]);
        assert!(content < number(&request(load, 1)["queued_ns"]) && content > 100_000_000, "{run}");
        let [sent, first, end] =
            ["sent_ns", "first_byte_ns", "end_ns"].map(|key| number(&request(load, 0)[key]));
        assert!(first >= sent + 100_000_000 && end >= first && end < content, "{run}");
    }
}

#[test]
fn in_virtual_time_a_request_on_an_open_connection_leaves_before_the_syns_for_later_ones() {
    if !browser() {
        return;
    }
    let pictures = (0..4).map(|number| image(&format!("http://a.test/{number}"), 5000));
    let page = page(&[root(20_000)].into_iter().chain(pictures).collect::<Vec<_>>());
    let job = in_chromium(job(&page, &network(50_000), &["tcp"]));
    let client = json!({"kind": "chromium", "request_heads": "recorded"});
    let Some(run) = exactly(&with(job, json!({"client": client}))) else {
        return;
    };
    let load = run.valid("tcp");
    let next = request(load, 1);
    assert_eq!(next["connection"], request(load, 0)["connection"], "{run}");
    let opened: Vec<_> =
        list(&load["connections"])[1..].iter().map(|one| number(&one["opened_ns"])).collect();
    assert!(!opened.is_empty(), "{run}");
    assert!(opened.iter().all(|syn_ns| number(&next["sent_ns"]) < *syn_ns), "{run}");
}

#[test]
fn a_recorded_page_is_asked_for_at_addresses_localhost_and_several_ports_and_by_beacons() {
    if !browser() {
        return;
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Security-Policy: img-src *\r\n\r\n";
    let text = "<link rel=icon href=data:,><img src=http://127.0.0.1:8080/i><img src=https://[::1]:8443/i>\
        <img src=https://localhost/i><img src=https://en.wikipedia.org/i><script>
        fetch('https://192.0.2.1/x?_=2').catch(() => 0); fetch('http://nowhere.test/').catch(() => 0);
        fetch('/gone'); navigator.sendBeacon('https://192.0.2.1/seen?_=2');</script>
        <script src=https://localhost/blocked></script>
        <img src=https://localhost/2x srcset='https://localhost/1x 1x, https://localhost/2x 2x'>";
    let blocked = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Content-Type-Options: nosniff\r\n\r\n";
    let file = Temporary::file([head, text, blocked].concat());
    let root = json!({"url": "http://192.0.2.1/", "body_offset": head.len(), "head_offset": 0});
    let end = head.len() + text.len();
    let blocked = json!({"body_bytes": 0, "body_offset": end + blocked.len(), "head_offset": end});
    let image = |url: &str| image(url, 2000);
    let recorded = page(&[
        with(crate::support::root(text.len() as u64), root),
        image("http://127.0.0.1:8080/i"),
        image("https://[::1]:8443/i"),
        image("https://localhost/i"),
        image("https://en.wikipedia.org/i"),
        with(image("https://192.0.2.1/x?_=1"), json!({"type": "xhr"})),
        image("https://192.0.2.1/seen?_=1"),
        with(image("https://localhost/blocked"), blocked),
        with(image("https://localhost/2x"), json!({"alternatives": ["https://localhost/1x"]})),
    ]);
    let asked = json!({
        "client": {"kind": "chromium"},
        "origins": {"bodies": "recorded", "bodies_file": file.0},
        "tls": {"security": "recorded"},
    });
    let run = run(&with(job(&recorded, &network(20_000), &["tls", "tls-warm"]), asked));
    for id in ["tls", "tls-warm"] {
        let load = run.valid(id);
        for number in 0..9 {
            assert_eq!(request(load, number)["status"], 200, "{number}: {run}");
        }
        assert_eq!(request(load, 5)["url"], "https://192.0.2.1/x?_=2", "{run}");
        assert_eq!(request(load, 6)["url"], "https://192.0.2.1/seen?_=2", "a beacon: {run}");
        assert_eq!(request(load, 8)["url"], "https://localhost/1x", "another choice of a picture: {run}");
        // The browser withholds this response from the page (`nosniff`), and then reports only the time when
        // it ended.
        let kept = request(load, 7);
        assert_eq!(kept["first_byte_ns"], kept["end_ns"], "{run}");
        let unmatched = list(&load["unmatched"]);
        assert_eq!(unmatched, ["GET http://192.0.2.1/gone", "GET http://nowhere.test/"], "{run}");
    }
}

#[test]
fn fixed_scripts_see_the_same_clock_and_chance_in_each_load() {
    if !browser() {
        return;
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nDate: Tue, 20 Feb 2018 10:00:00 GMT\r\n\r\n";
    let text = "<link rel=icon href=data:,><script>
        const all = [Date.now(), new Date().getTime(), new Date(0) instanceof Date,
            typeof Date(), Math.random()];
        fetch('/' + all.join('/'));</script>";
    let file = Temporary::file([head, text].concat());
    let root = json!({"body_offset": head.len(), "head_offset": 0});
    let recorded = page(&[with(crate::support::root(text.len() as u64), root)]);
    let asked = json!({
        "client": {"kind": "chromium", "fixed_scripts": true},
        "origins": {"bodies": "recorded", "bodies_file": file.0},
    });
    let run = run(&with(job(&recorded, &network(0), &["tcp", "warm"]), asked));
    let random = 48271.0 / 2_147_483_647.0;
    let expected = format!("GET http://a.test/1519120800000/1519120800000/true/string/{random}");
    for id in ["tcp", "warm"] {
        assert_eq!(list(&run.valid(id)["unmatched"]), [expected.as_str()], "{run}");
    }
}

#[test]
fn a_page_that_hangs_times_out_and_the_next_load_has_a_new_browser() {
    if !browser() {
        return;
    }
    let text = "<script>for(;;);</script>";
    let file = Temporary::file(text);
    let hanging = page(&[with(root(text.len() as u64), json!({"mime": "text/html", "body_offset": 0}))]);
    let asked = json!({"client": {"kind": "chromium"}, "origins": {"bodies_file": file.0},
        "load_timeout_us": 3_000_000});
    let run = run(&with(job(&hanging, &network(0), &["tcp", "warm"]), asked));
    for id in ["tcp", "warm"] {
        let load = run.load(id);
        assert_eq!(load["invalid"][0]["kind"], "incomplete", "{run}");
        let detail = load["invalid"][0]["detail"].as_str().unwrap_or_default();
        assert!(detail.starts_with("no load event within the time limit"), "{detail}");
    }
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn without_a_browser_the_error_says_what_to_install() {
    let asked = in_chromium(job(&page(&[root(100)]), &network(0), &["tcp"])).to_string();
    let run: Run = run_command(Command::new(PROGRAM).env("PATH", "/nowhere"), asked.as_bytes());
    let error = run.only("error");
    assert_eq!((&error["fault"], run.code), (&json!("machine"), Some(3)));
    assert!(error["remedy"].as_str().is_some_and(|text| text.contains("apt install chromium")), "{error}");
}

#[test]
fn a_first_view_of_recorded_bodies_begins_with_an_empty_cache_and_uses_it() {
    if !browser() {
        return;
    }
    let document = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    let html = "<script>fetch('/data').then(one => one.text()).then(() => fetch('/data'))</script>";
    // The response is fresh: its age must not be computed from the recorded `Date`.
    let data = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Tue, 01 Jan 2013 00:00:00 GMT\r\n\r\n";
    let text = "text that is asked for twice";
    let file = Temporary::file([document, html, data, text].concat());
    let second = document.len() + html.len();
    let resources = [
        with(
            root(html.len() as u64),
            json!({"url": "https://a.test/", "body_offset": document.len(), "head_offset": 0}),
        ),
        with(
            image("https://a.test/data", text.len() as u64),
            json!({"type": "xhr", "mime": "text/plain", "fresh_s": 60, "body_offset": second + data.len(),
                "head_offset": second}),
        ),
    ];
    let recorded = json!({"origins": {"bodies": "recorded", "bodies_file": file.0}});
    let loads: Vec<_> = ["none", "resumed"]
        .iter()
        .map(|session| {
            let job = with(in_chromium(job(&page(&resources), &network(20_000), &["tls"])), recorded.clone());
            run(&with(job, json!({"tls": {"security": "recorded", "session": session}})))
        })
        .collect();
    for run in loads {
        let asked = list(&run.valid("tls")["requests"]).iter().filter(|one| one["resource"] == 1);
        let from_cache: Vec<_> = asked.map(|one| !one["cache"].is_null()).collect();
        assert_eq!(from_cache, [false], "{run}");
    }
}

#[test]
fn in_virtual_time_recorded_urls_keep_their_scheme_on_hosts_of_the_preload_list_too() {
    if !browser() {
        return;
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    let file = Temporary::file([head, "<p>."].concat());
    let at = json!({"url": "http://en.wikipedia.org/", "body_offset": head.len(), "head_offset": 0});
    let recorded = json!({
        "origins": {"bodies": "recorded", "bodies_file": file.0},
        "tls": {"security": "recorded"},
    });
    let job = in_chromium(job(&page(&[with(root(4), at)]), &network(20_000), &["tls"]));
    let Some(run) = exactly(&with(job, recorded)) else { return };
    let load = run.valid("tls");
    assert_eq!(
        (request(load, 0)["url"].is_null(), &load["connections"][0]["port"]),
        (true, &json!(80)),
        "{run}"
    );
}
