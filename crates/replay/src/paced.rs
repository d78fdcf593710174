//! Pacing of a body that a server produces over a time: its first bytes at once, its last at the end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use fastopen_netns::clock::{monotonic_ns, sleep_until};

/// A paced body is sent in about this many pieces,
const PIECES: u64 = 100;
/// and each fills a TCP segment at least, with the 9 bytes of a DATA frame's header (RFC 9113 section 4.1),
/// unless that were the whole body. A byte more would be a packet more, and Linux counts windows in packets.
const PIECE_MIN: u64 = 1448 - 9;

/// The progress of one body. A clone starts from the beginning.
pub(crate) struct Pacer {
    total: u64,
    duration_ns: u64,
    started_ns: Option<u64>,
    waiting: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>>,
}

impl Pacer {
    /// Paces `total` bytes evenly over `duration_ns`, from the first call of [`Pacer::poll_piece`] on.
    pub(crate) fn new(total: u64, duration_ns: u64) -> Self {
        Self { total, duration_ns, started_ns: None, waiting: None }
    }

    /// Ready with the most bytes of the next piece when the piece is due; `left` bytes have not been sent
    /// yet.
    pub(crate) fn poll_piece(&mut self, left: u64, context: &mut Context<'_>) -> Poll<u64> {
        let piece = piece_bytes(self.total);
        let started = *self.started_ns.get_or_insert_with(monotonic_ns);
        let last_at = (self.total - piece.min(self.total)).max(1);
        let after =
            u128::from(self.duration_ns) * u128::from((self.total - left).min(last_at)) / u128::from(last_at);
        let due_ns = started + after as u64;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep_until(due_ns)));
        // Without a file descriptor for a timer the piece is sent at once; then the load fails for other
        // reasons.
        let _ = ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(piece)
    }
}

/// Bytes of each piece of a body, but for the last.
fn piece_bytes(total: u64) -> u64 {
    total.div_ceil(PIECES).max(PIECE_MIN).min(total.div_ceil(2)).max(1)
}

impl Clone for Pacer {
    fn clone(&self) -> Self {
        Self::new(self.total, self.duration_ns)
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pacer({} bytes over {} ns)", self.total, self.duration_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::piece_bytes;

    #[test]
    fn a_piece_in_a_data_frame_is_one_segment_of_tcp() {
        assert_eq!(piece_bytes(26_000) + 9, 1448);
        assert_eq!(piece_bytes(1_000), 500, "a small body has two pieces");
        assert_eq!(piece_bytes(1_000_000), 10_000, "a large body has a hundred");
    }
}
