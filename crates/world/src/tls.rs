//! The loader's end of TLS: a handshake over a connection, and what it came to.

use std::io;
use std::sync::Arc;

use fastopen_netns::clock::monotonic_ns;
use fastopen_replay::stream::{ObservedStream, WatchedStream};
use fastopen_replay::tls::address;
use rustls::pki_types::{DnsName, ServerName};
use rustls::{ClientConfig, HandshakeKind, ProtocolVersion};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::contract::TlsRecord;

/// Makes `stream` secure, as a client of `host`. The record's time is of the monotonic clock.
///
/// # Errors
/// Where the origin does not prove that it is `host`, or the connection breaks.
pub async fn secure(
    config: Arc<ClientConfig>,
    host: &str,
    stream: ObservedStream,
) -> io::Result<(TlsStream<WatchedStream>, TlsRecord)> {
    let name = server_name(host).ok_or_else(|| io::Error::other(format!("{host} is no name for TLS")))?;
    let stream = WatchedStream::new(stream);
    let watch = stream.watch();
    let stream = TlsConnector::from(config).connect(name, stream).await?;
    let secured_ns = monotonic_ns();
    let (session, traffic) = (stream.get_ref().1, watch.traffic());
    let record = TlsRecord {
        secured_ns,
        version: match session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "1.2",
            _ => "1.3",
        },
        cipher: session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or(""),
        group: session.negotiated_key_exchange_group().and_then(|group| group.name().as_str()),
        alpn: session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
        resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        hello_bytes: traffic.bytes_written_first,
        sent_bytes: traffic.bytes_written,
        received_bytes: traffic.bytes_read,
    };
    Ok((stream, record))
}

fn server_name(host: &str) -> Option<ServerName<'static>> {
    match address(host) {
        Some(address) => Some(ServerName::IpAddress(address.into())),
        None => DnsName::try_from(host.to_owned()).ok().map(ServerName::DnsName),
    }
}
