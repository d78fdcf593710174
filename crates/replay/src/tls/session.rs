//! What a TLS handshake came to, as either end knows it.

use rustls::{CommonState, HandshakeKind, ProtocolVersion};

/// What both ends agreed on; names as in IANA's registries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// `1.3` or `1.2`.
    pub version: &'static str,
    /// The cipher suite.
    pub cipher: &'static str,
    /// The group of the key exchange; none where a session of TLS 1.2 was resumed.
    pub group: Option<&'static str>,
    /// The application protocol, if one was agreed on (ALPN).
    pub alpn: Option<String>,
    /// Whether a ticket of an earlier connection spared the certificates.
    pub resumed: bool,
}

impl Session {
    /// Of an end whose handshake is over.
    pub fn of(end: &CommonState) -> Self {
        Self {
            version: match end.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "1.2",
                _ => "1.3",
            },
            cipher: end.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or(""),
            group: end.negotiated_key_exchange_group().and_then(|group| group.name().as_str()),
            alpn: end.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            resumed: end.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }
}
