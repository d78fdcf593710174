//! Bodies of exact sizes: bytes, filler, or pieces of both.

use std::collections::VecDeque;
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
    pieces: VecDeque<Piece>,
    left: u64,
}

/// A part of a body.
#[derive(Debug, Clone)]
enum Piece {
    Bytes(Bytes),
    Filler(u64),
}

impl SizedBody {
    /// `bytes` of filler.
    pub fn filler(bytes: u64) -> Self {
        Self::default().and_filler(bytes)
    }

    /// A body as it was recorded.
    pub fn recorded(bytes: Bytes) -> Self {
        Self::default().and_bytes(bytes)
    }

    /// This body, and after it `bytes`.
    #[must_use]
    pub fn and_bytes(mut self, bytes: Bytes) -> Self {
        self.left += bytes.len() as u64;
        self.pieces.push_back(Piece::Bytes(bytes));
        self
    }

    /// This body, and after it so many bytes of filler.
    #[must_use]
    pub fn and_filler(mut self, bytes: u64) -> Self {
        self.left += bytes;
        self.pieces.push_back(Piece::Filler(bytes));
        self
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
        while let Some(piece) = self.pieces.pop_front() {
            let chunk = match piece {
                Piece::Bytes(bytes) => bytes,
                Piece::Filler(bytes) => {
                    let chunk = FILLER.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
                    if chunk as u64 != bytes {
                        self.pieces.push_front(Piece::Filler(bytes - chunk as u64));
                    }
                    Bytes::from_static(&FILLER[..chunk])
                }
            };
            if !chunk.is_empty() {
                self.left -= chunk.len() as u64;
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
