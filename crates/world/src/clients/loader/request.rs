//! Builds the requests of the built-in client, padded to the header sizes that the page specifies.

use fastopen_page::{Profile, Resource, ResourceType};
use fastopen_replay::body::SizedBody;
use fastopen_replay::header::{fill, pad};
use fastopen_replay::origins::RESOURCE_HEADER;
use fastopen_replay::priority::{PRIORITY_HEADER, Priority};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::Uri;
use hyper::{Request, Version};

use crate::clients::Loading;

impl Loading<'_> {
    /// Builds the request for resource `number`. Pads its header, before compression, to the specified size.
    pub(super) fn request(&self, number: usize) -> Request<SizedBody> {
        let resource: &Resource = &self.job.page.resources[number];
        let mut request = Request::new(SizedBody::default().and_filler(resource.request_body_bytes));
        let version = self.http_at(&resource.url);
        *request.version_mut() = version.wire();
        *request.method_mut() = resource.method.parse().expect("page validation has checked the method");
        // Page validation has checked the target, too. If hyper refuses it, `/` is requested (404).
        if let Ok(target) = resource.url.target().parse() {
            *request.uri_mut() = target;
        }
        let encrypted = resource.url.is_encrypted(self.schemes);
        let host = match (resource.url.host(), resource.url.port()) {
            (host, 80) if !encrypted => host.to_owned(),
            (host, 443) if encrypted => host.to_owned(),
            (host, port) => format!("{host}:{port}"),
        };
        let headers = request.headers_mut();
        set(headers, &HOST, &host);
        set(headers, &USER_AGENT, "fastopen");
        set(headers, &HeaderName::from_static(RESOURCE_HEADER), &number.to_string());
        match (version.wire(), self.policy.keep_alive) {
            (Version::HTTP_10, true) => set(headers, &CONNECTION, "keep-alive"),
            (Version::HTTP_11, false) => set(headers, &CONNECTION, "close"),
            _ => {}
        }
        if resource.request_body_bytes > 0 {
            set(headers, &CONTENT_LENGTH, &resource.request_body_bytes.to_string());
        }
        let first_line = resource.method.len() + resource.url.target().len() + "  HTTP/1.1".len();
        let header_bytes = resource.request_header_bytes as usize;
        if !version.is_multiplexed() {
            pad(headers, USER_AGENT.as_str(), first_line, header_bytes);
            return request;
        }
        if self.policy.profile == Profile::Browser {
            set(headers, &HeaderName::from_static(PRIORITY_HEADER), &priority(resource.kind).header());
        }
        fill(headers, USER_AGENT.as_str(), first_line, header_bytes);
        // Each request has a different number, so indexing it would only fill the HPACK table.
        if let Some(number) = headers.get_mut(RESOURCE_HEADER) {
            number.set_sensitive(true);
        }
        headers.remove(HOST);
        *request.uri_mut() = absolute(request.uri(), encrypted, &host);
        request
    }
}

/// Adds scheme and authority to a path, for the pseudo-headers of HTTP/2 (RFC 9113 section 8.3.1).
fn absolute(target: &Uri, encrypted: bool, host: &str) -> Uri {
    let mut parts = target.clone().into_parts();
    parts.scheme = (if encrypted { "https" } else { "http" }).parse().ok();
    parts.authority = host.parse().ok();
    Uri::from_parts(parts).unwrap_or_else(|_| target.clone())
}

fn set(headers: &mut HeaderMap, name: &HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Returns a request's priority, as in Chromium. Resources displayed while they arrive are incremental.
fn priority(kind: ResourceType) -> Priority {
    let incremental = matches!(kind, ResourceType::Document | ResourceType::Image | ResourceType::Media);
    Priority { urgency: kind.urgency(), incremental }
}
