//! Tests the CORS headers of responses.

use fastopen_replay::cors::{allow, is_preflight};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue};

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|&(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
    pairs.collect()
}

#[test]
fn a_requesting_origin_is_allowed_by_name() {
    let preflight = [("origin", "http://a.test"), ("access-control-request-method", "PUT")];
    let mut response = HeaderMap::new();
    allow(&headers(&preflight), &mut response);
    let allowed = [
        ("access-control-allow-origin", "http://a.test"),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-methods", "PUT"),
        ("access-control-max-age", "0"),
    ];
    assert_eq!(response, headers(&allowed));
    assert!(is_preflight(&Method::OPTIONS, &headers(&preflight)));
    assert!(!is_preflight(&Method::OPTIONS, &headers(&preflight[..1])));
}

#[test]
fn a_request_without_an_origin_has_no_cors_headers() {
    let mut response = HeaderMap::new();
    allow(&HeaderMap::new(), &mut response);
    assert!(response.is_empty());
}
