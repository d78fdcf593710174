//! Performs the TLS handshakes of the built-in client (loader), and fetches session tickets beforehand.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fastopen_netns::clock::monotonic_ns;
use fastopen_replay::HttpVersion;
use fastopen_replay::counters::{Duplex, Traffic, counted};
use fastopen_replay::quic::{QuicClient, Runtime};
use fastopen_replay::tls::TlsStream;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::contract::TlsRecord;

/// Timeout for fetching the session tickets of one host, over a link without delay or loss.
const VISIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Creates a TLS connection to `host` over `stream`, without starting the handshake. At the end of the
/// handshake, the connection calls `secured` with a record whose time is on the monotonic clock.
pub fn connect(
    config: Arc<ClientConfig>,
    host: &str,
    stream: impl Duplex,
    secured: impl Fn(TlsRecord) + Send + 'static,
) -> io::Result<TlsStream<Box<dyn Duplex>>> {
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|_| io::Error::other(format!("{host} is not a valid server name for TLS")))?;
    let (stream, counters) = counted::<Traffic>(stream);
    TlsStream::connect(config, name, Box::new(stream) as Box<dyn Duplex>, move |handshake| {
        let Traffic { bytes_read, bytes_written, .. } = counters.with(|traffic| *traffic);
        secured(TlsRecord::new(handshake, bytes_written, bytes_read, monotonic_ns()));
    })
}

/// The built-in client's TLS and QUIC settings in one load, with its session tickets.
#[derive(Debug, Clone, Default)]
pub struct Secure {
    /// Settings for the page's hosts; None in cleartext loads.
    pub tls: Option<Arc<ClientConfig>>,
    /// The QUIC client; None in cleartext loads, and if no host speaks HTTP/3.
    pub quic: Option<QuicClient>,
    /// Settings for the resolver; None if names are not looked up over TLS.
    pub lookups: Option<Arc<ClientConfig>>,
}

/// Fetches session tickets from each host, and stores them in `tls` or `quic`. Opens a connection to each
/// host in turn, and closes it after receiving `tickets` tickets or, with TLS 1.2, after the handshake. Must
/// be called in the client's network namespace. Fails if a host takes longer than `VISIT_TIMEOUT`.
pub fn fetch_tickets(
    tls: &Arc<ClientConfig>,
    quic: Option<&QuicClient>,
    tickets: u8,
    hosts: &BTreeMap<String, (SocketAddr, HttpVersion)>,
) -> io::Result<()> {
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        for (host, (address, version)) in hosts {
            let visit = async {
                if let Some(quic) = quic.filter(|_| version.is_quic()) {
                    return quic.visit(host, *address, tickets.into()).await;
                }
                let socket = TcpStream::connect(address).await?;
                SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
                let mut stream = connect(tls.clone(), host, socket, |_| {})?;
                stream.handshake().await?;
                stream.receive_tickets(tickets.into()).await
            };
            let failed = |error| io::Error::other(format!("fetching session tickets from {host}: {error}"));
            timeout(VISIT_TIMEOUT, visit).await.unwrap_or_else(|late| Err(late.into())).map_err(failed)?;
        }
        Ok(())
    })
}
