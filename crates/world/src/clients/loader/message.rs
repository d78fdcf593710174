//! The loader's requests: heads as long as the page says.

use fastopen_page::{Profile, Resource, ResourceType};
use fastopen_replay::body::SizedBody;
use fastopen_replay::head::{fill, pad};
use fastopen_replay::http2::turns::{PRIORITY, Priority};
use fastopen_replay::origins::RESOURCE_HEADER;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::Uri;
use hyper::{Request, Version};

use crate::clients::Loading;

impl Loading<'_> {
    /// The request for a resource. Its head has the page's length on the wire of HTTP/1, and before it is compressed with HTTP/2.
    pub(super) fn message(&self, number: usize) -> Request<SizedBody> {
        let resource: &Resource = &self.page.resources[number];
        let mut request = Request::new(SizedBody::filler(resource.request_body_bytes));
        let version = self.version(resource.url.host());
        *request.version_mut() = version;
        // Both were checked when the page was read; an odd target that hyper refuses asks for what is not there.
        if let Ok(method) = resource.method.parse() {
            *request.method_mut() = method;
        }
        if let Ok(target) = resource.url.target().parse() {
            *request.uri_mut() = target;
        }
        let host = self.authority(resource);
        let headers = request.headers_mut();
        set(headers, &HOST, &host);
        set(headers, &USER_AGENT, "fastopen");
        set(headers, &HeaderName::from_static(RESOURCE_HEADER), &number.to_string());
        match (version, self.policy.keep_alive) {
            (Version::HTTP_10, true) => set(headers, &CONNECTION, "keep-alive"),
            (Version::HTTP_11, false) => set(headers, &CONNECTION, "close"),
            _ => {}
        }
        if resource.request_body_bytes > 0 {
            set(headers, &CONTENT_LENGTH, &resource.request_body_bytes.to_string());
        }
        let first_line = resource.method.len() + resource.url.target().len() + "  HTTP/1.1".len();
        let wanted = resource.request_header_bytes as usize;
        if version != Version::HTTP_2 {
            pad(headers, USER_AGENT.as_str(), first_line, wanted);
            return request;
        }
        if self.policy.profile == Profile::Browser {
            set(headers, &HeaderName::from_static(PRIORITY), &priority(resource.kind).header());
        }
        fill(headers, USER_AGENT.as_str(), first_line, wanted);
        // No two requests have the same, so it is not worth a place in the table of heads.
        if let Some(number) = headers.get_mut(RESOURCE_HEADER) {
            number.set_sensitive(true);
        }
        headers.remove(HOST);
        *request.uri_mut() = self.absolute(request.uri(), &host);
        request
    }

    /// Host, and port where it is not the usual one.
    fn authority(&self, resource: &Resource) -> String {
        match (resource.url.host(), resource.url.port()) {
            (host, port) if port == if self.tls.is_some() { 443 } else { 80 } => host.to_owned(),
            (host, port) => format!("{host}:{port}"),
        }
    }

    /// The target as HTTP/2 takes it, apart from its authority (RFC 9113 section 8.3.1).
    fn absolute(&self, target: &Uri, host: &str) -> Uri {
        let mut parts = target.clone().into_parts();
        parts.scheme = (if self.tls.is_some() { "https" } else { "http" }).parse().ok();
        parts.authority = host.parse().ok();
        Uri::from_parts(parts).unwrap_or_else(|_| target.clone())
    }
}

fn set(headers: &mut HeaderMap, name: &HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// As Chromium asks for it: what it can use in parts shares the connection.
fn priority(kind: ResourceType) -> Priority {
    let incremental = matches!(kind, ResourceType::Document | ResourceType::Image | ResourceType::Media);
    Priority { urgency: kind.urgency(), incremental }
}
