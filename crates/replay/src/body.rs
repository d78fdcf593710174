//! Bodies of exact sizes: recorded bytes, or filler.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Filler for bodies that were not recorded: a page's text compresses, a picture does not, but nothing here compresses.
static FILLER: [u8; 65_536] = [b'.'; 65_536];

/// A body that knows its length from the start.
#[derive(Debug, Clone, Default)]
pub struct SizedBody {
    recorded: Option<Bytes>,
    left: u64,
}

impl SizedBody {
    /// `bytes` of filler.
    pub fn filler(bytes: u64) -> Self {
        Self { recorded: None, left: bytes }
    }

    /// A body as it was recorded.
    pub fn recorded(bytes: Bytes) -> Self {
        Self { left: bytes.len() as u64, recorded: Some(bytes) }
    }

    /// What is left of it, in bytes.
    pub fn len(&self) -> u64 {
        self.left
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl Body for SizedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let chunk = self.recorded.take().unwrap_or_else(|| {
            Bytes::from_static(&FILLER[..FILLER.len().min(usize::try_from(self.left).unwrap_or(usize::MAX))])
        });
        self.left -= chunk.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
