//! Configures the emulated origin servers of a page, and creates their responses from its resources.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use fastopen_link::ip;
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
use crate::tls::{Security, Sessions};

/// The request header with which clients select one of several resources with the same URL, by its index.
pub const RESOURCE_HEADER: &str = "x-resource";

/// The configuration of an emulated network's origin servers, and the resources that they serve.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Site {
    /// All resources of the page, in the page's order, as served in cleartext.
    pub resources: Vec<ServedResource>,
    /// The IP versions for which every host has an address.
    pub ip: ip::Versions,
    /// Ports to listen on, at the addresses of all hosts.
    pub ports: BTreeSet<u16>,
    /// True to keep HTTP/1 connections open after a response.
    pub keep_alive: bool,
    /// True if each address serves its connections one at a time, in the order in which they were accepted.
    /// Then `keep_alive` must be false, because an idle connection would block all others.
    pub single_threaded: bool,
    /// Length of a listener's Fast Open queue (see [`fastopen_netns::tcp::set_fastopen_queue`]).
    pub fastopen_queue: i32,
    /// The HTTP version of each host. Clients select it by ALPN over TLS, and with prior knowledge in
    /// cleartext (RFC 9113 section 3.3).
    pub versions: BTreeMap<IpAddr, HttpVersion>,
    /// The TLS settings; `None` if no load uses TLS.
    pub tls: Option<TlsSite>,
    /// True to answer a request for an unknown URL with the resource of the most similar known URL.
    pub accepts_similar_urls: bool,
    /// True to send `Alt-Svc` in responses over HTTP/3, as real servers do. Without it, Chromium assumes that
    /// the host ignores priorities, and requests at most six images at a time.
    pub alt_svc: bool,
    /// The resolver; `None` if clients know all addresses.
    pub names: Option<Names>,
}

/// The TLS settings of a site.
#[derive(Clone)]
pub struct TlsSite {
    /// The TLS configuration of each host.
    pub servers: BTreeMap<IpAddr, Arc<ServerConfig>>,
    /// The resources as served in loads with TLS. The URLs in their bodies differ from those in cleartext.
    pub resources: Vec<ServedResource>,
    /// The connections that use TLS: all, or those that start with a TLS record.
    pub security: Security,
    /// The sessions that clients can resume.
    pub sessions: Arc<Sessions>,
    /// The QUIC settings; `None` if no host uses HTTP/3.
    pub quic: Option<quic::Settings>,
}

/// One resource as an origin serves it.
#[derive(Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ServedResource {
    pub host: ip::Addresses,
    pub port: u16,
    pub method: String,
    /// Path and query as the page lists them.
    pub target: String,
    /// Path and query as browsers normalize them.
    pub normalized_target: String,
    /// Other URLs that get this response, such as other sizes of a picture, unless a resource has the same
    /// URL. Each is a pair: address and port of an origin, and a normalized path and query. Unused if
    /// [`Site::accepts_similar_urls`] is false.
    pub alternatives: Vec<(SocketAddr, String)>,
    pub status: u16,
    pub mime: String,
    /// The recorded header fields, sent unchanged except for fields about caching, CORS and the connection;
    /// `None` for a generated head.
    pub head: Option<HeaderMap>,
    /// The `Location` header of a redirect; `None` without a redirect.
    pub location: Option<String>,
    /// Size of a generated head in bytes. The head is longer if its mandatory fields need more.
    pub header_bytes: u32,
    pub body: SizedBody,
    /// Server think time: from the last byte of the request to the first of the response, in nanoseconds.
    pub think_ns: u64,
    /// Freshness and validator; `None` for a response without caching headers, which is never revalidated.
    pub cache_policy: Option<CachePolicy>,
    /// True for a CORS preflight that the origin refuses: the response gets no CORS headers.
    pub refuses_preflight: bool,
}

impl Site {
    pub(super) fn version(&self, address: IpAddr) -> HttpVersion {
        self.versions.get(&address).copied().unwrap_or(HttpVersion::Http11)
    }

    pub(super) fn response(&self, served: &ServedResource, request: &Parts) -> Response<SizedBody> {
        let cache_policy = served.cache_policy.as_ref();
        let status = match cache_policy {
            Some(policy) if policy.validates(&request.method, &request.headers) => StatusCode::NOT_MODIFIED,
            _ => StatusCode::from_u16(served.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        let has_body = !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            && request.method != Method::HEAD;
        let mut response = Response::new(if has_body { served.body.clone() } else { SizedBody::default() });
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
            // Some HTTP/1.1 clients expect this field as well.
            set(CONNECTION, "keep-alive");
        }
        if self.alt_svc && request.version == Version::HTTP_3 {
            set(ALT_SVC, &format!("h3=\":{}\"", served.port));
        }
        if served.head.is_none() {
            set(SERVER, "fastopen");
            let lengthen = if multiplexed { fill } else { pad };
            lengthen(headers, "server", status_line_bytes(status), served.header_bytes as usize);
        }
        response
    }
}

fn asks_to_keep_alive(headers: &HeaderMap) -> bool {
    headers.get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"keep-alive"))
}

/// Returns the size of a status line in bytes, without its CRLF.
fn status_line_bytes(status: StatusCode) -> usize {
    "HTTP/1.1 200 ".len() + status.canonical_reason().unwrap_or("<none>").len()
}

/// Returns the size of a response's header section in HTTP/1, in bytes, including the status line.
pub(super) fn response_header_bytes(response: &Response<SizedBody>) -> u64 {
    header_bytes(status_line_bytes(response.status()), response.headers()) as u64
}

/// Creates a 404 response or, for a CORS preflight, a 204 that permits it: recordings may lack preflights.
pub(super) fn not_found(request: &Parts) -> Response<SizedBody> {
    if cors::is_preflight(&request.method, &request.headers) {
        let mut response = Response::new(SizedBody::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        cors::allow(&request.headers, response.headers_mut());
        return response;
    }
    let text = "not part of this page\n";
    let mut response = Response::new(SizedBody::default().and_bytes(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = StatusCode::NOT_FOUND;
    // hyper would add this field later, but the header's size must be known here.
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    response
}
