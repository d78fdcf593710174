//! Paces a body that a server produces over time: the first bytes at once, the last ones after a duration.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use fastopen_netns::clock::{monotonic_ns, sleep_until};

/// Maximum number of pieces of a paced body.
const PIECES: u64 = 100;
/// Minimum size of a piece, unless it exceeds half of the body: a full TCP segment less the 9 bytes of a DATA
/// frame's header (RFC 9113 section 4.1). One byte more would need a second packet, and Linux counts windows
/// in packets.
const PIECE_MIN: u64 = 1448 - 9;

/// The progress of one body. A clone starts from the beginning.
pub(crate) struct Pacer {
    total: u64,
    duration_ns: u64,
    started_ns: Option<u64>,
    waiting: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>>,
}

impl Pacer {
    /// Paces `total` bytes evenly over `duration_ns`, starting with the first call of [`Pacer::poll_piece`].
    pub(crate) fn new(total: u64, duration_ns: u64) -> Self {
        Self { total, duration_ns, started_ns: None, waiting: None }
    }

    /// Returns the maximum size of the next piece when it is due. `left` is the number of bytes not yet sent.
    pub(crate) fn poll_piece(&mut self, left: u64, context: &mut Context<'_>) -> Poll<u64> {
        let piece = piece_bytes(self.total);
        let started = *self.started_ns.get_or_insert_with(monotonic_ns);
        let last_at = (self.total - piece.min(self.total)).max(1);
        let after =
            u128::from(self.duration_ns) * u128::from((self.total - left).min(last_at)) / u128::from(last_at);
        let due_ns = started + after as u64;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep_until(due_ns)));
        // If no file descriptor is left for the timer, the piece is sent at once. The load then fails for
        // other reasons.
        let _ = ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(piece)
    }
}

/// Returns the size of each piece except the last.
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
