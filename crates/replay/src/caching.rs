//! Implements HTTP caching (RFC 9111): freshness and validator of a response, and conditional requests.

use hyper::Method;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, VARY};

/// The freshness lifetime and the validator of a response.
#[derive(Debug, Clone)]
pub struct CachePolicy {
    /// Freshness lifetime in seconds; `None` to send no `Cache-Control`, so that clients may estimate it.
    pub fresh_s: Option<u64>,
    /// The entity tag. `None` for a response that a cache cannot revalidate.
    pub validator: Option<HeaderValue>,
}

impl CachePolicy {
    /// Creates the policy of a response. If `validator` is true, the response gets an entity tag. Pages do
    /// not contain the recorded tags, so the tag is the length of the body, `body_bytes`.
    pub fn new(fresh_s: Option<u64>, validator: bool, body_bytes: u64) -> Self {
        let tag =
            || HeaderValue::try_from(format!("\"{body_bytes}\"")).expect("digits are allowed in a header");
        Self { fresh_s, validator: validator.then(tag) }
    }

    /// Sets `Cache-Control` and `ETag`. Also sets `Vary` if the header section is `generated`, not recorded.
    pub fn set_headers(&self, headers: &mut HeaderMap, generated: bool) {
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
        if generated {
            // Generated CORS headers depend on `Origin`. Recorded headers keep their `Vary`: if it listed
            // `Origin`, a preload without `Origin` could not serve a later request with `Origin`.
            headers.insert(VARY, HeaderValue::from_static("Origin"));
        }
    }

    /// Returns true if the response to a request is 304 (Not Modified): the request is a GET or HEAD, and has
    /// this policy's tag in `If-None-Match` (RFC 9110 section 13.1.2).
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
