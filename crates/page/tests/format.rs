//! Tests reading pages from JSON: the accepted values, the refused values, and the error messages.

use std::path::Path;

use fastopen_page::{Initiators, Origin, Page, Phase, Resource, ResourceType};
use serde_json::{Value, json};

fn minimal() -> Value {
    json!({
        "format": "fastopen-page/1",
        "name": "p",
        "url": "http://a.test/",
        "source": "made up",
        "initiators": "declared",
        "resources": [
            {"url": "http://a.test/", "type": "document", "body_bytes": 5000, "initiator": null},
            {"url": "http://b.test:8080/i", "type": "image", "body_bytes": 10, "initiator": 0},
        ],
    })
}

fn read(value: Value) -> Page {
    serde_json::from_value(value).unwrap()
}

/// Returns the minimal page with `value` at the JSON pointer `pointer`.
fn with(pointer: &str, value: Value) -> Value {
    let mut page = minimal();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    page.pointer_mut(parent).unwrap()[key] = value;
    page
}

fn without(pointer: &str) -> Value {
    let mut page = minimal();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    page.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
    page
}

fn unreadable(value: Value) -> String {
    serde_json::from_value::<Page>(value).unwrap_err().to_string()
}

fn invalid(value: Value) -> String {
    read(value).validate().unwrap_err()
}

