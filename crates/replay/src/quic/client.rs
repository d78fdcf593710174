//! Opens QUIC connections as a client, each on its own socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastopen_link::ip;
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig};
use quinn::{Connection, Endpoint, VarInt, ZeroRttAccepted};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::time_provider::TimeProvider;

use super::runtime::ExactRuntime;
use super::socket::CountedSocket;
use super::table::{Opened, QuicTable};
use super::tickets::TicketStore;
use super::verifier::NotingVerifier;
use super::{Settings, endpoint_config, handshake, transport};
use crate::HttpVersion;
use crate::sockets::FourTuple;
use crate::tls::{self, Authority, Handshake};

/// Opens QUIC connections, with the session tickets and address tokens of earlier connections.
#[derive(Debug, Clone)]
pub struct QuicClient {
    config: quinn::ClientConfig,
    provider: Arc<CryptoProvider>,
    ticket_store: Arc<TicketStore>,
    address_tokens: bool,
}

/// A client's QUIC connection that can carry requests.
pub struct Connected {
    _opened: Opened,
    /// quinn's handle to the connection.
    pub connection: Connection,
    /// Addresses and ports of both ends.
    pub four_tuple: FourTuple,
    /// A future that resolves at the end of the handshake, to true if the server accepted the early data.
    /// `None` if the connection cannot send early data.
    pub early: Option<ZeroRttAccepted>,
    provider: Arc<CryptoProvider>,
    certified: Arc<AtomicBool>,
    // Keeps the socket open.
    endpoint: Endpoint,
}

impl Connected {
    /// Closes the connection and aborts its requests.
    pub fn close(&self) {
        self.connection.close(VarInt::from_u32(0), b"");
    }

    /// Describes the complete handshake, in which the origin accepted `early_bytes` bytes of early data.
    pub fn handshake(&self, early_bytes: u64) -> Handshake {
        let data = self.connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
        let resumed = !self.certified.load(Ordering::Relaxed);
        handshake(&self.provider, data.and_then(|data| data.protocol), resumed, early_bytes, true)
    }
}

impl QuicClient {
    /// Creates a client that trusts only `authority` and has no tickets yet, with room for tickets of `hosts`
    /// hosts. If `early` is true, tickets are used to send early data. `clock` determines the age of tickets.
    pub fn new(
        settings: Settings,
        tls: &tls::Settings,
        authority: &Authority,
        hosts: usize,
        early: bool,
        clock: Arc<dyn TimeProvider>,
    ) -> Result<Self, tls::Error> {
        let mut config = tls::client(tls, authority, &[HttpVersion::Http3.alpn()], hosts)?;
        let provider = config.crypto_provider().clone();
        let verifier = NotingVerifier(authority.verifier(provider.clone())?);
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        let ticket_store = TicketStore::new(hosts.saturating_mul(tls::TICKETS_KEPT));
        config.resumption = Resumption::store(ticket_store.clone());
        config.enable_early_data = early;
        config.time_provider = clock;
        let crypto =
            QuicClientConfig::try_from(config).map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(transport(settings.control)).token_store(ticket_store.clone());
        Ok(Self { config, provider, ticket_store, address_tokens: settings.address_tokens })
    }

    /// Opens a connection to `host` at `address`, and counts its packets in `table`. `port` is the client's
    /// port; `None` if the kernel chooses it. Calls `begun` with the four-tuple before the handshake. Returns
    /// when the connection can carry a request: at once if it may send early data, else after the handshake.
    pub async fn connect(
        &self,
        host: &str,
        address: SocketAddr,
        port: Option<u16>,
        table: &Arc<QuicTable>,
        begun: impl FnOnce(FourTuple),
    ) -> io::Result<Connected> {
        let own = SocketAddr::new(ip::Version::of(address.ip()).unspecified(), port.unwrap_or(0));
        let socket = Arc::new(CountedSocket::new(own, Some(address), table.clone())?);
        let four_tuple = FourTuple { client: socket.local(), origin: address };
        begun(four_tuple);
        let runtime = Arc::new(ExactRuntime::default());
        let certified = runtime.certified.clone();
        let endpoint = Endpoint::new_with_abstract_socket(endpoint_config(), None, socket, runtime)?;
        let name = tls::address(host).map_or_else(|| host.to_owned(), |address| address.to_string());
        let connecting =
            endpoint.connect_with(self.config.clone(), address, &name).map_err(io::Error::other)?;
        let (connection, early) = match connecting.into_0rtt() {
            Ok((connection, accepted)) => (connection, Some(accepted)),
            Err(connecting) => (connecting.await.map_err(io::Error::other)?, None),
        };
        let opened = table.opened(four_tuple, connection.clone());
        let provider = self.provider.clone();
        Ok(Connected { _opened: opened, connection, four_tuple, early, provider, certified, endpoint })
    }

    /// Connects to a host to get tickets and tokens for later connections. Waits, without a time limit, for
    /// `tickets` session tickets and, if origins issue address tokens, as many tokens. Closes the connection.
    pub async fn visit(&self, host: &str, address: SocketAddr, tickets: usize) -> io::Result<()> {
        let mut received = self.ticket_store.received.subscribe();
        let (had_tickets, had_tokens) = *received.borrow_and_update();
        let table = Arc::default();
        let connected = self.connect(host, address, None, &table, |_| {}).await?;
        let tokens = if self.address_tokens { tickets } else { 0 };
        let all = |now: &(usize, usize)| now.0 >= had_tickets + tickets && now.1 >= had_tokens + tokens;
        received.wait_for(all).await.map_err(io::Error::other)?;
        connected.close();
        connected.endpoint.wait_idle().await;
        Ok(())
    }
}
