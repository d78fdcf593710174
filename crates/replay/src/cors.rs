//! Sets CORS headers that allow every cross-origin request (Fetch standard, CORS protocol).

use hyper::Method;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN,
};

/// Returns true if a request is a CORS preflight.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns true if the `recorded` response headers let the requesting origin read the response.
pub fn allows(request: &HeaderMap, recorded: &HeaderMap) -> bool {
    let allowed = recorded.get(ACCESS_CONTROL_ALLOW_ORIGIN);
    allowed.is_some_and(|allowed| allowed == "*" || Some(allowed) == request.get(ORIGIN))
}

/// Sets headers that let the requesting origin read the response. Sets none if the request has no `Origin`.
pub fn allow(request: &HeaderMap, response: &mut HeaderMap) {
    let Some(origin) = request.get(ORIGIN) else { return };
    response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    response.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    for (requested, allowed) in [
        (ACCESS_CONTROL_REQUEST_METHOD, ACCESS_CONTROL_ALLOW_METHODS),
        (ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_ALLOW_HEADERS),
    ] {
        if let Some(value) = request.get(requested) {
            response.insert(allowed, value.clone());
            // Without this field, a browser caches the result, and omits later preflights of the page.
            response.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("0"));
        }
    }
}
