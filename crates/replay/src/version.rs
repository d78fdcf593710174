//! The versions of HTTP: what distinguishes each. Drivers are in `origins` and in the loader of the world.

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
}

/// What distinguishes a version from the others.
struct Properties {
    wire: Version,
    alpn: &'static [u8],
    max_streams: Option<u32>,
}

impl HttpVersion {
    fn properties(self) -> Properties {
        match self {
            Self::Http10 => Properties { wire: Version::HTTP_10, alpn: b"http/1.1", max_streams: None },
            Self::Http11 => Properties { wire: Version::HTTP_11, alpn: b"http/1.1", max_streams: None },
            Self::Http2 => Properties {
                wire: Version::HTTP_2,
                alpn: b"h2",
                max_streams: Some(http2::MAX_CONCURRENT_STREAMS),
            },
        }
    }

    /// The version in requests and responses.
    pub fn wire(self) -> Version {
        self.properties().wire
    }

    /// The ALPN protocol identifier (RFC 7301). An origin offers no other, so a response proves the version.
    pub fn alpn(self) -> &'static [u8] {
        self.properties().alpn
    }

    /// The most requests in flight on a connection; none for a version without streams.
    pub fn max_streams(self) -> Option<usize> {
        self.properties().max_streams.map(|streams| streams as usize)
    }

    /// Whether a connection carries several requests at once, each on a stream, with compressed headers.
    pub fn is_multiplexed(self) -> bool {
        self.properties().max_streams.is_some()
    }
}
