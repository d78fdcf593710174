//! Speaks HTTP/1 for the built-in client: sends each request when the response to the previous one has ended.

use std::error::Error;
use std::io;
use std::sync::Arc;

use fastopen_replay::body::SizedBody;
use fastopen_replay::counters::{SerialTraffic, counted};
use http_body_util::BodyExt;
use hyper::Request;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::CONNECTION;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Connection, Exchange, Plaintext, QueuedRequest, Report};

const MAX_HEADERS: usize = 1000;

pub(super) async fn run(
    connection: Arc<Connection>,
    Plaintext { stream, mut first, .. }: Plaintext,
    mut requests: UnboundedReceiver<QueuedRequest>,
) -> io::Result<()> {
    let (stream, counters) = counted::<SerialTraffic>(stream);
    let (mut sender, driver) = Builder::new()
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let mut driver = tokio::spawn(driver);
    if first.is_none() {
        connection.report(Report::Ready(connection.id));
    }
    loop {
        let queued = match first.take() {
            Some(first) => Some(first),
            None => connection.next(&mut requests, &mut driver).await,
        };
        let Some(QueuedRequest { resource, request, progress }) = queued else { break };
        let number = counters.with(SerialTraffic::start_request);
        let mut exchange = Exchange::new(connection.clone(), resource, progress);
        let outcome = send(&mut sender, request, &mut exchange).await;
        let failed = outcome.is_err();
        let traffic = counters.with(|traffic| traffic.of_request(number));
        exchange.end(outcome, |response| {
            response.sent_ns = traffic.first_write_ns;
            response.first_byte_ns = traffic.first_read_ns;
            response.end_ns = traffic.last_read_ns;
            response.header_bytes = traffic.bytes_read.saturating_sub(response.body_bytes);
        });
        if failed {
            break;
        }
    }
    Ok(())
}

/// Sends a request and reads its response. Returns true if the connection can carry another request.
async fn send(
    sender: &mut SendRequest<SizedBody>,
    request: Request<SizedBody>,
    exchange: &mut Exchange,
) -> Result<bool, String> {
    let with_cause = |error: hyper::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    };
    let (head, mut body) = sender.send_request(request).await.map_err(with_cause)?.into_parts();
    exchange.header_arrived(head.status.as_u16());
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame.map_err(with_cause)?.data_ref() {
            exchange.body_arrived(data.len());
        }
    }
    let closes =
        head.headers.get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
    Ok(!closes && sender.ready().await.is_ok())
}
