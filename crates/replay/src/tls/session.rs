//! The negotiated parameters of a TLS handshake.

use rustls::{CommonState, HandshakeKind, ProtocolVersion};

use super::Version;

/// Negotiated parameters, with names from IANA's registries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The TLS version; 1.3 if none has been negotiated yet.
    pub version: Version,
    /// The cipher suite; empty if none has been negotiated yet.
    pub cipher: &'static str,
    /// The key exchange group; `None` for a resumed TLS 1.2 session.
    pub group: Option<&'static str>,
    /// The application protocol, if ALPN selected one.
    pub alpn: Option<String>,
    /// Set if a session ticket replaced the certificates.
    pub resumed: bool,
}

impl Session {
    /// Returns the parameters that one end of a connection has negotiated so far.
    pub fn of(end: &CommonState) -> Self {
        Self {
            version: match end.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => Version::Tls12,
                _ => Version::Tls13,
            },
            cipher: end.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or(""),
            group: end.negotiated_key_exchange_group().and_then(|group| group.name().as_str()),
            alpn: end.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            resumed: end.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }
}
