//! Sends a body in DATA frames, each when the scheduler selects the stream and flow control has capacity.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body_util::BodyExt;

use crate::body::SizedBody;
use crate::http2::stream_scheduler::{PendingSend, StreamScheduler};
use crate::priority::Priority;

/// Maximum payload of a DATA frame in bytes. Payload and header fill a TLS record (RFC 8446 section 5.1). At
/// most this many bytes of a response are buffered, which limits how long a more urgent response waits.
pub const MAX_DATA_BYTES: usize = 16_384 - 9;

/// Sends a body in pieces, then ends the stream. Each piece waits until `scheduler` selects the stream.
pub async fn send_body(
    stream: &mut SendStream<Bytes>,
    mut body: SizedBody,
    scheduler: &StreamScheduler,
    priority: Priority,
) -> Result<(), h2::Error> {
    while let Some(mut chunk) = next_chunk(&mut body).await {
        while !chunk.is_empty() {
            let pending = scheduler.enqueue(stream.stream_id().as_u32(), priority);
            stream.reserve_capacity(chunk.len().min(MAX_DATA_BYTES));
            let capacity = poll_fn(|context| capacity(stream, &pending, context)).await?;
            let piece = chunk.split_to(capacity.min(MAX_DATA_BYTES).min(chunk.len()));
            let last = chunk.is_empty() && body.is_empty();
            stream.send_data(piece, last)?;
        }
    }
    Ok(())
}

/// Returns the next bytes of a body when they are due; `None` at the end.
pub(crate) async fn next_chunk(body: &mut SizedBody) -> Option<Bytes> {
    let Ok(frame) = body.frame().await?;
    frame.into_data().ok()
}

/// Returns the stream's flow-control capacity in bytes (at least 1) once the scheduler selects the stream.
fn capacity(
    stream: &mut SendStream<Bytes>,
    pending: &PendingSend,
    context: &mut Context<'_>,
) -> Poll<Result<usize, h2::Error>> {
    ready!(pending.poll_first(context));
    while stream.capacity() == 0 {
        let Some(capacity) = ready!(stream.poll_capacity(context)) else {
            return Poll::Ready(Err(Reason::CANCEL.into()));
        };
        capacity?;
    }
    Poll::Ready(Ok(stream.capacity()))
}
