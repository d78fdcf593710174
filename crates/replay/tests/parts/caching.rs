//! Tests the caching headers of responses, and conditional requests.

use fastopen_replay::caching::CachePolicy;
use hyper::Method;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};

fn headers_of(fresh_s: Option<u64>, validator: bool) -> [Option<String>; 2] {
    let mut headers = HeaderMap::new();
    CachePolicy::new(fresh_s, validator, 1234).set_headers(&mut headers, true);
    [CACHE_CONTROL, ETAG].map(|name| headers.get(name).map(|value| value.to_str().unwrap().to_owned()))
}

#[test]
fn a_response_has_its_freshness_lifetime_and_entity_tag() {
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(headers_of(None, false), [None, None]);
    assert_eq!(headers_of(None, true), [None, text("\"1234\"")]);
    assert_eq!(headers_of(Some(0), false), [text("no-store"), None]);
    assert_eq!(headers_of(Some(0), true), [text("no-cache"), text("\"1234\"")]);
    assert_eq!(headers_of(Some(60), true), [text("max-age=60"), text("\"1234\"")]);
}

#[test]
fn only_a_matching_entity_tag_validates_a_cached_response() {
    let if_none_match =
        |tag: &'static str| HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(tag))]);
    let cached = CachePolicy::new(Some(60), true, 1234);
    for (tag, valid) in [("\"1234\"", true), ("\"1\", \"1234\"", true), ("\"123\"", false)] {
        assert_eq!(cached.validates(&Method::GET, &if_none_match(tag)), valid, "{tag}");
    }
    assert!(!cached.validates(&Method::GET, &HeaderMap::new()));
    assert!(!cached.validates(&Method::POST, &if_none_match("\"1234\"")));
    assert!(!CachePolicy::new(Some(60), false, 1234).validates(&Method::GET, &if_none_match("\"1234\"")));
}
