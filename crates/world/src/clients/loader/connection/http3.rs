//! Speaks HTTP/3 for the built-in client: sends each request immediately, on a new stream. With a session
//! ticket, sends safe requests as early data before the handshake has ended.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use fastopen_netns::clock::monotonic_ns;
use fastopen_replay::body::SizedBody;
use fastopen_replay::http2::MAX_HEADER_LIST_SIZE;
use fastopen_replay::http3::{Early, Quic, StreamTable};
use fastopen_replay::quic::table::QuicTable;
use fastopen_replay::quic::{Connected, QuicClient};
use h3::client::{RequestStream, SendRequest, builder};
use h3::error::StreamError;
use h3::quic::BidiStream;
use http_body_util::BodyExt;
use hyper::Request;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Connection, Exchange, Opened, QueuedRequest, Report};
use crate::contract::TlsRecord;

pub(super) async fn run(
    connection: Arc<Connection>,
    quic: QuicClient,
    mut requests: UnboundedReceiver<QueuedRequest>,
) -> io::Result<()> {
    let opened_ns = monotonic_ns();
    let table = connection.shared.quic_table.clone();
    let begun = |four_tuple| connection.report(Report::Begun(connection.id, four_tuple));
    let mut connected =
        quic.connect(&connection.host, connection.address, connection.port, &table, begun).await?;
    let opened = Opened { at_ns: opened_ns, established: false, four_tuple: connected.four_tuple };
    connection.report(Report::Connected(Some(connection.id), opened));
    let accepted = connected.early.take();
    let early = watch::Sender::new(if accepted.is_some() { Early::Pending } else { Early::Taken });
    let (mut streams, mut driver) = Streams::begin(&connection, &connected, early.subscribe()).await?;
    if accepted.is_none() {
        streams.secured(&connected, &table, 0);
    }
    connection.report(Report::Ready(connection.id));
    if let Some(mut accepted) = accepted {
        // Safe requests are sent as early data, and again if the server rejects that. Unsafe requests wait.
        let (mut sent, mut waiting) = (Vec::new(), Vec::new());
        let taken = loop {
            tokio::select! {
                biased;
                taken = &mut accepted => break taken,
                request = requests.recv() => {
                    let Some(request) = request else {
                        connected.close();
                        return Ok(());
                    };
                    // Early data can be replayed (RFC 8470 section 4), so only safe requests are sent in it.
                    if request.request.method().is_safe() {
                        sent.push(request.clone());
                        streams.send(request).await;
                    } else {
                        waiting.push(request);
                    }
                }
            }
        };
        if let Some(error) = connected.connection.close_reason() {
            early.send_replace(Early::Taken);
            return Err(io::Error::other(error));
        }
        let early_bytes = if taken { streams.table.bytes_written() } else { 0 };
        early.send_replace(if taken { Early::Taken } else { Early::Rejected });
        if !taken {
            driver.abort();
            let settled = watch::Sender::new(Early::Taken).subscribe();
            (streams, driver) = Streams::begin(&connection, &connected, settled).await?;
            waiting.splice(0..0, sent);
        }
        streams.secured(&connected, &table, early_bytes);
        for request in waiting {
            streams.send(request).await;
        }
    }
    while let Some(request) = connection.next(&mut requests, &mut driver).await {
        streams.send(request).await;
    }
    Ok(())
}

struct Streams {
    connection: Arc<Connection>,
    table: StreamTable,
    early: watch::Receiver<Early>,
    sender: SendRequest<Quic, Bytes>,
}

impl Streams {
    /// Starts HTTP/3; `early` is the current state of early data. Returns the sending half and driver task.
    async fn begin(
        connection: &Arc<Connection>,
        connected: &Connected,
        early: watch::Receiver<Early>,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let table = StreamTable::default();
        let (mut http, sender) = builder()
            .max_field_section_size(MAX_HEADER_LIST_SIZE.into())
            .send_grease(false)
            .build(Quic::new(connected.connection.clone(), table.clone(), early.clone()))
            .await
            .map_err(io::Error::other)?;
        let driver = tokio::spawn(async move { drop(http.wait_idle().await) });
        Ok((Self { connection: connection.clone(), table, early, sender }, driver))
    }

    fn secured(&self, connected: &Connected, quic: &QuicTable, early_bytes: u64) {
        let seen = quic.seen(connected.four_tuple);
        let handshake = connected.handshake(early_bytes);
        let record = TlsRecord::new(handshake, seen.sent.bytes, seen.received.bytes, monotonic_ns());
        self.connection.report(Report::Secured(Some(self.connection.id), record));
    }

    async fn send(&mut self, QueuedRequest { resource, request, progress }: QueuedRequest) {
        let exchange = Exchange::new(self.connection.clone(), resource, progress);
        let (head, body) = request.into_parts();
        match self.sender.send_request(Request::from_parts(head, ())).await {
            Err(error) => exchange.end(Err(error.to_string()), |_| {}),
            Ok(stream) => {
                tokio::spawn(receive(exchange, stream, body, self.table.clone(), self.early.clone()));
            }
        }
    }
}

async fn receive<S: BidiStream<Bytes>>(
    mut exchange: Exchange,
    mut stream: RequestStream<S, Bytes>,
    mut body: SizedBody,
    table: StreamTable,
    mut early: watch::Receiver<Early>,
) {
    let id = stream.id();
    let exchanged = async {
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(chunk) = frame.into_data() {
                stream.send_data(chunk).await?;
            }
        }
        stream.finish().await?;
        let head = stream.recv_response().await?;
        exchange.header_arrived(head.status().as_u16());
        while let Some(chunk) = stream.recv_data().await? {
            exchange.body_arrived(bytes::Buf::remaining(&chunk));
        }
        Ok::<_, StreamError>(())
    };
    let outcome = exchanged.await;
    if outcome.is_err() {
        // If early data is rejected, `run` sends the request again.
        let settled = early.wait_for(|early| *early != Early::Pending).await;
        if settled.is_ok_and(|early| *early == Early::Rejected) {
            return;
        }
    }
    exchange.end_stream(outcome, table.stream(id));
}
