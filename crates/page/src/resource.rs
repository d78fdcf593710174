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
#[expect(missing_docs, reason = "docs/dev/contract.md describes each key")]
pub struct Resource {
    pub url: PageUrl,
    #[serde(default = "get")]
    pub method: String,
    #[serde(default = "ok")]
    pub status: u16,
    #[serde(rename = "type")]
    pub kind: ResourceType,
    #[serde(default = "octet_stream")]
    pub mime: String,
    #[serde(default = "number::<400>")]
    pub request_header_bytes: u64,
    #[serde(default)]
    pub request_body_bytes: u64,
    #[serde(default = "number::<300>")]
    pub response_header_bytes: u64,
    pub body_bytes: u64,
    #[serde(default)]
    pub server_think_us: u64,
    #[serde(default)]
    pub server_send_us: u64,
    #[serde(deserialize_with = "Option::deserialize")]
    pub initiator: Option<usize>,
    #[serde(default)]
    pub initiator_at_bytes: Option<u64>,
    #[serde(default)]
    pub pushed: bool,
    #[serde(default)]
    pub processing_us: u64,
    #[serde(default)]
    pub phase: Phase,
    #[serde(default)]
    pub redirect_to: Option<String>,
    #[serde(default)]
    pub fresh_s: Option<u64>,
    #[serde(default)]
    pub validator: bool,
    #[serde(default)]
    pub alternatives: Vec<PageUrl>,
    #[serde(default)]
    pub http: Option<RecordedHttp>,
    #[serde(default)]
    pub body_offset: Option<u64>,
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
    /// The event waits for the resource if the client learns of it while the event waits for other resources.
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

fn number<const N: u64>() -> u64 {
    N
}
