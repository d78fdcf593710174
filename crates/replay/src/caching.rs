//! HTTP caching (RFC 9111): the freshness lifetime and validator of a response, and conditional requests.

use hyper::Method;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, VARY};

/// The freshness lifetime and the validator of a response.
#[derive(Debug, Clone)]
pub struct CachePolicy {
    /// Freshness lifetime in seconds; none for a response without `Cache-Control`, where the client may use
    /// heuristics.
    pub fresh_s: Option<u64>,
    /// The entity tag; none for a response that a cache cannot revalidate.
    pub validator: Option<HeaderValue>,
}

impl CachePolicy {
    /// The policy of a response of `body_bytes` bytes. Its length is its entity tag, since a page records no
    /// more of it.
    pub fn new(fresh_s: Option<u64>, validator: bool, body_bytes: u64) -> Self {
        let tag =
            || HeaderValue::try_from(format!("\"{body_bytes}\"")).expect("digits are allowed in a header");
        Self { fresh_s, validator: validator.then(tag) }
    }

    /// Sets `Cache-Control`, `ETag` and `Vary` of a response.
    pub fn set_headers(&self, headers: &mut HeaderMap) {
        let control = match (self.fresh_s, &self.validator) {
            (None, _) => None,
            (Some(0), None) => Some(HeaderValue::from_static("no-store")),
            (Some(0), Some(_)) => Some(HeaderValue::from_static("no-cache")),
            (Some(seconds), _) => HeaderValue::try_from(format!("max-age={seconds}")).ok(),
        };
        for (name, value) in [(CACHE_CONTROL, control), (ETAG, self.validator.clone())] {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
        // The CORS headers depend on the request's `Origin`.
        headers.insert(VARY, HeaderValue::from_static("Origin"));
    }

    /// Whether the request is conditional and its `If-None-Match` has this entity tag (RFC 9110 section
    /// 13.1.2).
    pub fn validates(&self, method: &Method, request: &HeaderMap) -> bool {
        let listed = request
            .get_all(IF_NONE_MATCH)
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let mut tags = listed.map(<[u8]>::trim_ascii);
        let own = self.validator.as_ref().map(HeaderValue::as_bytes);
        matches!(*method, Method::GET | Method::HEAD) && own.is_some_and(|own| tags.any(|tag| tag == own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers_of(fresh_s: Option<u64>, validator: bool) -> [Option<String>; 2] {
        let mut headers = HeaderMap::new();
        CachePolicy::new(fresh_s, validator, 1234).set_headers(&mut headers);
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
}
