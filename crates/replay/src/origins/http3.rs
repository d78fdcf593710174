//! Serves HTTP/3: h3 handles concurrent requests of a connection, and quinn sends urgent responses first.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fastopen_netns::clock::{monotonic_ns, sleep_until};
use h3::error::StreamError;
use h3::server::{RequestResolver, builder};
use hyper::{Method, Response};
use quinn::Incoming;
use tokio::sync::watch;

use super::{Connection, Shared};
use crate::body::SizedBody;
use crate::counters::Traffic;
use crate::http2::MAX_HEADER_LIST_SIZE;
use crate::http2::frame_counters::DirectionTraffic;
use crate::http2::send::next_chunk;
use crate::http3::{Quic, StreamTable};
use crate::lock;
use crate::log::TlsHandshake;
use crate::priority::Priority;
use crate::quic::QuicOrigin;
use crate::sockets::FourTuple;

pub(super) async fn listen(origin: Arc<QuicOrigin>, shared: Arc<Shared>) {
    while let Some(incoming) = origin.endpoint.accept().await {
        let (origin, shared) = (origin.clone(), shared.clone());
        tokio::spawn(async move {
            // Ignore errors: the client causes and records them.
            let _ = serve(&origin, incoming, shared).await;
        });
    }
}

async fn serve(origin: &QuicOrigin, incoming: Incoming, shared: Arc<Shared>) -> io::Result<()> {
    let unknown = || io::Error::other("a connection to no host of the page");
    let (own, port) = (incoming.local_ip().ok_or_else(unknown)?, origin.endpoint.local_addr()?.port());
    let four_tuple = FourTuple { client: incoming.remote_address(), origin: SocketAddr::new(own, port) };
    let tls = shared.site.tls.as_ref().and_then(|tls| tls.servers.get(&four_tuple.origin.ip()).cloned());
    let tls = tls.filter(|_| shared.encrypted.load(Ordering::Relaxed)).ok_or_else(unknown)?;
    if origin.settings.retry && !incoming.remote_address_validated() {
        return incoming.retry().map_err(io::Error::other);
    }
    shared.log.accepted(four_tuple, monotonic_ns());
    let ticket_use = *lock(&shared.ticket_use);
    let accepted = origin.accept(incoming, &tls, ticket_use).await?;
    let _opened = shared.quic.opened(four_tuple, accepted.connection.clone());
    let early_bytes = Arc::<AtomicU64>::default();
    let report = {
        let (shared, early_bytes) = (shared.clone(), early_bytes.clone());
        move |complete| {
            let handshake = (accepted.handshake)(early_bytes.load(Ordering::Relaxed), complete);
            let seen = shared.quic.seen(four_tuple);
            let (bytes_read, bytes_written) = (seen.received.bytes, seen.sent.bytes);
            let traffic = Traffic { bytes_read, bytes_written, ..Traffic::default() };
            shared.log.tls_handshake(four_tuple, TlsHandshake { at_ns: monotonic_ns(), handshake, traffic });
        }
    };
    let (secured, established) = (watch::Sender::new(false), accepted.established);
    let connection = Connection { four_tuple, encrypted: true, http2: false, secured: secured.subscribe() };
    let table = {
        let (report, shared) = (report.clone(), shared.clone());
        StreamTable::with_read_callback(move |bytes| {
            // Until a Handshake packet with the client's Finished arrives, only early data can be read.
            if shared.quic.seen(four_tuple).received.handshake == 0 {
                early_bytes.fetch_add(bytes, Ordering::Relaxed);
                report(false);
            }
        })
    };
    let quic = accepted.connection.clone();
    tokio::spawn(async move {
        established.await;
        if quic.close_reason().is_none() {
            report(true);
            secured.send_replace(true);
        }
    });
    let mut http = builder()
        .max_field_section_size(MAX_HEADER_LIST_SIZE.into())
        .send_grease(false)
        .build::<_, Bytes>(Quic::without_early_data(accepted.connection, table.clone()))
        .await
        .map_err(io::Error::other)?;
    while let Some(request) = http.accept().await.map_err(io::Error::other)? {
        tokio::spawn(respond(connection.clone(), shared.clone(), table.clone(), request));
    }
    Ok(())
}

async fn respond(
    connection: Connection,
    shared: Arc<Shared>,
    table: StreamTable,
    request: RequestResolver<Quic, Bytes>,
) -> Result<(), StreamError> {
    let (request, mut stream) = request.resolve_request().await?;
    let request = request.into_parts().0;
    let found = shared.find(&connection, &request);
    while stream.recv_data().await?.is_some() {}
    let (response, arrived) = shared.respond(&connection, &request, found).await;
    let (head, body) = response.into_parts();
    let mut body = if request.method == Method::HEAD { SizedBody::default() } else { body };
    let id = stream.id();
    let due_ns = arrived.due_ns;
    let (counters, body_bytes) = (table.clone(), body.len());
    shared.log.arrived(arrived, move || {
        let written = counters.stream(id).written;
        let ended = written.last_ns.is_some() && written.body_bytes >= body_bytes;
        DirectionTraffic { ended, ..written }
    });
    table.prioritise(id, Priority::of(&request.headers));
    let _ = sleep_until(due_ns).await;
    stream.send_response(Response::from_parts(head, ())).await?;
    while let Some(chunk) = next_chunk(&mut body).await {
        stream.send_data(chunk).await?;
    }
    stream.finish().await
}
