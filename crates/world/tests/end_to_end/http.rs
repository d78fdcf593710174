//! Tests of HTTP on the wire: exact sizes in bytes, versions, methods and status codes.

use serde_json::{Value, json};

use crate::support::{arms, grown, image, job, list, network, number, page, request, root, run, with};

/// Loads a page with one resource, and returns the record of the load. Panics if the load is invalid.
fn load_of(resource: Value, changes: Value) -> Value {
    let run = run(&with(job(&page(&[resource]), &network(2000), &["tcp"]), changes));
    run.valid("tcp").clone()
}

/// Returns the sizes in bytes of the request and the response on the only connection. The receivers count
/// them, because a sender's count includes retransmissions.
fn sent_and_received(load: &Value) -> (u64, u64) {
    let [connection] = list(&load["connections"]) else { panic!("one connection: {load:#}") };
    let [client, origin] = [&connection["client"], &connection["origin"]];
    let request = &load["requests"][0];
    let answer = number(&request["header_bytes"]) + number(&request["body_bytes"]);
    // Linux counts a FIN as one received byte.
    assert!(number(&client["bytes_received"]) - answer <= 1, "{load:#}");
    assert!(number(&client["bytes_sent"]) >= number(&origin["bytes_received"]), "{connection:#}");
    (number(&origin["bytes_received"]), answer)
}

#[test]
fn headers_and_bodies_have_the_pages_sizes_to_the_byte() {
    let sizes = json!({"request_header_bytes": 431, "response_header_bytes": 677});
    let load = load_of(with(root(12_345), sizes), json!({}));
    assert_eq!(sent_and_received(&load), (431, 677 + 12_345));
    assert_eq!(
        (&load["requests"][0]["header_bytes"], &load["requests"][0]["body_bytes"]),
        (&json!(677), &json!(12_345))
    );
}

#[test]
fn headers_of_http_1_0_have_the_pages_sizes_too() {
    let sizes = json!({"request_header_bytes": 431, "response_header_bytes": 677});
    for keep_alive in [true, false] {
        let settings = json!({"origins": {"http": "1.0", "keep_alive": keep_alive},
            "client": {"keep_alive": keep_alive}});
        let load = load_of(with(root(1000), sizes.clone()), settings);
        assert_eq!(sent_and_received(&load), (431, 677 + 1000), "keep-alive {keep_alive}");
    }
}

#[test]
fn a_header_that_cannot_be_as_short_as_the_pages_is_as_short_as_http_allows() {
    let load =
        load_of(with(root(10), json!({"request_header_bytes": 0, "response_header_bytes": 0})), json!({}));
    let (sent, received) = sent_and_received(&load);
    assert!((30..200).contains(&sent) && (30..200).contains(&received), "{sent} and {received} bytes");
}

#[test]
fn headers_may_be_as_long_as_the_contract_allows() {
    let longest = 256 * 1024;
    let sizes = json!({"request_header_bytes": longest, "response_header_bytes": longest});
    assert_eq!(sent_and_received(&load_of(with(root(1), sizes), json!({}))), (longest, longest + 1));
}

#[test]
fn the_complete_body_of_a_request_is_sent() {
    let post = json!({"method": "POST", "request_body_bytes": 70_000, "response_header_bytes": 250});
    assert_eq!(sent_and_received(&load_of(with(root(10), post), json!({}))), (70_400, 260));
    let empty = json!({"method": "POST", "response_header_bytes": 250});
    assert_eq!(sent_and_received(&load_of(with(root(10), empty), json!({}))), (400, 260));
}

#[test]
fn responses_without_a_body_have_headers_of_exact_sizes() {
    for changes in [
        json!({"method": "HEAD"}),
        json!({"status": 204}),
        json!({"status": 304}),
        json!({"status": 200}),
        json!({"status": 302, "redirect_to": "http://elsewhere.test/"}),
        json!({"method": "HEAD", "status": 404}),
        json!({"method": "DELETE", "status": 204}),
        json!({"method": "OPTIONS"}),
    ] {
        let load = load_of(with(root(0), changes.clone()), json!({}));
        assert_eq!(sent_and_received(&load), (400, 300), "{changes}");
    }
}

