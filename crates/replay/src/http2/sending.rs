//! A body onto a stream: piece by piece, each when it is the stream's turn and there is room for it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use hyper::body::Body;

use crate::body::SizedBody;
use crate::http2::turns::{Asked, Priority, Turns};

/// A frame of so many bytes and its head fill one record of TLS (RFC 8446 section 5.1). It is also how much waits to be sent of an
/// answer, and so for how long one that is more urgent has to wait.
pub const PIECE: usize = 16_384 - 9;

/// Sends the whole body, and with it ends the stream.
///
/// # Errors
/// Where the stream was reset or the connection is gone.
pub async fn send_body(
    stream: &mut SendStream<Bytes>,
    mut body: SizedBody,
    turns: &Turns,
    priority: Priority,
) -> Result<(), h2::Error> {
    while let Some(mut chunk) = next_chunk(&mut body).await {
        while !chunk.is_empty() {
            let turn = turns.ask(stream.stream_id().as_u32(), priority);
            stream.reserve_capacity(chunk.len().min(PIECE));
            let room = poll_fn(|context| room(stream, &turn, context)).await?;
            let piece = chunk.split_to(room.min(PIECE).min(chunk.len()));
            let last = chunk.is_empty() && body.is_end_stream();
            stream.send_data(piece, last)?;
        }
    }
    Ok(())
}

async fn next_chunk(body: &mut SizedBody) -> Option<Bytes> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    let Ok(frame) = frame;
    frame.into_data().ok()
}

/// How many bytes the stream may send, once it is its turn.
fn room(
    stream: &mut SendStream<Bytes>,
    turn: &Asked,
    context: &mut Context<'_>,
) -> Poll<Result<usize, h2::Error>> {
    ready!(Asked::poll(turn, context));
    loop {
        match stream.capacity() {
            0 => match ready!(stream.poll_capacity(context)) {
                Some(room) => drop(room?),
                None => return Poll::Ready(Err(Reason::CANCEL.into())),
            },
            room => return Poll::Ready(Ok(room)),
        }
    }
}
