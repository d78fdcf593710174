//! Defines TLS sessions: their parameters, the store from which servers resume them, the clock with which
//! clients compute the age of tickets, and the log of secrets with which Wireshark decrypts connections.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::server::StoresServerSessions;
use rustls::time_provider::TimeProvider;
use rustls::{CommonState, HandshakeKind, KeyLog, ProtocolVersion};

use super::Version;
use crate::lock;

/// Negotiated parameters of a TLS session, with names from IANA's registries.
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
    /// True if an earlier session was resumed, so that the server sent no certificates.
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

/// The sessions of all origins, keyed by ticket. The store has no size limit, because evictions would cause
/// full handshakes at random. Sessions are forgotten between loads.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<HashMap<Vec<u8>, Vec<u8>>>);

impl Sessions {
    /// Forgets all sessions, so that no earlier ticket can be resumed.
    pub fn forget(&self) {
        lock(&self.0).clear();
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        lock(&self.0).insert(key, value);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        lock(&self.0).get(key).cloned()
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        lock(&self.0).remove(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// A client's clock for the age of its tickets: the system's time plus the durations of [`Self::advance`].
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// Sets the clock ahead by the whole seconds of `by`. Repeated calls add up.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_secs(), Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let s = UnixTime::now().as_secs() + self.0.load(Ordering::Relaxed);
        Some(UnixTime::since_unix_epoch(Duration::from_secs(s)))
    }
}

/// The secrets with which Wireshark decrypts TLS connections, as lines of NSS's key log
/// (draft-ietf-tls-keylogfile).
#[derive(Debug, Default)]
pub struct KeyLines(Mutex<String>);

impl KeyLines {
    /// Returns the lines of the key log that were added since the last call.
    pub fn take(&self) -> String {
        std::mem::take(&mut lock(&self.0))
    }
}

impl KeyLog for KeyLines {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut lines = lock(&self.0);
        lines.push_str(label);
        for bytes in [client_random, secret] {
            lines.push(' ');
            for byte in bytes {
                let _ = write!(lines, "{byte:02x}");
            }
        }
        lines.push('\n');
    }
}
