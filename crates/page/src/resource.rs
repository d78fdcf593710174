//! Defines a resource of a page: a request, its response, and the initiator of the request.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::PageUrl;

/// The version of HTTP of a recorded response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RecordedHttp {
    #[serde(rename = "1.0")]
    Http10,
    #[serde(rename = "1.1")]
    Http11,
    #[serde(rename = "2")]
    Http2,
    #[serde(rename = "3")]
    Http3,
}

/// One request of a page and its response. Sizes are in bytes as sent over HTTP/1.1, times in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// The requested URL. Several resources may have the same URL.
    pub url: PageUrl,
    /// The request method.
    #[serde(default = "get")]
    pub method: String,
    /// The status of the response, 200 to 599.
    #[serde(default = "ok")]
    pub status: u16,
    /// The resource type that the browser recorded.
    #[serde(rename = "type")]
    pub kind: ResourceType,
    /// The Content-Type of the response.
    #[serde(default = "octet_stream")]
    pub mime: String,
    /// Size of the request line, headers and blank line.
    #[serde(default = "default_request_header_bytes")]
    pub request_header_bytes: u64,
    /// Size of the request body.
    #[serde(default)]
    pub request_body_bytes: u64,
    /// Size of the status line, headers and blank line.
    #[serde(default = "default_response_header_bytes")]
    pub response_header_bytes: u64,
    /// Size of the response body as sent, after any content coding such as gzip.
    pub body_bytes: u64,
    /// Time from the last byte of the request to the first byte of the response, at the server.
    #[serde(default)]
    pub server_think_us: u64,
    /// Time that the server takes to produce the body, from its first to its last byte.
    #[serde(default)]
    pub server_send_us: u64,
    /// Index of the resource that reveals this resource; `None` (explicit `null`) only for the root document.
    #[serde(deserialize_with = "Option::deserialize")]
    pub initiator: Option<usize>,
    /// Bytes of the initiator's body that must arrive to reveal this resource; `None` for the whole response.
    #[serde(default)]
    pub initiator_at_bytes: Option<u64>,
    /// True if the server pushes the resource, so that the client learns of it with the initiator's request.
    #[serde(default)]
    pub pushed: bool,
    /// Time from this resource's discovery (`initiator_at_bytes`, `pushed`) until its request is queued.
    #[serde(default)]
    pub processing_us: u64,
    /// The relation of the request to the load event: awaited, not awaited, or sent after the event.
    #[serde(default)]
    pub phase: Phase,
    /// The Location of a 3xx response. The redirect leads to the first resource that this resource initiates.
    #[serde(default)]
    pub redirect_to: Option<String>,
    /// Freshness lifetime in seconds (RFC 9111 section 4.2); 0 if it is stale at once, `None` if unknown.
    #[serde(default)]
    pub fresh_s: Option<u64>,
    /// True if the response has a validator, so that a cache can revalidate it (RFC 9110 section 8.8).
    #[serde(default)]
    pub validator: bool,
    /// Other URLs for which a server returns this resource's recorded body. Examples are other sizes of an
    /// image in a `srcset` or `picture`, and other names that a mirrored site uses for the same file.
    #[serde(default)]
    pub alternatives: Vec<PageUrl>,
    /// HTTP version of the recorded response; `None` if unknown. Page loads do not use this version.
    #[serde(default)]
    pub http: Option<RecordedHttp>,
    /// Byte offset of the recorded body in `bodies_file`, the file of recorded responses; `None` if absent.
    #[serde(default)]
    pub body_offset: Option<u64>,
    /// Byte offset of the recorded headers in `bodies_file` (see `body_offset`); `None` if absent.
    #[serde(default)]
    pub head_offset: Option<u64>,
}

/// A resource type, as browsers record it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ResourceType {
    Document,
    Stylesheet,
    Script,
    Image,
    Font,
    Xhr,
    Media,
    Other,
}

impl ResourceType {
    /// Returns the request's urgency (RFC 9218 section 4.1), from 0, the most urgent, to 3. Resources that
    /// block rendering come first, then resources that scripts use, then resources that are only displayed.
    pub fn urgency(self) -> u8 {
        match self {
            Self::Document | Self::Stylesheet | Self::Font => 0,
            Self::Script | Self::Xhr => 1,
            Self::Media | Self::Other => 2,
            Self::Image => 3,
        }
    }
}

/// The relation of a resource to the load event. The script `runtime.js` uses the variants' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The load event waits for the resource, if the client learns of it while the event waits for others.
    #[default]
    Load,
    /// May be requested before the load event, but the load event does not wait for the resource.
    Async,
    /// Requested after the load event.
    After,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

fn get() -> String {
    "GET".to_owned()
}

fn ok() -> u16 {
    200
}

fn octet_stream() -> String {
    "application/octet-stream".to_owned()
}

fn default_request_header_bytes() -> u64 {
    400
}

fn default_response_header_bytes() -> u64 {
    300
}
