//! Bodies: generated or recorded, small or large.

use std::fs;

use serde_json::json;

use crate::support::{image, job, network, page, request, root, run, with};

#[test]
fn recorded_bodies_come_from_their_place_in_the_bodies_file() {
    let path = std::env::temp_dir().join(format!("fastopen-bodies-{}", std::process::id()));
    fs::write(&path, vec![b'x'; 5000]).expect("the temporary folder is writable");
    let first = with(root(3000), json!({"body_offset": 0}));
    let last = with(image("http://a.test/i", 2000), json!({"body_offset": 3000}));
    let empty = with(image("http://a.test/e", 0), json!({"body_offset": 5000}));
    let generated = image("http://a.test/g", 70_000);
    let origins = json!({"origins": {"bodies_file": path}});
    let good = run(&with(
        job(&page(&[first.clone(), last, empty, generated]), &network(1000), &["tcp"]),
        origins.clone(),
    ));
    let beyond = with(image("http://a.test/i", 2001), json!({"body_offset": 3000}));
    let short = run(&with(job(&page(&[first, beyond]), &network(1000), &["tcp"]), origins));
    fs::remove_file(&path).expect("it is there");
    assert_eq!(request(good.valid("tcp"), 1)["body_bytes"], 2000);
    let error = short.only("error");
    assert_eq!((&error["fault"], short.code), (&json!("input"), Some(2)));
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("page.resources[1].body_offset")),
        "{error}"
    );
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
