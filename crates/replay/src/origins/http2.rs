//! Origins that speak HTTP/2: h2 carries the requests of a connection at once, and the most urgent response
//! is sent first.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use fastopen_netns::clock::{monotonic_ns, sleep_until};
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use hyper::{Method, Request, Response};

use super::{Connection, Shared};
use crate::body::SizedBody;
use crate::counters::{CountersHandle, Duplex, counted};
use crate::http2::cork::corked;
use crate::http2::frame_counters::FrameCounters;
use crate::http2::send::{MAX_DATA_BYTES, send_body};
use crate::http2::stream_scheduler::StreamScheduler;
use crate::http2::{CONNECTION_WINDOW, MAX_CONCURRENT_STREAMS, MAX_HEADER_LIST_SIZE, STREAM_WINDOW};
use crate::log::{Arrived, Written};
use crate::priority::Priority;

/// Serves a connection until its client closes it.
pub(super) async fn serve(stream: impl Duplex, connection: Connection, shared: Arc<Shared>) {
    let (stream, counters) = counted::<FrameCounters>(stream);
    let streams = Streams { connection, shared, counters, scheduler: StreamScheduler::default() };
    let (stream, cork) = corked(stream);
    let handshake = Builder::new()
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER_LIST_SIZE)
        .max_send_buffer_size(MAX_DATA_BYTES)
        .handshake(stream);
    // The client causes all errors (it resets its connections at the end of a load) and records them.
    let Ok(mut accepted) = handshake.await else { return };
    let mut next = poll_fn(move |context| cork.flush_after(context, |context| accepted.poll_accept(context)));
    while let Some(Ok((request, respond))) = (&mut next).await {
        let streams = streams.clone();
        tokio::spawn(async move { streams.respond(request, respond).await });
    }
}

/// The streams of one connection.
#[derive(Clone)]
struct Streams {
    connection: Connection,
    shared: Arc<Shared>,
    counters: CountersHandle<FrameCounters>,
    scheduler: StreamScheduler,
}

impl Streams {
    async fn respond(
        self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let Self { connection, shared, counters, scheduler } = self;
        let (request, body) = request.into_parts();
        let (resource, url) = shared.find(&connection, &request);
        discard(body).await?;
        connection.may_process(&request.method, &shared).await;
        let at_ns = monotonic_ns();
        let served = resource.and_then(|number| shared.resources().get(number));
        let (head, body) = shared.site.response(served, &request).into_parts();
        let body = if request.method == Method::HEAD { SizedBody::default() } else { body };
        let stream = respond.stream_id().as_u32();
        let status = head.status.as_u16();
        let due_ns = super::due_ns(served, at_ns);
        let arrived = Arrived { four_tuple: connection.four_tuple, resource, url, at_ns, due_ns, status };
        shared.log.arrived(arrived, move || {
            let written = counters.with(|counters| counters.stream(stream)).written;
            Written {
                first_byte_ns: written.first_ns,
                last_byte_ns: written.last_ns.filter(|_| written.ended),
                header_bytes: written.header_bytes,
                body_bytes: written.body_bytes,
            }
        });
        let _ = sleep_until(due_ns).await;
        let mut stream = respond.send_response(Response::from_parts(head, ()), body.is_empty())?;
        send_body(&mut stream, body, &scheduler, Priority::of(&request.headers)).await
    }
}

/// Reads the body of a request and discards it.
async fn discard(mut body: RecvStream) -> Result<(), h2::Error> {
    while let Some(chunk) = body.data().await {
        let bytes = chunk?.len();
        body.flow_control().release_capacity(bytes)?;
    }
    Ok(())
}
