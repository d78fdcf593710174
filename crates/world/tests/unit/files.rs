use serde_json::json;

use super::*;

fn resource(url: &str, body_bytes: u64) -> Resource {
    let json = json!({"url": url, "type": "image", "body_bytes": body_bytes, "initiator": null});
    serde_json::from_value(json).expect("it is a resource")
}

fn found(urls: &[(&str, u64)]) -> Vec<(String, usize)> {
    let resources: Vec<_> = urls.iter().map(|(url, body_bytes)| resource(url, *body_bytes)).collect();
    let text = |(path, number): (PathBuf, usize)| (path.to_str().expect("text").to_owned(), number);
    paths(&resources).into_iter().map(text).collect()
}

#[test]
fn a_url_without_its_query_is_a_path_below_its_host() {
    let urls = [("http://a.test/", 1), ("https://b.test/x%20y/z.js?v=2", 2), ("http://a.test/d/", 3)];
    let paths = [("a.test/d/index.html", 2), ("a.test/index.html", 0), ("b.test/x y/z.js", 1)];
    assert_eq!(found(&urls), paths.map(|(path, number)| (path.to_owned(), number)));
    // A sign is not a hexadecimal digit.
    assert_eq!(found(&[("http://a.test/%+f", 1)]), [("a.test/%+f".to_owned(), 0)]);
}

#[test]
fn what_no_file_can_hold_is_left_to_the_origins_behind_the_server() {
    assert_eq!(found(&[("http://a.test/x?1", 1), ("http://a.test/x?2", 2)]), []);
    assert_eq!(found(&[("http://a.test/x/..%2f..%2fetc", 1), ("http://a.test//x", 2)]), []);
    assert_eq!(found(&[("http://a.test/%00", 1), ("http://a.test/%ff", 2)]), []);
    let of_folder = [("http://a.test/x", 1), ("http://a.test/x/y", 2)];
    assert_eq!(found(&of_folder), [("a.test/x/y".to_owned(), 1)]);
    let mut other: Vec<_> = ["http://a.test/x?1", "http://a.test/x?2"].map(|url| resource(url, 5)).into();
    other[1].status = 302;
    assert_eq!(paths(&other), BTreeMap::new());
    (other[1].status, other[1].method) = (200, "POST".into());
    assert_eq!(paths(&other), BTreeMap::new());
    let twice = [("http://a.test/x?1", 5), ("http://a.test/x?2", 5)];
    assert_eq!(found(&twice), [("a.test/x".to_owned(), 0)]);
}
