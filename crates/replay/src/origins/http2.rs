//! Serves HTTP/2: h2 handles a connection's concurrent requests. The most urgent response is sent first.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fastopen_netns::clock::sleep_until;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use hyper::{Method, Request, Response, StatusCode};

use super::{Connection, Shared};
use crate::body::SizedBody;
use crate::counters::{CountersHandle, Duplex, counted};
use crate::http2::cork::corked;
use crate::http2::frame_counters::FrameCounters;
use crate::http2::send::{MAX_DATA_BYTES, send_body};
use crate::http2::stream_scheduler::StreamScheduler;
use crate::http2::{CONNECTION_WINDOW, MAX_CONCURRENT_STREAMS, MAX_HEADER_LIST_SIZE, STREAM_WINDOW, receive};
use crate::lock;
use crate::names::{self, Asked, HTTPS_QUERIES_MAX, Names};
use crate::priority::Priority;

pub(super) async fn serve(stream: impl Duplex, connection: Connection, shared: Arc<Shared>) {
    let (stream, counters) = counted::<FrameCounters>(stream);
    let (scheduler, asked) = (StreamScheduler::default(), Arc::default());
    let streams = Streams { connection, shared, counters, scheduler, asked };
    let (stream, cork) = corked(stream);
    let resolves = streams.shared.resolver_at(streams.connection.four_tuple.origin).is_some();
    let handshake = Builder::new()
        .max_concurrent_streams(if resolves { HTTPS_QUERIES_MAX } else { MAX_CONCURRENT_STREAMS })
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER_LIST_SIZE)
        .max_send_buffer_size(MAX_DATA_BYTES)
        .handshake(stream);
    // Ignore errors: the client causes and records them, or resets its connections at the end of a load.
    let Ok(mut accepted) = handshake.await else { return };
    let mut next = poll_fn(move |context| cork.flush_after(context, |context| accepted.poll_accept(context)));
    while let Some(Ok((request, respond))) = (&mut next).await {
        tokio::spawn(streams.clone().respond(request, respond));
    }
}

/// The state that all streams of a connection share.
#[derive(Clone)]
struct Streams {
    connection: Connection,
    shared: Arc<Shared>,
    counters: CountersHandle<FrameCounters>,
    scheduler: StreamScheduler,
    asked: Arc<Mutex<Asked>>,
}

impl Streams {
    async fn respond(
        self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let shared = self.shared.clone();
        if let Some(names) = shared.resolver_at(self.connection.four_tuple.origin) {
            return self.answer_query(names, request, respond).await;
        }
        let Self { connection, shared, counters, scheduler, .. } = self;
        let (request, body) = request.into_parts();
        let found = shared.find(&connection, &request);
        receive(body, 0).await?;
        let (response, arrived) = shared.respond(&connection, &request, found).await;
        let (head, body) = response.into_parts();
        let body = if request.method == Method::HEAD { SizedBody::default() } else { body };
        let stream = respond.stream_id().as_u32();
        let due_ns = arrived.due_ns;
        shared.log.arrived(arrived, move || counters.with(|counters| counters.stream(stream)).written);
        let _ = sleep_until(due_ns).await;
        let mut stream = respond.send_response(Response::from_parts(head, ()), body.is_empty())?;
        send_body(&mut stream, body, &scheduler, Priority::of(&request.headers)).await
    }

    async fn answer_query(
        self,
        names: &Names,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let Self { connection, shared, asked, .. } = self;
        let (request, body) = request.into_parts();
        let body = receive(body, names::MESSAGE_BYTES_MAX).await?;
        connection.may_process(&request.method, &shared).await;
        let message = body.and_then(|body| names::https_query(&request, body));
        let query = message.and_then(|message| lock(&asked).receive(&message, names, &shared.log));
        let Some((mut query, answer)) = query else {
            let mut refusal = Response::new(());
            *refusal.status_mut() = StatusCode::BAD_REQUEST;
            return respond.send_response(refusal, true).map(drop);
        };
        let Some(answer) = answer else {
            shared.log.queried(query);
            // To ignore the query, keep `respond` until the client resets. Dropping it would send a reset.
            return poll_fn(|context| respond.poll_reset(context)).await.map(drop);
        };
        let sent = respond
            .send_response(names::https_response(answer.len()), false)
            .and_then(|mut stream| stream.send_data(answer.into(), true));
        query.answered = sent.is_ok();
        shared.log.queried(query);
        sent
    }
}