#[test]
fn status_codes_are_the_pages_also_those_of_errors() {
    for status in [200, 203, 404, 410, 500, 503, 599] {
        let load = load_of(with(root(500), json!({"status": status})), json!({}));
        assert_eq!(load["requests"][0]["status"], status);
        assert_eq!(sent_and_received(&load), (400, 800), "{status}");
    }
}

#[test]
fn a_redirect_is_followed_to_the_resource_that_it_leads_to() {
    let moved = with(root(0), json!({"status": 301, "redirect_to": "http://b.test/home"}));
    let home = json!({"url": "http://b.test/home", "type": "document", "body_bytes": 900, "initiator": 0});
    let picture = json!({"url": "http://b.test/p", "type": "image", "body_bytes": 50, "initiator": 1});
    let run = run(&job(&page(&[moved, home, picture]), &network(2000), &["tcp"]));
    let load = run.valid("tcp");
    let ended = |resource| number(&request(load, resource)["end_ns"]);
    assert_eq!(request(load, 0)["status"], 301);
    assert!(number(&request(load, 1)["queued_ns"]) >= ended(0));
    assert!(number(&request(load, 2)["queued_ns"]) >= ended(1));
}

#[test]
fn a_url_that_occurs_twice_has_the_response_of_each_resource_in_turn() {
    let mut twins: Vec<_> = (0..8).map(|number| image("http://a.test/same", 1000 + number)).collect();
    twins[5] = with(twins[5].clone(), json!({"status": 404}));
    let run = run(&job(&page(&[&[root(10)][..], &twins].concat()), &network(2000), &["tcp", "warm"]));
    for id in ["tcp", "warm"] {
        let load = run.valid(id);
        assert_eq!(request(load, 6)["status"], 404);
        assert_eq!(request(load, 8)["body_bytes"], 1007);
    }
}

#[test]
fn connections_persist_if_both_ends_and_the_version_allow_it() {
    let resources: Vec<_> = (1..4)
        .map(|at| {
            json!({"url": format!("http://a.test/{at}"), "type": "script", "body_bytes": 100,
                "initiator": at - 1})
        })
        .collect();
    let page = page(&[&[root(100)][..], &resources].concat());
    for (client, origins, http, connections) in [
        (true, true, "1.1", 1),
        (true, true, "1.0", 1),
        (false, true, "1.1", 4),
        (true, false, "1.1", 4),
        (false, true, "1.0", 4),
        (true, false, "1.0", 4),
    ] {
        let settings = json!({"client": {"keep_alive": client},
            "origins": {"keep_alive": origins, "http": http}, "loads": arms(&["tcp", "warm"])});
        let run = run(&with(job(&page, &network(2000), &[]), settings));
        for id in ["tcp", "warm"] {
            let load = run.valid(id);
            assert_eq!(list(&load["connections"]).len(), connections, "{client} {origins} {http} {id}");
            assert_eq!(grown(load, "origins", "PassiveOpens") as usize, connections);
        }
    }
}

#[test]
fn odd_targets_reach_their_resources_as_they_are_written() {
    let targets =
        ["/?", "//x//y", "/../a/./b", "/a?b?c=/d", "/%00%20", "/{x}|^\\~", "/;a=1,2!*'()@:$&+", "/[1]"];
    let resources: Vec<_> =
        targets.iter().map(|target| image(&format!("http://a.test{target}"), 77)).collect();
    let long = image(&format!("http://a.test/{}", "x".repeat(60_000)), 77);
    let run = run(&job(&page(&[&[root(1)][..], &resources, &[long]].concat()), &network(1000), &["tcp"]));
    run.valid("tcp");
}

#[test]
fn field_values_beyond_ascii_do_not_change_the_size_of_a_header() {
    let odd = json!({"mime": "text/html; charset=\u{fc}tf-8", "status": 302, "redirect_to": "/\u{e4}"});
    assert_eq!(sent_and_received(&load_of(with(root(0), odd), json!({}))), (400, 300));
}
