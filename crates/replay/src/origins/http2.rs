//! Origins that speak HTTP/2: requests of a connection answered at once, what is urgent first.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use fastopen_netns::clock::monotonic_ns;
use h2::server::{Builder, SendResponse};
use h2::{RecvStream, StreamId};
use hyper::{Method, Request, Response};

use super::{Shared, size};
use crate::body::SizedBody;
use crate::http2::cork::corked;
use crate::http2::frames::Frames;
use crate::http2::sending::{PIECE, send_body};
use crate::http2::turns::{Priority, Turns};
use crate::http2::{CONNECTION_WINDOW, HEAD, STREAM_WINDOW, STREAMS};
use crate::stream::{Duplex, Ends, Watch, WatchedStream};

/// Serves a connection until its client is done with it.
pub(super) async fn serve(stream: impl Duplex + 'static, ends: Ends, shared: Arc<Shared>) {
    let stream = WatchedStream::<Frames>::new(stream);
    let exchanges = Exchanges { ends, shared, watch: stream.watch(), turns: Turns::default() };
    let (stream, cork) = corked(stream);
    let handshake = Builder::new()
        .max_concurrent_streams(STREAMS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEAD)
        .max_send_buffer_size(PIECE)
        .handshake(stream);
    // Errors are the client's doing (a reset at the end of a load) and show in its own record.
    let Ok(mut connection) = handshake.await else { return };
    let mut next = poll_fn(move |context| cork.after(context, |context| connection.poll_accept(context)));
    while let Some(Ok((request, answer))) = (&mut next).await {
        let exchanges = exchanges.clone();
        tokio::spawn(async move { exchanges.answer(request, answer).await });
    }
}

/// The requests of one connection.
#[derive(Clone)]
struct Exchanges {
    ends: Ends,
    shared: Arc<Shared>,
    watch: Watch<Frames>,
    turns: Turns,
}

impl Exchanges {
    async fn answer(
        self,
        request: Request<RecvStream>,
        mut answer: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let (request, body) = request.into_parts();
        let found = self.shared.find(self.ends.origin, &request);
        take_in(body).await?;
        let arrived = monotonic_ns();
        let (head, body) = self.shared.response(found, &request).into_parts();
        let body = if request.method == Method::HEAD { SizedBody::default() } else { body };
        let response = Response::from_parts(head, body);
        let stream: StreamId = answer.stream_id();
        let place = (&self.watch, stream.as_u32());
        self.shared.log.arrived_on_stream(self.ends, found, arrived, size(&response), place);
        self.shared.think(found, arrived).await;
        let (head, body) = response.into_parts();
        let mut stream = answer.send_response(Response::from_parts(head, ()), body.is_empty())?;
        send_body(&mut stream, body, &self.turns, Priority::of(&request.headers)).await
    }
}

/// Takes the body of a request in, and forgets it.
async fn take_in(mut body: RecvStream) -> Result<(), h2::Error> {
    while let Some(chunk) = body.data().await {
        let bytes = chunk?.len();
        body.flow_control().release_capacity(bytes)?;
    }
    Ok(())
}
