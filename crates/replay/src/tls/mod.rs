//! TLS as the origins and the loader speak it: rustls, certificates of the world's own authority, sizes that are always the same.

mod authority;
mod hybrid;
mod session;
mod steady;

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

pub use authority::{Authority, address};
pub use session::Session;

/// Why TLS could not be set up: a bug, or a host that no certificate can name.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Error {
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// How TLS is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The newest version that the origins speak. Clients offer 1.3 and 1.2, whatever the origins do.
    pub version: Version,
    /// What the loader's first message holds keys for.
    pub key_share: KeyShare,
    /// Whether tickets are handed out and used: a later connection of a load then needs no certificates.
    pub resumption: bool,
    /// Bytes of the certificates that an origin sends, as far as they can be made so long.
    pub chain_bytes: usize,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Version {
    Tls12,
    Tls13,
}

/// The key exchange that the client bets on (RFC 8446 section 4.2.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyShare {
    /// X25519 with ML-KEM-768, as browsers do since 2024, and X25519 alone: 1.2 kB more than a SYN has room for.
    X25519MlKem768,
    /// X25519 alone: fits into a SYN.
    X25519,
}

/// What an origin speaks that shows `identity`, with the application protocols that it knows (ALPN).
///
/// # Errors
/// Where the key does not fit the certificates.
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

/// What a client speaks that trusts `authority` and has never been anywhere: it holds no tickets yet.
///
/// # Errors
/// Where the authority's certificate is unsound.
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
