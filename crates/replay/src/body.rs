//! Defines bodies of requests and responses: recorded bytes, filler (dots) or both, sent at once or paced.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fastopen_netns::clock::{monotonic_ns, sleep_until};
use hyper::body::{Body, Frame, SizeHint};

/// Bytes that fill bodies whose content is not recorded. Nothing compresses them, so any byte will do.
static FILLER: [u8; 65_536] = [b'.'; 65_536];

/// Maximum number of pieces in which a paced body is sent.
const PIECES: u64 = 100;
/// Minimum size of a paced body's pieces in bytes: a full TCP segment less a DATA frame's header (9 bytes,
/// RFC 9113 section 4.1). One more byte would take another packet, and Linux counts windows in packets.
const PIECE_MIN: u64 = 1448 - 9;

/// A body of known length, which is consumed piece by piece as it is sent.
#[derive(Clone, Default)]
pub struct SizedBody {
    pieces: VecDeque<Piece>,
    left: u64,
    pacer: Option<Pacer>,
}

#[derive(Clone)]
enum Piece {
    Bytes(Bytes),
    Filler(u64),
}

impl SizedBody {
    /// Appends `bytes` to the body.
    #[must_use]
    pub fn and_bytes(mut self, bytes: Bytes) -> Self {
        self.left += bytes.len() as u64;
        self.pieces.push_back(Piece::Bytes(bytes));
        self
    }

    /// Appends `bytes` bytes of filler.
    #[must_use]
    pub fn and_filler(mut self, bytes: u64) -> Self {
        self.left += bytes;
        self.pieces.push_back(Piece::Filler(bytes));
        self
    }

    /// Spreads the body evenly over time: sends the first bytes at once, the last bytes `duration_ns` later.
    #[must_use]
    pub fn paced(mut self, duration_ns: u64) -> Self {
        self.pacer = (duration_ns > 0).then(|| Pacer::new(self.left, duration_ns));
        self
    }

    /// Returns the number of bytes left to send.
    pub fn len(&self) -> u64 {
        self.left
    }

    /// Writes all remaining bytes to `to`, without pacing.
    pub fn write_to(mut self, to: &mut impl io::Write) -> io::Result<()> {
        loop {
            let chunk = self.take(usize::MAX);
            if chunk.is_empty() {
                return Ok(());
            }
            to.write_all(&chunk)?;
        }
    }

    /// Returns true if no bytes are left to send.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Removes and returns the next bytes of the body, at most `most` (not 0). Returns no bytes at the end.
    fn take(&mut self, most: usize) -> Bytes {
        while let Some(piece) = self.pieces.front_mut() {
            let chunk = match piece {
                Piece::Bytes(bytes) => bytes.split_to(most.min(bytes.len())),
                Piece::Filler(bytes) => {
                    let chunk = FILLER.len().min(most).min(usize::try_from(*bytes).unwrap_or(usize::MAX));
                    *bytes -= chunk as u64;
                    Bytes::from_static(&FILLER[..chunk])
                }
            };
            if !chunk.is_empty() {
                self.left -= chunk.len() as u64;
                return chunk;
            }
            self.pieces.pop_front();
        }
        Bytes::new()
    }
}

impl Body for SizedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let left = self.left;
        let most = match &mut self.pacer {
            Some(pacer) if left > 0 => ready!(pacer.poll_piece(left, context)),
            _ => left,
        };
        let chunk = self.take(usize::try_from(most).unwrap_or(usize::MAX));
        Poll::Ready((!chunk.is_empty()).then(|| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Paces a body: the first bytes are due at once, the last after a duration. A clone starts at the beginning.
struct Pacer {
    total: u64,
    duration_ns: u64,
    started_ns: Option<u64>,
    waiting: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>>,
}

impl Pacer {
    /// Creates a pacer for a body of `total` bytes. The first call of [`Pacer::poll_piece`] starts its clock.
    fn new(total: u64, duration_ns: u64) -> Self {
        Self { total, duration_ns, started_ns: None, waiting: None }
    }

    /// Returns the maximum size of the next piece once it is due. `left` is the number of unsent bytes.
    fn poll_piece(&mut self, left: u64, context: &mut Context<'_>) -> Poll<u64> {
        let piece = piece_bytes(self.total);
        let started = *self.started_ns.get_or_insert_with(monotonic_ns);
        let last_at = (self.total - piece.min(self.total)).max(1);
        let after =
            u128::from(self.duration_ns) * u128::from((self.total - left).min(last_at)) / u128::from(last_at);
        let due_ns = started + after as u64;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep_until(due_ns)));
        // Without a file descriptor for the timer, send the piece at once: the page load fails anyway.
        let _ = ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(piece)
    }
}

/// Returns the size in bytes of each piece except the last, for a body of `total` bytes.
fn piece_bytes(total: u64) -> u64 {
    total.div_ceil(PIECES).max(PIECE_MIN).min(total.div_ceil(2)).max(1)
}

impl Clone for Pacer {
    fn clone(&self) -> Self {
        Self::new(self.total, self.duration_ns)
    }
}

#[cfg(test)]
#[path = "../tests/unit/body.rs"]
mod tests;
