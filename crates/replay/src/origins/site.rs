//! What origins serve: the page's resources and their responses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{
    ALT_SVC, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, SERVER,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode, Version};
use rustls::ServerConfig;

use crate::HttpVersion;
use crate::body::SizedBody;
use crate::caching::CachePolicy;
use crate::cors;
use crate::header::{fill, header_bytes, pad};
use crate::names::Names;
use crate::quic;
use crate::recorded_head;
use crate::tls::{Security, SessionStart, Sessions, letting_begin};

/// The request header by which a client names the resource (by index) if several have the same URL.
pub const RESOURCE_HEADER: &str = "x-resource";

/// What is served, and how.
#[derive(Debug, Clone)]
pub struct Site {
    /// Every resource, by its index in the page, as it is served in the clear.
    pub resources: Vec<ServedResource>,
    /// Ports to listen on, each for every host.
    pub ports: BTreeSet<u16>,
    /// Whether connections of HTTP/1 are persistent.
    pub keep_alive: bool,
    /// Length of the listeners' Fast Open queue: connections with data in the SYN whose handshake is not
    /// over.
    pub fastopen_queue: i32,
    /// The version that each host speaks: over TLS by ALPN, in the clear with prior knowledge (RFC 9113
    /// section 3.3).
    pub versions: BTreeMap<Ipv4Addr, HttpVersion>,
    /// How the site is served over TLS, if any load uses TLS.
    pub tls: Option<TlsSite>,
    /// Whether requests get the nearest resource: what differs in port and query, or is another choice.
    pub nearest: bool,
    /// Whether responses over HTTP/3 say that the host speaks it (`Alt-Svc`), as real ones do. By that alone
    /// Chromium knows that the host honours priorities, and has more than six images in flight.
    pub alt_svc: bool,
    /// The resolver; none where clients know all addresses.
    pub names: Option<Names>,
}

/// How a site is served over TLS.
#[derive(Debug, Clone)]
pub struct TlsSite {
    /// The TLS configuration of each host.
    pub servers: BTreeMap<Ipv4Addr, Arc<ServerConfig>>,
    /// The resources; those of the clear with other URLs in their bodies.
    pub resources: Vec<ServedResource>,
    /// The connections that speak TLS: all, or those that the client begins with a TLS record.
    pub security: Security,
    /// The sessions that can be resumed.
    pub sessions: Arc<Sessions>,
    /// How QUIC is spoken, where any host speaks HTTP/3.
    pub quic: Option<quic::Settings>,
}

impl TlsSite {
    /// The TLS configuration of the host at `address`, which lets `later` connections begin so.
    pub(super) fn server(&self, address: Ipv4Addr, later: SessionStart) -> Option<Arc<ServerConfig>> {
        self.servers.get(&address).map(|config| Arc::new(letting_begin(config, later)))
    }
}

/// One resource as an origin serves it.
#[derive(Debug, Clone)]
pub struct ServedResource {
    /// The origin: the address of its host, and its port.
    pub origin: SocketAddrV4,
    /// The request method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Path and query as browsers write them.
    pub normalized_target: String,
    /// What else gets this response where it is the nearest: origin, path and query as browsers write them.
    pub alternatives: Vec<(SocketAddrV4, String)>,
    /// Status code of the response.
    pub status: u16,
    /// Content-Type of the response.
    pub mime: String,
    /// The fields of the recorded head, which are sent as they are; none for a head of the page's size.
    pub head: Option<HeaderMap>,
    /// Location of a redirect.
    pub location: Option<String>,
    /// Bytes of the response header; the header is longer if its mandatory fields are.
    pub header_bytes: u32,
    /// The body.
    pub body: SizedBody,
    /// Time from the last byte of the request to the first of the response, in nanoseconds.
    pub think_ns: u64,
    /// Freshness and validator; none for a response without caching headers, which is never revalidated.
    pub cache_policy: Option<CachePolicy>,
    /// Whether to refuse a CORS preflight with this request.
    pub refuses_preflight: bool,
}

