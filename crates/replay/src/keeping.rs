//! What an answer says of keeping it, and how an origin answers a client that did (RFC 9111).

use hyper::Method;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, VARY};

/// For how long an answer is good, and whether it can be confirmed.
#[derive(Debug, Clone)]
pub struct Keeping {
    /// Seconds for which it may be used without asking; none: nothing is said, and the client does as it thinks.
    pub fresh_s: Option<u64>,
    /// What tells this answer from others to the same URL; none: it cannot be confirmed.
    pub validator: Option<HeaderValue>,
}

impl Keeping {
    /// Of an answer whose body has that many bytes. It is told by its length: of what a page got from one URL, no more is known.
    pub fn new(fresh_s: Option<u64>, validator: bool, body_bytes: u64) -> Self {
        let tag =
            || HeaderValue::try_from(format!("\"{body_bytes}\"")).expect("digits are allowed in a header");
        Self { fresh_s, validator: validator.then(tag) }
    }

    /// Puts it into the headers of an answer.
    pub fn tell(&self, headers: &mut HeaderMap) {
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
        // Who may read it depends on who asks (see `cors`).
        headers.insert(VARY, HeaderValue::from_static("Origin"));
    }

    /// Whether a request comes from a client that has this very answer, and only asks if it is still good.
    pub fn confirms(&self, method: &Method, request: &HeaderMap) -> bool {
        let asked = request
            .get_all(IF_NONE_MATCH)
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let mut tags = asked.map(<[u8]>::trim_ascii);
        let own = self.validator.as_ref().map(HeaderValue::as_bytes);
        matches!(*method, Method::GET | Method::HEAD) && own.is_some_and(|own| tags.any(|tag| tag == own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fresh_s: Option<u64>, validator: bool) -> [Option<String>; 2] {
        let mut headers = HeaderMap::new();
        Keeping::new(fresh_s, validator, 1234).tell(&mut headers);
        [CACHE_CONTROL, ETAG].map(|name| headers.get(name).map(|value| value.to_str().unwrap().to_owned()))
    }

    #[test]
    fn an_answer_says_for_how_long_it_is_good_and_how_it_is_told() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(told(None, false), [None, None]);
        assert_eq!(told(None, true), [None, text("\"1234\"")]);
        assert_eq!(told(Some(0), false), [text("no-store"), None]);
        assert_eq!(told(Some(0), true), [text("no-cache"), text("\"1234\"")]);
        assert_eq!(told(Some(60), true), [text("max-age=60"), text("\"1234\"")]);
    }

    #[test]
    fn only_who_has_this_answer_is_told_that_it_is_unchanged() {
        let asks = |tag: &'static str| HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(tag))]);
        let kept = Keeping::new(Some(60), true, 1234);
        for (tag, confirmed) in [("\"1234\"", true), ("\"1\", \"1234\"", true), ("\"123\"", false)] {
            assert_eq!(kept.confirms(&Method::GET, &asks(tag)), confirmed, "{tag}");
        }
        assert!(!kept.confirms(&Method::GET, &HeaderMap::new()));
        assert!(!kept.confirms(&Method::POST, &asks("\"1234\"")));
        assert!(!Keeping::new(Some(60), false, 1234).confirms(&Method::GET, &asks("\"1234\"")));
    }
}
