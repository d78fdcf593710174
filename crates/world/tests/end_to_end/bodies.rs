//! Tests of the response bodies that origins send: generated or recorded, small or large.

use serde_json::{Value, json};

use crate::support::{Temporary, image, job, list, network, page, request, root, run, with};

#[test]
fn recorded_bodies_come_from_their_place_in_the_bodies_file() {
    let bodies = Temporary::file(vec![b'x'; 5000]);
    let first = with(root(3000), json!({"body_offset": 0}));
    let last = with(image("http://a.test/i", 2000), json!({"body_offset": 3000}));
    let empty = with(image("http://a.test/e", 0), json!({"body_offset": 5000}));
    let generated = image("http://a.test/g", 70_000);
    let origins = json!({"origins": {"bodies_file": bodies.0}});
    let good = run(&with(
        job(&page(&[first.clone(), last, empty, generated]), &network(1000), &["tcp"]),
        origins.clone(),
    ));
    let beyond = with(image("http://a.test/i", 2001), json!({"body_offset": 3000}));
    let short = run(&with(job(&page(&[first, beyond]), &network(1000), &["tcp"]), origins));
    assert_eq!(request(good.valid("tcp"), 1)["body_bytes"], 2000);
    let error = short.only("error");
    assert_eq!((&error["fault"], short.code), (&json!("input"), Some(2)));
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("page.resources[1].body_offset")),
        "{error}"
    );
}

#[test]
fn recorded_responses_have_their_headers_and_schemes_and_the_nearest_query() {
    // Both resources have the same recorded response. The query of the second URL changes from load to load.
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/x-own\r\nX-Own: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let file = Temporary::file([head, "hello"].concat());
    let recorded = json!({"body_offset": head.len(), "head_offset": 0});
    let image = with(image("https://b.test/x?a=1&_=1", 5), recorded.clone());
    let page = page(&[with(root(5), recorded), image]);
    let command = "curl -s http://a.test/ https://b.test/x?a=1\\&_=999 https://b.test/gone https://a.test/y \
        -D heads -w '%{http_code} ' > all; tr -d '\\r' < heads > plain; grep -q '^x-own: 1' plain && \
        grep -q '^content-type: text/x-own' plain && ! grep -qi transfer-encoding plain && \
        grep -q '^hello200 hello200 not part' all";
    let changes = json!({
        "client": {"kind": "command", "command": ["sh", "-c", command]},
        "origins": {"bodies": "recorded", "bodies_file": file.0},
        "tls": {"security": "recorded"},
    });
    let run = run(&with(job(&page, &network(1000), &["tls"]), changes));
    let load = run.valid("tls");
    assert_eq!(list(&load["unmatched"]), ["GET https://b.test/gone", "GET https://a.test/y"], "{run}");
    assert_eq!(request(load, 0)["url"], Value::Null, "{run}");
    assert_eq!(request(load, 1)["url"], "https://b.test/x?a=1&_=999", "{run}");
    let tls: Vec<_> = list(&load["connections"]).iter().map(|one| one["tls"].is_object()).collect();
    assert_eq!(tls, [false, true, true], "{run}");
}

#[test]
fn the_loader_speaks_tls_where_urls_say_so() {
    let page = page(&[root(100), image("https://b.test/i", 100)]);
    let run = run(&with(job(&page, &network(1000), &["tls"]), json!({"tls": {"security": "recorded"}})));
    let connections = list(&run.valid("tls")["connections"]);
    let tls: Vec<_> = connections.iter().map(|one| one["tls"].is_object()).collect();
    assert_eq!(tls, [false, true], "{run}");
}

#[test]
fn synthetic_bodies_have_the_sizes_of_the_page() {
    let sheet =
        json!({"url": "http://b.test/s.css?q={1}", "type": "stylesheet", "body_bytes": 300, "initiator": 0});
    let font = json!({"url": "http://c.test/f", "type": "font", "body_bytes": 1234, "initiator": 1});
    let resources = [root(20_000), sheet, font, image("http://b.test/i", 43)];
    let synthetic = json!({"origins": {"bodies": "synthetic"}});
    let run = run(&with(job(&page(&resources), &network(1000), &["tcp", "warm"]), synthetic));
    for id in ["tcp", "warm"] {
        assert_eq!(request(run.valid(id), 2)["body_bytes"], 1234);
    }
}

#[test]
fn a_bodies_file_that_is_not_there_is_named() {
    let origins = json!({"origins": {"bodies_file": "/nowhere/bodies"}});
    let run = run(&with(job(&page(&[root(10)]), &network(0), &["tcp"]), origins));
    let error = run.only("error");
    assert_eq!((&error["fault"], run.code), (&json!("input"), Some(2)));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("/nowhere/bodies")), "{error}");
}

#[test]
fn ten_megabytes_cross_a_link_without_a_rate() {
    let run = run(&job(&page(&[root(10_000_000)]), &network(2000), &["tcp", "warm"]));
    for id in ["tcp", "warm"] {
        assert_eq!(request(run.valid(id), 0)["body_bytes"], 10_000_000);
    }
}