impl Site {
    /// The version that the host at `address` speaks.
    pub(super) fn version(&self, address: Ipv4Addr) -> HttpVersion {
        self.versions.get(&address).copied().unwrap_or(HttpVersion::Http11)
    }

    /// The response to a request for a resource, or for what the page does not have.
    pub(super) fn response(&self, served: Option<&ServedResource>, request: &Parts) -> Response<SizedBody> {
        match served {
            Some(served) => self.response_of(served, request),
            None => not_found(request),
        }
    }

    fn response_of(&self, served: &ServedResource, request: &Parts) -> Response<SizedBody> {
        let cache_policy = served.cache_policy.as_ref();
        let status = match cache_policy {
            Some(policy) if policy.validates(&request.method, &request.headers) => StatusCode::NOT_MODIFIED,
            _ => StatusCode::from_u16(served.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        let mut response = Response::new(SizedBody::default());
        *response.status_mut() = status;
        *response.version_mut() = request.version;
        let headers = response.headers_mut();
        if let Some(head) = &served.head {
            headers.clone_from(head);
        }
        if !served.refuses_preflight && !cors::allows(&request.headers, headers) {
            cors::allow(&request.headers, headers);
        }
        if let Some(policy) = cache_policy {
            recorded_head::remove_caching(headers);
            policy.set_headers(headers, served.head.is_none());
        }
        let mut set = |name, value: &str| {
            // A field value may have opaque bytes beyond ASCII (RFC 9110 section 5.5).
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                headers.insert(name, value);
            }
        };
        if served.head.is_none() {
            set(CONTENT_TYPE, &served.mime);
            if let Some(location) = &served.location {
                set(LOCATION, location);
            }
        }
        let has_body = !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            && request.method != Method::HEAD;
        if has_body {
            set(CONTENT_LENGTH, &served.body.len().to_string());
        }
        let multiplexed = request.version >= Version::HTTP_2;
        if multiplexed {
            // HTTP/2 and later have no `Connection` (RFC 9113 section 8.2.2).
        } else if !self.keep_alive {
            set(CONNECTION, "close");
        } else if asks_to_keep_alive(&request.headers) {
            // HTTP/1.0 closes the connection unless both ends send `keep-alive` (RFC 9112 appendix C.2.2).
            // Some clients of HTTP/1.1 expect it as well.
            set(CONNECTION, "keep-alive");
        }
        if self.alt_svc && request.version == Version::HTTP_3 {
            set(ALT_SVC, &format!("h3=\":{}\"", served.origin.port()));
        }
        if served.head.is_none() {
            set(SERVER, "fastopen");
            let lengthen = if multiplexed { fill } else { pad };
            lengthen(headers, "server", status_line_bytes(status), served.header_bytes as usize);
        }
        if has_body {
            *response.body_mut() = served.body.clone();
        }
        response
    }
}

fn asks_to_keep_alive(headers: &HeaderMap) -> bool {
    headers.get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"keep-alive"))
}

/// Bytes of a status line without its CRLF.
fn status_line_bytes(status: StatusCode) -> usize {
    "HTTP/1.1 200 ".len() + status.canonical_reason().unwrap_or("<none>").len()
}

/// Bytes of a response header on the wire of HTTP/1.
pub(super) fn response_header_bytes(response: &Response<SizedBody>) -> u64 {
    header_bytes(status_line_bytes(response.status()), response.headers()) as u64
}

/// The response to a request that the page does not have: 404, or a permitted preflight, since a recording
/// need not have the preflights of its requests.
fn not_found(request: &Parts) -> Response<SizedBody> {
    if cors::is_preflight(&request.method, &request.headers) {
        let mut response = Response::new(SizedBody::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        cors::allow(&request.headers, response.headers_mut());
        return response;
    }
    let text = "not part of this page\n";
    let mut response = Response::new(SizedBody::recorded(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = StatusCode::NOT_FOUND;
    // hyper would add it, and the header's size must be known before.
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    response
}
