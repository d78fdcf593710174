//! Configures TLS (rustls) for the origin servers and the built-in page loader, with certificates of the
//! emulated network's authority. All messages have the same sizes in each page load.

mod authority;
mod ech;
mod post_quantum;
mod session;
mod signer;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::compress::{BROTLI_COMPRESSOR, BROTLI_DECOMPRESSOR, ZLIB_COMPRESSOR, ZLIB_DECOMPRESSOR};
use rustls::crypto::ring::kx_group::SECP256R1;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig};
use serde::{Deserialize, Serialize};

pub use authority::{Authority, address};
pub use session::{Clock, KeyLines, Session, Sessions};
pub use stream::{Handshake, Secured, TlsStream, wait_until_secured};

/// Maximum early data that an origin accepts on a connection, in bytes: the usual limit of OpenSSL and nginx.
const MAX_EARLY_DATA: u32 = 16_384;
/// Number of TLS 1.3 tickets that rustls keeps for each host.
pub const TICKETS_KEPT: usize = 8;

/// An error in the setup of TLS: a bug, or a host name that no certificate can hold.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Error {
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// The TLS settings of the origin servers and the page loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "docs/dev/contract.md describes each key")]
pub struct Settings {
    pub version: Version,
    pub key_share: KeyShare,
    pub session: SessionStart,
    pub tickets: u8,
    pub address_tokens: bool,
    pub retry: bool,
    pub early_data_rejected: bool,
    pub ticket_state: TicketState,
    pub certificates: Option<Certificates>,
    pub chain_bytes: u16,
    pub certificate_compression: CertificateCompression,
    pub ech: Ech,
    pub security: Security,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: Version::Tls13,
            key_share: KeyShare::X25519MlKem768,
            session: SessionStart::None,
            tickets: 2,
            address_tokens: true,
            retry: false,
            early_data_rejected: false,
            ticket_state: TicketState::Valid,
            certificates: None,
            chain_bytes: 3500,
            certificate_compression: CertificateCompression::None,
            ech: Ech::None,
            security: Security::Tls,
        }
    }
}

/// The use of TLS session tickets in a page load: none, to resume sessions, or also to send early data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStart {
    /// The client has no session ticket when the load begins.
    None,
    /// The client has tickets of an earlier visit.
    Resumed,
    /// The client has tickets, and sends its first requests as early data.
    Early,
}

/// The state, during a page load, of the TLS session tickets that the client got in an earlier visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TicketState {
    /// The tickets are valid.
    Valid,
    /// Client and origin disagree on ticket ages: sessions resume without early data (RFC 8446 section 8.3).
    Stale,
    /// The tickets are older than their lifetime, so clients do not use them (RFC 8446 section 4.6.1).
    Expired,
    /// The origins have forgotten the sessions. Clients use the tickets, but get full handshakes.
    Forgotten,
}

impl TicketState {
    /// Returns the time by which the client's clock must be ahead for its tickets to be in this state.
    pub const fn client_ahead(self) -> Duration {
        match self {
            Self::Valid | Self::Forgotten => Duration::ZERO,
            // Ten minutes: an origin rejects early data if client and origin disagree by more than one minute
            // on the ticket's age.
            Self::Stale => Duration::from_secs(600),
            // Origins issue tickets for a day.
            Self::Expired => Duration::from_secs(2 * 86_400),
        }
    }
}

/// The URLs that are served over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// Use TLS for all URLs, including those that were recorded with `http`.
    Tls,
    /// Use TLS only for URLs that were recorded with `https`.
    Recorded,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Version {
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

/// The key shares that a client sends (RFC 8446 section 4.2.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyShare {
    /// `X25519MLKEM768` and X25519, as in browsers since 2024: the `ClientHello` does not fit into a SYN.
    X25519MlKem768,
    /// Only ML-KEM-1024, with a key share of 1,568 bytes: the `ClientHello` does not fit into a SYN.
    MlKem1024,
    /// Only X25519: the `ClientHello` fits into a SYN.
    X25519,
    /// Only P-256: the `ClientHello` fits into a SYN.
    Secp256r1,
}

/// A kind of certificate. The kinds differ only in the size of the chain: origins always sign with ECDSA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Certificates {
    Ecdsa,
    Rsa,
    #[serde(rename = "ml-dsa-44")]
    MlDsa44,
    #[serde(rename = "ml-dsa-65")]
    MlDsa65,
    #[serde(rename = "slh-dsa-128s")]
    SlhDsa128s,
    MerkleTree,
}

