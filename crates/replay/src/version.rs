//! Defines the versions of HTTP and their properties.

use std::fmt;

use hyper::Version;
use serde::{Deserialize, Serialize};

use crate::http2;

/// A version of HTTP that the origin servers and the built-in page loader support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum HttpVersion {
    #[serde(rename = "1.0")]
    Http10,
    #[serde(rename = "1.1")]
    Http11,
    #[serde(rename = "2")]
    Http2,
    #[serde(rename = "3")]
    Http3,
}

impl fmt::Display for HttpVersion {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(to)
    }
}

impl HttpVersion {
    /// Returns the corresponding value of hyper's `Version`.
    pub fn wire(self) -> Version {
        match self {
            Self::Http10 => Version::HTTP_10,
            Self::Http11 => Version::HTTP_11,
            Self::Http2 => Version::HTTP_2,
            Self::Http3 => Version::HTTP_3,
        }
    }

    /// Returns the ALPN protocol identifier (RFC 7301). An HTTP/3 origin accepts only `h3` over QUIC and `h2`
    /// over TCP. Any other origin accepts only its own version's protocol.
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http10 => b"http/1.0",
            Self::Http11 => b"http/1.1",
            Self::Http2 => b"h2",
            Self::Http3 => b"h3",
        }
    }

    /// Returns the maximum number of concurrent streams on a connection; `None` for HTTP/1 (no streams).
    pub fn max_streams(self) -> Option<usize> {
        match self {
            Self::Http10 | Self::Http11 => None,
            Self::Http2 | Self::Http3 => Some(http2::MAX_CONCURRENT_STREAMS as usize),
        }
    }

    /// Returns true if a connection carries concurrent requests, each on a stream, with compressed headers.
    pub fn is_multiplexed(self) -> bool {
        self.max_streams().is_some()
    }

    /// Returns the version that a host with this version uses over TCP: HTTP/2 instead of HTTP/3.
    #[must_use]
    pub fn over_tcp(self) -> Self {
        if self.is_quic() { Self::Http2 } else { self }
    }

    /// Returns true if connections use QUIC, which is always encrypted.
    pub fn is_quic(self) -> bool {
        self == Self::Http3
    }
}
