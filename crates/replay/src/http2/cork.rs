//! Frames that are ready at the same time leave together: else each small one would be a packet, and a congestion window counts
//! packets.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};

use crate::http2::sending::PIECE;
use crate::stream::Duplex;

/// A stream that keeps what is written until a [`Cork`] lets it go, or there is more than fills a record of TLS.
pub struct Corked<S>(Arc<Mutex<BufWriter<S>>>);

/// What lets it go.
pub struct Cork<S>(Arc<Mutex<BufWriter<S>>>);

/// Puts a cork on `stream`.
pub fn corked<S: Duplex>(stream: S) -> (Corked<S>, Cork<S>) {
    let stream = Arc::new(Mutex::new(BufWriter::with_capacity(PIECE, stream)));
    (Corked(stream.clone()), Cork(stream))
}

impl<S: Duplex> Cork<S> {
    /// Does a step of what writes to the stream, and lets go of what it wrote.
    pub fn after<T>(&self, context: &mut Context<'_>, step: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let done = step(context);
        // An error shows again in the next step; where there is no room now, there is a waker for when there is.
        let _ = Pin::new(&mut *lock(&self.0)).poll_flush(context);
        done
    }
}

fn lock<S>(stream: &Mutex<BufWriter<S>>) -> MutexGuard<'_, BufWriter<S>> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Duplex> AsyncRead for Corked<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_read(context, buffer)
    }
}

impl<S: Duplex> AsyncWrite for Corked<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *lock(&self.0)).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_shutdown(context)
    }
}