/// An algorithm that compresses certificates (RFC 8879 section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum CertificateCompression {
    None,
    Brotli,
    Zlib,
}

/// A client's use of Encrypted `ClientHello` (RFC 9849).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ech {
    /// The `ClientHello` has no ECH extension.
    None,
    /// The `ClientHello` has a placeholder extension (GREASE). rustls then offers only TLS 1.3.
    Grease,
}

/// Creates the configuration of an origin with its certificate (`identity`) and these ALPN protocols. Stores
/// the sessions in `sessions` unless `settings` allow no tickets. Stateless tickets would permit replays of
/// early data (RFC 8446 section 8.1). Logs the connections' secrets to `keys`, if given.
pub fn server(
    settings: &Settings,
    identity: CertifiedKey,
    alpn: &[&[u8]],
    sessions: Arc<Sessions>,
    keys: Option<Arc<KeyLines>>,
) -> Result<ServerConfig, Error> {
    let versions = match settings.version {
        Version::Tls12 => &[&TLS12][..],
        Version::Tls13 => &[&TLS13, &TLS12],
    };
    let mut config = ServerConfig::builder_with_provider(origins_provider())
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    config.send_tls13_tickets = settings.tickets.into();
    config.session_storage = match settings.tickets {
        0 => Arc::new(NoServerSessionStorage {}),
        _ => sessions,
    };
    config.cert_compressors = match settings.certificate_compression {
        CertificateCompression::None => vec![],
        CertificateCompression::Brotli => vec![BROTLI_COMPRESSOR],
        CertificateCompression::Zlib => vec![ZLIB_COMPRESSOR],
    };
    config.max_early_data_size = MAX_EARLY_DATA;
    config.send_half_rtt_data = true;
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    if let Some(keys) = keys {
        config.key_log = keys;
    }
    Ok(config)
}

/// Returns `config` with a limit on the use of the session tickets that clients get. Unless `ticket_use` is
/// [`SessionStart::Early`], origins reject early data, and tickets do not permit early data. With
/// [`SessionStart::None`], the origin sends no tickets.
pub fn with_session_limit(config: &ServerConfig, ticket_use: SessionStart) -> ServerConfig {
    let mut config = config.clone();
    if ticket_use != SessionStart::Early {
        config.max_early_data_size = 0;
    }
    if ticket_use == SessionStart::None {
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    config
}

/// Creates the configuration of a client that trusts only `authority` and has no session tickets yet, with
/// room for the tickets of `hosts` hosts.
pub fn client(
    settings: &Settings,
    authority: &Authority,
    alpn: &[&[u8]],
    hosts: usize,
) -> Result<ClientConfig, Error> {
    let provider = provider(settings.key_share);
    let config = ClientConfig::builder_with_provider(provider.clone());
    let config = match settings.ech {
        Ech::None => config.with_protocol_versions(&[&TLS13, &TLS12])?,
        Ech::Grease => config.with_ech(ech::grease())?,
    };
    let mut config = config.with_webpki_verifier(authority.verifier(provider)?).with_no_client_auth();
    config.cert_decompressors = match settings.certificate_compression {
        CertificateCompression::None => vec![],
        CertificateCompression::Brotli => vec![BROTLI_DECOMPRESSOR],
        CertificateCompression::Zlib => vec![ZLIB_DECOMPRESSOR],
    };
    config.resumption = match settings.tickets {
        0 => Resumption::disabled(),
        _ => Resumption::in_memory_sessions(hosts.saturating_mul(TICKETS_KEPT)),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// Returns the cryptography provider of a client that sends `key_share` and supports X25519, P-256 and P-384.
fn provider(key_share: KeyShare) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    match key_share {
        KeyShare::X25519MlKem768 => provider.kx_groups.insert(0, &post_quantum::X25519MlKem768),
        KeyShare::MlKem1024 => provider.kx_groups.insert(0, &post_quantum::ML_KEM_1024),
        KeyShare::X25519 => {}
        KeyShare::Secp256r1 => {
            provider.kx_groups.retain(|group| group.name() != SECP256R1.name());
            provider.kx_groups.insert(0, SECP256R1);
        }
    }
    Arc::new(provider)
}

/// Returns the cryptography provider of the origins, which supports every [`KeyShare`].
fn origins_provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.kx_groups.insert(0, &post_quantum::ML_KEM_1024);
    provider.kx_groups.insert(0, &post_quantum::X25519MlKem768);
    Arc::new(provider)
}
