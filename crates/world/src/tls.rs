//! The TLS handshakes of clients: the loader's own, and the records of all.

use std::io;
use std::sync::Arc;

use fastopen_netns::clock::monotonic_ns;
use fastopen_replay::counters::{CountedStream, Traffic};
use fastopen_replay::sockets::ObservedStream;
use fastopen_replay::tls::{Session, address};
use rustls::ClientConfig;
use rustls::pki_types::{DnsName, ServerName};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::contract::TlsRecord;

/// Does the TLS handshake on `stream` as a client of `host`. The record's time is of the monotonic clock.
///
/// # Errors
/// If the origin's certificate is not for `host`, or the connection fails.
pub async fn secure(
    config: Arc<ClientConfig>,
    host: &str,
    stream: ObservedStream,
) -> io::Result<(TlsStream<CountedStream<Traffic>>, TlsRecord)> {
    let name = server_name(host).ok_or_else(|| io::Error::other(format!("{host} is no name for TLS")))?;
    let stream = CountedStream::<Traffic>::new(stream);
    let counters = stream.counters();
    let stream = TlsConnector::from(config).connect(name, stream).await?;
    let secured_ns = monotonic_ns();
    let (session, traffic) = (stream.get_ref().1, counters.with(|traffic| *traffic));
    let sizes = Sizes {
        hello_bytes: traffic.bytes_written_first,
        sent_bytes: traffic.bytes_written,
        received_bytes: traffic.bytes_read,
    };
    let record = record(Session::of(session), secured_ns, sizes);
    Ok((stream, record))
}

/// Bytes on the wire of a handshake, as the client counts them.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// The `ClientHello`.
    pub hello_bytes: u64,
    /// All messages of the client.
    pub sent_bytes: u64,
    /// All messages of the origin.
    pub received_bytes: u64,
}

/// The record of a handshake.
pub fn record(session: Session, secured_ns: u64, sizes: Sizes) -> TlsRecord {
    let Session { version, cipher, group, alpn, resumed } = session;
    let Sizes { hello_bytes, sent_bytes, received_bytes } = sizes;
    TlsRecord {
        secured_ns,
        version,
        cipher: cipher.into(),
        group: group.map(Into::into),
        alpn,
        resumed,
        hello_bytes,
        sent_bytes,
        received_bytes,
    }
}

fn server_name(host: &str) -> Option<ServerName<'static>> {
    match address(host) {
        Some(address) => Some(ServerName::IpAddress(address.into())),
        None => DnsName::try_from(host.to_owned()).ok().map(ServerName::DnsName),
    }
}
