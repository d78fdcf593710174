//! Accepts QUIC connections at the origins, with one endpoint for each IP version and port.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use fastopen_netns::clock::monotonic_ns;
use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn::{Connection, Endpoint, Incoming, ServerConfig, ValidationTokenConfig};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

use super::congestion::RoomFactory;
use super::runtime::ExactRuntime;
use super::socket::CountedSocket;
use super::table::QuicTable;
use super::tickets::UsedTokens;
use super::{Settings, endpoint_config, handshake, transport};
use crate::tls::{Handshake, SessionStart, with_session_limit};

pub(crate) struct QuicOrigin {
    pub(crate) endpoint: Endpoint,
    config: ServerConfig,
    pub(crate) settings: Settings,
}

impl QuicOrigin {
    /// Opens an endpoint for connections to `local`, inside a [`super::Runtime`]. Counts packets in `table`.
    /// `tls` is any host's TLS 1.3 configuration: [`QuicOrigin::accept`] replaces it for each connection.
    pub(crate) fn listen(
        local: SocketAddr,
        settings: Settings,
        tls: &rustls::ServerConfig,
        table: &Arc<QuicTable>,
    ) -> io::Result<Self> {
        let mut config = ServerConfig::with_crypto(crypto(tls.clone())?);
        let mut tokens = ValidationTokenConfig::default();
        // As many tokens as tickets, because each connection uses one of each.
        tokens.sent(if settings.address_tokens { tls.send_tls13_tickets as u32 } else { 0 });
        tokens.log(Arc::new(UsedTokens::default()));
        config.transport_config(transport(settings.control.clone())).validation_token_config(tokens);
        let socket = Arc::new(CountedSocket::new(local, None, table.clone())?);
        let runtime = Arc::new(ExactRuntime::default());
        let endpoint =
            Endpoint::new_with_abstract_socket(endpoint_config(), Some(config.clone()), socket, runtime)?;
        Ok(Self { endpoint, config, settings })
    }

    /// Accepts a QUIC connection, with the TLS configuration of its host, and answers the `ClientHello`.
    /// `ticket_use` is the permitted use of the session tickets that the client gets.
    pub(crate) async fn accept(
        &self,
        incoming: Incoming,
        tls: &rustls::ServerConfig,
        ticket_use: SessionStart,
    ) -> io::Result<Accepted> {
        let provider = tls.crypto_provider().clone();
        let certified = Arc::<AtomicBool>::default();
        let completed_ns = Arc::<OnceLock<u64>>::default();
        let mut tls = with_session_limit(tls, ticket_use);
        tls.cert_resolver = Arc::new(NotingResolver(tls.cert_resolver.clone(), certified.clone()));
        let mut config = self.config.clone();
        config.crypto = crypto(tls)?;
        if ticket_use == SessionStart::None {
            let mut none = ValidationTokenConfig::default();
            none.sent(0);
            config.validation_token_config(none);
        }
        let control =
            RoomFactory { inner: self.settings.control.clone(), completed_ns: completed_ns.clone() };
        config.transport_config(transport(Arc::new(control)));
        let mut connecting = incoming.accept_with(Arc::new(config)).map_err(io::Error::other)?;
        let data = connecting.handshake_data().await.map_err(io::Error::other)?;
        let alpn = data.downcast::<HandshakeData>().ok().and_then(|data| data.protocol);
        let (connection, established) =
            connecting.into_0rtt().map_err(|_| io::Error::other("a server's connection has no 0.5-RTT"))?;
        let established = Box::pin(async move {
            established.await;
            let _ = completed_ns.set(monotonic_ns());
        });
        let handshake = Arc::new(move |early_bytes, complete| {
            let resumed = !certified.load(Ordering::Relaxed);
            handshake(&provider, alpn.clone(), resumed, early_bytes, complete)
        });
        Ok(Accepted { connection, established, handshake })
    }
}

fn crypto(mut tls: rustls::ServerConfig) -> io::Result<Arc<QuicServerConfig>> {
    // QUIC's own flow control limits early data (RFC 9001 section 4.6.1).
    if tls.max_early_data_size != 0 {
        tls.max_early_data_size = u32::MAX;
    }
    QuicServerConfig::try_from(tls).map(Arc::new).map_err(io::Error::other)
}

/// An accepted connection whose handshake continues.
pub(crate) struct Accepted {
    pub(crate) connection: Connection,
    /// Resolves when the handshake has ended.
    pub(crate) established: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Function that describes the handshake. Its arguments are the number of early data bytes that were
    /// read, and true if the handshake is complete.
    pub(crate) handshake: Arc<dyn Fn(u64, bool) -> Handshake + Send + Sync>,
}

/// A certificate resolver that sets a flag when the origin signs with the certificate's key. The flag shows
/// that the session is not resumed, because a resumed session needs no certificate.
#[derive(Debug)]
struct NotingResolver(Arc<dyn ResolvesServerCert>, Arc<AtomicBool>);

impl ResolvesServerCert for NotingResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let identity = self.0.resolve(hello)?;
        let key = Arc::new(NotingKey(identity.key.clone(), self.1.clone()));
        Some(Arc::new(CertifiedKey::new(identity.cert.clone(), key)))
    }
}

#[derive(Debug)]
struct NotingKey(Arc<dyn SigningKey>, Arc<AtomicBool>);

impl SigningKey for NotingKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.1.store(true, Ordering::Relaxed);
        self.0.choose_scheme(offered)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}
