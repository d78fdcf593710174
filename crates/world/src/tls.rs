//! The TLS handshakes of the loader.

use std::io;
use std::sync::Arc;

use fastopen_netns::clock::monotonic_ns;
use fastopen_replay::counters::{Duplex, Traffic, counted};
use fastopen_replay::sockets::ObservedStream;
use fastopen_replay::tls::{Session, address};
use rustls::ClientConfig;
use rustls::pki_types::{DnsName, ServerName};
use tokio_rustls::TlsConnector;

use crate::contract::TlsRecord;

/// Does the TLS handshake on `stream` as a client of `host`. The record's time is of the monotonic clock.
///
/// # Errors
/// If the origin's certificate is not for `host`, or the connection fails.
pub async fn secure(
    config: Arc<ClientConfig>,
    host: &str,
    stream: ObservedStream,
) -> io::Result<(Box<dyn Duplex>, TlsRecord)> {
    let name = server_name(host).ok_or_else(|| io::Error::other(format!("{host} is no name for TLS")))?;
    let (stream, counters) = counted::<Traffic>(stream);
    let stream = TlsConnector::from(config).connect(name, stream).await?;
    let secured_ns = monotonic_ns();
    let (session, traffic) = (stream.get_ref().1, counters.with(|traffic| *traffic));
    let record = TlsRecord {
        hello_bytes: traffic.bytes_written_first,
        sent_bytes: traffic.bytes_written,
        received_bytes: traffic.bytes_read,
        ..TlsRecord::new(Session::of(session), secured_ns)
    };
    Ok((Box::new(stream), record))
}

fn server_name(host: &str) -> Option<ServerName<'static>> {
    match address(host) {
        Some(address) => Some(ServerName::IpAddress(address.into())),
        None => DnsName::try_from(host.to_owned()).ok().map(ServerName::DnsName),
    }
}
