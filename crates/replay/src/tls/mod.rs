//! TLS of the origins and the loader: rustls with certificates of the world's authority. All messages have
//! the same sizes in each load.

mod authority;
mod hybrid;
mod session;
mod signer;

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};

pub use authority::{Authority, address};
pub use session::Session;

/// Why TLS cannot be set up: a bug, or a host name that no certificate can have.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Error {
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// TLS settings of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The newest version that the origins support. The loader offers 1.3 and 1.2.
    pub version: Version,
    /// The key shares in the loader's `ClientHello`.
    pub key_share: KeyShare,
    /// Whether origins send session tickets, with which later connections of a load resume (RFC 8446 section
    /// 2.2).
    pub resumption: bool,
    /// Bytes of the certificate chain that an origin sends.
    pub chain_bytes: u16,
    /// The URLs that are served over TLS, in loads that have TLS.
    pub security: Security,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: Version::Tls13,
            key_share: KeyShare::X25519MlKem768,
            resumption: true,
            chain_bytes: 3500,
            security: Security::Tls,
        }
    }
}

/// The URLs that are served over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// All: every origin speaks TLS on its port.
    Tls,
    /// Those recorded with `https`.
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

/// The key shares of a client (RFC 8446 section 4.2.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyShare {
    /// `X25519MLKEM768`, as in browsers since 2024, and X25519. Its 1.2 kB do not fit into a SYN.
    X25519MlKem768,
    /// X25519 alone: the `ClientHello` fits into a SYN.
    X25519,
}

/// The configuration of an origin with the certificate `identity` and these ALPN protocols.
///
/// # Errors
/// If the key does not match the certificates.
pub fn server(settings: &Settings, identity: CertifiedKey, alpn: &[&[u8]]) -> Result<ServerConfig, Error> {
    let versions = match settings.version {
        Version::Tls12 => &[&TLS12][..],
        Version::Tls13 => &[&TLS13, &TLS12],
    };
    let mut config = ServerConfig::builder_with_provider(provider(KeyShare::X25519MlKem768))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    if settings.resumption {
        config.ticketer = ring::Ticketer::new()?;
    } else {
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// The configuration of a client that trusts `authority` alone and has no session tickets.
///
/// # Errors
/// If the authority's certificate is invalid.
pub fn client(settings: &Settings, authority: &Authority, alpn: &[&[u8]]) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.root().clone())?;
    let mut config = ClientConfig::builder_with_provider(provider(settings.key_share))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    if !settings.resumption {
        config.resumption = Resumption::disabled();
    }
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

fn provider(key_share: KeyShare) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    if key_share == KeyShare::X25519MlKem768 {
        provider.kx_groups.insert(0, &hybrid::X25519MlKem768);
    }
    Arc::new(provider)
}
