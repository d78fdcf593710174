//! Speaks HTTP/2 for the built-in client: sends each request immediately, on a new stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use fastopen_replay::counters::{CountersHandle, counted};
use fastopen_replay::http2::cork::corked;
use fastopen_replay::http2::frame_counters::FrameCounters;
use fastopen_replay::http2::send::{MAX_DATA_BYTES, send_body};
use fastopen_replay::http2::stream_scheduler::StreamScheduler;
use fastopen_replay::http2::{CONNECTION_WINDOW, HEADER_TABLE_SIZE, MAX_HEADER_LIST_SIZE, STREAM_WINDOW};
use fastopen_replay::priority::Priority;
use fastopen_replay::tls::wait_until_secured;
use h2::client::{Builder, ResponseFuture, SendRequest};
use hyper::{Request, Version};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Connection, Exchange, Plaintext, QueuedRequest, Report};

pub(super) async fn run(
    connection: Arc<Connection>,
    Plaintext { stream, secured, first }: Plaintext,
    mut requests: UnboundedReceiver<QueuedRequest>,
) -> io::Result<()> {
    let (stream, counters) = counted::<FrameCounters>(stream);
    let (stream, cork) = corked(stream);
    let (sender, mut driver) = Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .header_table_size(HEADER_TABLE_SIZE)
        .max_header_list_size(MAX_HEADER_LIST_SIZE)
        .max_send_buffer_size(MAX_DATA_BYTES)
        .handshake::<_, Bytes>(stream)
        .await
        .map_err(io::Error::other)?;
    if first.is_none() {
        connection.report(Report::Ready(connection.id));
    }
    let mut streams = Streams { connection, counters, scheduler: StreamScheduler::default(), sender };
    // The driver starts with the first request, so that connection preface and request share a packet and, in
    // cleartext or as early data, the SYN.
    let first = match first {
        Some(first) => Some(first),
        None => requests.recv().await,
    };
    let Some(first) = first else { return Ok(()) };
    streams.send(first).await;
    let mut driver = tokio::spawn(poll_fn(move |context| {
        cork.flush_after(context, |context| Pin::new(&mut driver).poll(context))
    }));
    while let Some(request) = streams.connection.next(&mut requests, &mut driver).await {
        if request.request.method().is_safe() || *secured.borrow() {
            streams.send(request).await;
        } else {
            // Early data can be replayed (RFC 8470 section 4), so an unsafe request waits for the end of the
            // handshake. Other requests do not wait for it.
            let (mut streams, secured) = (streams.clone(), secured.clone());
            tokio::spawn(async move {
                wait_until_secured(secured).await;
                streams.send(request).await;
            });
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Streams {
    connection: Arc<Connection>,
    counters: CountersHandle<FrameCounters>,
    scheduler: StreamScheduler,
    sender: SendRequest<Bytes>,
}

impl Streams {
    async fn send(&mut self, QueuedRequest { resource, mut request, progress }: QueuedRequest) {
        // The request was built for HTTP/3 if this connection is the fallback.
        *request.version_mut() = Version::HTTP_2;
        let exchange = Exchange::new(self.connection.clone(), resource, progress);
        let (head, body) = request.into_parts();
        let sent = match poll_fn(|context| self.sender.poll_ready(context)).await {
            Ok(()) => self.sender.send_request(Request::from_parts(head, ()), body.is_empty()),
            Err(error) => Err(error),
        };
        match sent {
            Err(error) => exchange.end(Err(error.to_string()), |_| {}),
            Ok((response, mut upload)) => {
                let scheduler = self.scheduler.clone();
                tokio::spawn(async move {
                    // If the upload fails, the response shows the failure.
                    let _ = send_body(&mut upload, body, &scheduler, Priority::default()).await;
                });
                tokio::spawn(receive(exchange, response, self.counters.clone()));
            }
        }
    }
}

async fn receive(mut exchange: Exchange, response: ResponseFuture, counters: CountersHandle<FrameCounters>) {
    let stream = response.stream_id().as_u32();
    let read = async {
        let (head, mut body) = response.await?.into_parts();
        exchange.header_arrived(head.status.as_u16());
        // h2 returns only complete DATA frames, but a browser's parser gets their bytes as they arrive.
        while let Some(chunk) = poll_fn(|context| {
            exchange.body_read(|| counters.with(|counters| counters.poll_body(stream, context.waker())));
            body.poll_data(context)
        })
        .await
        {
            let bytes = chunk?.len();
            body.flow_control().release_capacity(bytes)?;
            exchange.body_arrived(bytes);
        }
        Ok::<_, h2::Error>(())
    };
    let outcome = read.await;
    exchange.end_stream(outcome, counters.with(|counters| counters.stream(stream)));
}
