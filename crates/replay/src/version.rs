//! The versions of HTTP: what distinguishes each. Drivers are in `origins` and in the loader of the world.

use std::fmt;

use hyper::Version;
use serde::Deserialize;

use crate::http2;

/// A version of HTTP that origins and the loader speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
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
        to.write_str(match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2",
            Self::Http3 => "3",
        })
    }
}

impl HttpVersion {
    /// The version in requests and responses.
    pub fn wire(self) -> Version {
        match self {
            Self::Http10 => Version::HTTP_10,
            Self::Http11 => Version::HTTP_11,
            Self::Http2 => Version::HTTP_2,
            Self::Http3 => Version::HTTP_3,
        }
    }

    /// The ALPN protocol identifier (RFC 7301). An origin offers no other, so a response proves the version.
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http10 => b"http/1.0",
            Self::Http11 => b"http/1.1",
            Self::Http2 => b"h2",
            Self::Http3 => b"h3",
        }
    }

    /// The most requests in flight on a connection; none for a version without streams.
    pub fn max_streams(self) -> Option<usize> {
        match self {
            Self::Http10 | Self::Http11 => None,
            Self::Http2 | Self::Http3 => Some(http2::MAX_CONCURRENT_STREAMS as usize),
        }
    }

    /// Whether a connection carries several requests at once, each on a stream, with compressed headers.
    pub fn is_multiplexed(self) -> bool {
        self.max_streams().is_some()
    }

    /// What a host that speaks this version speaks over TCP.
    #[must_use]
    pub fn over_tcp(self) -> Self {
        if self.is_quic() { Self::Http2 } else { self }
    }

    /// Whether connections are QUIC's, which are encrypted always.
    pub fn is_quic(self) -> bool {
        self == Self::Http3
    }
}
