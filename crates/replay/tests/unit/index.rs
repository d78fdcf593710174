use fastopen_link::ip::Addresses;
use hyper::Request;

use super::*;
use crate::body::SizedBody;

const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 19, 0, 1));

fn served(port: u16, method: &str, target: &str) -> ServedResource {
    ServedResource {
        host: Addresses { preferred: HOST, other: None },
        port,
        method: method.into(),
        target: target.into(),
        normalized_target: target.into(),
        alternatives: Vec::new(),
        status: 200,
        mime: String::new(),
        head: None,
        location: None,
        header_bytes: 0,
        body: SizedBody::default(),
        think_ns: 0,
        cache_policy: None,
        refuses_preflight: false,
    }
}

fn found(index: &Index, port: u16, method: Method, target: &str) -> Option<(usize, bool)> {
    let request = Request::builder().method(method).uri(target).body(()).expect("a request");
    index.find(SocketAddr::new(HOST, port), &request.into_parts().0)
}

fn index(accepts_similar_urls: bool) -> Index {
    Index::of(
        &[
            served(80, "GET", "/a?x=1&_=111"),
            served(80, "GET", "/a?x=2&_=112"),
            served(80, "GET", "/a"),
            served(443, "GET", "/a?x=1&_=111"),
            served(80, "POST", "/a"),
            served(80, "GET", "/p;r=1;s=2"),
            served(80, "GET", "/same"),
            served(80, "GET", "/same"),
        ],
        accepts_similar_urls,
    )
}

#[test]
fn the_exact_url_is_found_first_then_the_one_with_most_parameters_in_common() {
    let index = index(true);
    let get = |target| found(&index, 80, Method::GET, target);
    assert_eq!(get("/a?x=2&_=112"), Some((1, true)));
    assert_eq!(get("/a?_=999&x=2"), Some((1, false)));
    assert_eq!(get("/a?x=1&_=999"), Some((0, false)));
    assert_eq!(get("/a?y=1"), Some((2, false)));
    assert_eq!(get("/p;r=7;s=2"), Some((5, false)));
    assert_eq!(get("/b"), None);
    assert_eq!(found(&index, 80, Method::POST, "/a?x=1"), Some((4, false)));
    assert_eq!(found(&index, 80, Method::PUT, "/a"), None);
}

#[test]
fn a_beacon_is_answered_by_a_get_of_its_path_where_the_recording_has_no_post_of_it() {
    let beacon = |index: &Index, method, target, mode| {
        let request = Request::builder().method(method).uri(target);
        let request = request.header("sec-fetch-mode", mode).header("sec-fetch-dest", "empty").body(());
        index.find(SocketAddr::new(HOST, 80), &request.expect("a request").into_parts().0)
    };
    let index = index(true);
    assert_eq!(beacon(&index, Method::POST, "/p;r=1;s=2", "no-cors"), Some((5, false)));
    assert_eq!(beacon(&index, Method::POST, "/a?x=1", "no-cors"), Some((4, false)), "its own method first");
    assert_eq!(beacon(&index, Method::POST, "/p;r=1;s=2", "cors"), None, "a script reads the answer");
    assert_eq!(beacon(&index, Method::PUT, "/p;r=1;s=2", "no-cors"), None);
    assert_eq!(beacon(&self::index(false), Method::POST, "/p;r=1;s=2", "no-cors"), None);
}

#[test]
fn the_same_port_is_nearer_than_another_and_another_is_found_where_there_is_none() {
    let index = index(true);
    assert_eq!(found(&index, 443, Method::GET, "/a?x=1&_=111"), Some((3, true)));
    assert_eq!(found(&index, 443, Method::GET, "/a?x=2&_=112"), Some((3, false)));
    assert_eq!(found(&index, 8080, Method::GET, "/same"), Some((6, false)));
}

#[test]
fn requests_that_are_equally_near_get_one_resource_after_another_and_then_the_last() {
    let index = index(true);
    for expected in [6, 7, 7] {
        assert_eq!(found(&index, 80, Method::GET, "/same"), Some((expected, true)));
    }
    index.reset();
    for expected in [6, 7, 7] {
        assert_eq!(found(&index, 80, Method::GET, "/same?_=1"), Some((expected, false)));
    }
}

#[test]
fn another_choice_of_a_picture_gets_the_recorded_one_and_what_was_recorded_itself() {
    let alternative = |target: &str| (SocketAddr::new(HOST, 80), target.to_owned());
    let mut picture = served(80, "GET", "/2x.png");
    picture.alternatives =
        vec![alternative("/1x.png"), alternative("/scaled?i=1&w=1"), alternative("/own.png")];
    let resources = [picture, served(80, "GET", "/own.png"), served(80, "GET", "/scaled?i=2&w=1")];
    let index = Index::of(&resources, true);
    let get = |target| found(&index, 80, Method::GET, target);
    assert_eq!(get("/1x.png"), Some((0, false)));
    assert_eq!(get("/own.png"), Some((1, true)));
    assert_eq!(get("/scaled?i=1&w=1"), Some((0, false)));
    assert_eq!(get("/scaled?i=3&w=1"), Some((2, false)));
    assert_eq!(found(&Index::of(&resources, false), 80, Method::GET, "/1x.png"), None);
}

#[test]
fn without_nearness_port_and_query_have_to_be_the_resources() {
    let index = index(false);
    assert_eq!(found(&index, 80, Method::GET, "/a?x=2&_=112"), Some((1, true)));
    assert_eq!(found(&index, 80, Method::GET, "/a?x=2&_=999"), None);
    assert_eq!(found(&index, 8080, Method::GET, "/same"), None);
}