fn folder(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn what_is_left_out_has_the_contracts_defaults() {
    let page = read(minimal());
    assert_eq!(page.validate(), Ok(()));
    assert_eq!(
        (page.notes.len(), page.load_event_processing_us, page.initiators),
        (0, 0, Initiators::Declared)
    );
    let Resource { method, status, mime, request_header_bytes, response_header_bytes, .. } =
        &page.resources[1];
    assert_eq!((method.as_str(), *status, mime.as_str()), ("GET", 200, "application/octet-stream"));
    assert_eq!((*request_header_bytes, *response_header_bytes), (400, 300));
    let Resource { request_body_bytes, server_think_us, processing_us, phase, .. } = &page.resources[1];
    assert_eq!((*request_body_bytes, *server_think_us, *processing_us, *phase), (0, 0, 0, Phase::Load));
    assert_eq!((page.resources[1].initiator, page.resources[1].kind), (Some(0), ResourceType::Image));
}

#[test]
fn a_page_that_is_written_is_read_as_the_same() {
    let page = read(minimal());
    assert_eq!(serde_json::from_str::<Page>(&serde_json::to_string(&page).unwrap()).unwrap(), page);
}

#[test]
fn the_page_of_the_golden_job_is_read() {
    let text = std::fs::read_to_string(folder("tests/contract/job.json")).unwrap();
    let job: Value = serde_json::from_str(&text).unwrap();
    let page = read(job["page"].clone());
    assert_eq!(page.validate(), Ok(()));
    let origin = |host: &str, port| Origin { host: host.to_owned(), port };
    assert_eq!(page.origins(), [origin("a.test", 80), origin("b.test", 8080), origin("c.test", 443)]);
}

#[test]
fn the_pages_of_the_library_are_valid() {
    let mut pages = 0;
    for entry in std::fs::read_dir(folder("pages")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with(".page.json") {
            let page: Page = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            assert_eq!(page.validate(), Ok(()), "{}", path.display());
            pages += 1;
        }
    }
    assert!(pages > 0);
}

#[test]
fn unknown_and_missing_keys_are_refused() {
    assert!(unreadable(with("/colour", json!("red"))).starts_with("unknown field `colour`"));
    assert!(unreadable(with("/resources/1/size", json!(1))).starts_with("unknown field `size`"));
    assert_eq!(unreadable(without("/source")), "missing field `source`");
    assert_eq!(unreadable(without("/resources/1/body_bytes")), "missing field `body_bytes`");
    assert_eq!(unreadable(without("/resources/0/initiator")), "missing field `initiator`");
}

#[test]
fn values_of_a_wrong_kind_are_refused() {
    assert_eq!(
        unreadable(with("/format", json!("fastopen-page/2"))),
        "unknown variant `fastopen-page/2`, expected `fastopen-page/1`"
    );
    assert!(unreadable(with("/resources/1/type", json!("picture"))).starts_with("unknown variant `picture`"));
    assert!(unreadable(with("/resources/1/body_bytes", json!(-1))).contains("integer `-1`"));
    assert!(unreadable(with("/resources/1/body_bytes", json!(1.5))).contains("floating point `1.5`"));
    assert_eq!(
        unreadable(with("/resources/1/url", json!("http://A.test/"))),
        "`http://A.test/`: host is not written as `a.test`"
    );
}

#[test]
fn each_broken_rule_is_named_with_its_place() {
    let mut three = minimal();
    three["resources"].as_array_mut().unwrap().push(
        json!({"url": "http://a.test/3", "type": "other", "body_bytes": 1, "initiator": 1, "phase": "async"}),
    );
    three["resources"][1]["phase"] = json!("after");

    for (page, message) in [
        (with("/name", json!("")), "name: is empty"),
        (with("/source", json!("a\nb")), "source: \"a\\nb\" has control characters"),
        (with("/notes", json!(["\u{7}"])), "notes: \"\\u{7}\" has control characters"),
        (
            with("/load_event_processing_us", json!(1_000_000_000_001_u64)),
            "load_event_processing_us: 1000000000001 is more than 1000000000000",
        ),
        (with("/resources", json!([])), "resources: 0 resources, but a page has 1 to 10000"),
        (
            with("/resources/0/initiator", json!(0)),
            "resources[0].initiator: the root document has none (null)",
        ),
        (
            with("/resources/0/initiator_at_bytes", json!(0)),
            "resources[0].initiator_at_bytes: the root document has no initiator",
        ),
        (
            with("/resources/0/phase", json!("async")),
            "resources[0].phase: the root document is in phase load",
        ),
        (
            with("/resources/1/initiator", json!(null)),
            "resources[1].initiator: only resources[0] may have none",
        ),
        (with("/resources/1/initiator", json!(40)), "resources[1].initiator: 40 is not before 1"),
        (with("/resources/1/initiator", json!(1)), "resources[1].initiator: 1 is not before 1"),
        (
            with("/resources/1/initiator_at_bytes", json!(5001)),
            "resources[1].initiator_at_bytes: 5001 is more than its initiator's 5000 body bytes",
        ),
        (three, "resources[2].phase: async, but its initiator is in phase after"),
        (
            with("/resources/1/method", json!("get")),
            "resources[1].method: \"get\" is not 1 to 32 capital letters",
        ),
        (with("/resources/1/method", json!("")), "resources[1].method: \"\" is not 1 to 32 capital letters"),
        (with("/resources/1/status", json!(199)), "resources[1].status: 199 is not within 200 and 599"),
        (with("/resources/1/status", json!(600)), "resources[1].status: 600 is not within 200 and 599"),
        (
            with("/resources/1/mime", json!("a\r\nb: c")),
            "resources[1].mime: \"a\\r\\nb: c\" has control characters",
        ),
        (
            with("/resources/1/body_bytes", json!((1_u64 << 40) + 1)),
            "resources[1].body_bytes: 1099511627777 is more than 1099511627776",
        ),
        (
            with("/resources/1/status", json!(204)),
            "resources[1].body_bytes: a GET answered with 204 has no body",
        ),
        (
            with("/resources/1/method", json!("HEAD")),
            "resources[1].body_bytes: a HEAD answered with 200 has no body",
        ),
        (
            with("/resources/1/redirect_to", json!("/x")),
            "resources[1].redirect_to: status 200 does not redirect",
        ),
    ] {
        assert_eq!(invalid(page), message);
    }
}

#[test]
fn a_page_has_at_most_ten_thousand_resources() {
    let mut page = read(minimal());
    let image = page.resources[1].clone();
    page.resources.resize(10_000, image.clone());
    assert_eq!(page.validate(), Ok(()));
    page.resources.push(image);
    assert_eq!(page.validate().unwrap_err(), "resources: 10001 resources, but a page has 1 to 10000");
}

#[test]
fn an_origin_is_a_host_and_a_port_and_stands_where_it_is_first_named() {
    let mut page = read(minimal());
    let again = page.resources[0].clone();
    page.resources.push(again);
    let origin = |host: &str, port| Origin { host: host.to_owned(), port };
    assert_eq!(page.origins(), [origin("a.test", 80), origin("b.test", 8080)]);
}
