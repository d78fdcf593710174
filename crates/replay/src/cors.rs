//! Cross-origin requests: whoever asks is allowed, as on a page that works (Fetch standard, CORS protocol).

use hyper::Method;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN,
};

/// Whether a request asks for leave to make another.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Puts into the headers of an answer what lets the page that asked have it. To clients that name no origin it says nothing.
pub fn allow(request: &HeaderMap, answer: &mut HeaderMap) {
    let Some(origin) = request.get(ORIGIN) else { return };
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    answer.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    for (asked, allowed) in [
        (ACCESS_CONTROL_REQUEST_METHOD, ACCESS_CONTROL_ALLOW_METHODS),
        (ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_ALLOW_HEADERS),
    ] {
        if let Some(value) = request.get(asked) {
            answer.insert(allowed, value.clone());
            // Else the next question of the same page would not be asked.
            answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("0"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs =
            pairs.iter().map(|&(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn an_origin_that_asks_is_allowed_by_name() {
        let asks = [("origin", "http://a.test"), ("access-control-request-method", "PUT")];
        let mut answer = HeaderMap::new();
        allow(&headers(&asks), &mut answer);
        let allowed = [
            ("access-control-allow-origin", "http://a.test"),
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-methods", "PUT"),
            ("access-control-max-age", "0"),
        ];
        assert_eq!(answer, headers(&allowed));
        assert!(is_preflight(&Method::OPTIONS, &headers(&asks)));
        assert!(!is_preflight(&Method::OPTIONS, &headers(&asks[..1])));
    }

    #[test]
    fn who_names_no_origin_is_told_nothing() {
        let mut answer = HeaderMap::new();
        allow(&HeaderMap::new(), &mut answer);
        assert!(answer.is_empty());
    }
}
