//! Corks a stream: sends frames that are ready at the same time in one write. Otherwise each small frame
//! would be a packet, and Linux counts congestion windows in packets.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};

use crate::counters::Duplex;
use crate::http2::send::MAX_DATA_BYTES;
use crate::lock;

/// A stream that buffers writes until its [`Cork`] flushes them or the buffer fills a TLS record.
pub struct Corked<S>(Arc<Mutex<BufWriter<S>>>);

/// The handle that flushes a [`Corked`] stream.
pub struct Cork<S>(Arc<Mutex<BufWriter<S>>>);

/// Corks `stream`. Returns the corked stream and the handle that flushes it.
pub fn corked<S: Duplex>(stream: S) -> (Corked<S>, Cork<S>) {
    let stream = Arc::new(Mutex::new(BufWriter::with_capacity(MAX_DATA_BYTES, stream)));
    (Corked(stream.clone()), Cork(stream))
}

impl<S: Duplex> Cork<S> {
    /// Calls `step`, which writes to the stream, then flushes the stream. Returns the result of `step`.
    pub fn flush_after<T>(&self, context: &mut Context<'_>, step: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let done = step(context);
        // If flushing fails, the next step reports the error. A full socket wakes the task once it has room.
        let _ = Pin::new(&mut *lock(&self.0)).poll_flush(context);
        done
    }
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
