//! Over which time a body is handed out: its first bytes at once, its last at the end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use fastopen_netns::clock::{monotonic_ns, sleep_until};

/// A body goes in about this many pieces,
const PIECES: u64 = 100;
/// but in none smaller than what a packet holds, unless that were a single one.
const PIECE_MIN: u64 = 1448;

/// The way through one body. A clone begins anew.
pub(crate) struct Spread {
    whole: u64,
    over_ns: u64,
    began_ns: Option<u64>,
    waiting: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>>,
}

impl Spread {
    /// `whole` bytes, evenly over `over_ns` from when the first of them is asked for.
    pub(crate) fn new(whole: u64, over_ns: u64) -> Self {
        Self { whole, over_ns, began_ns: None, waiting: None }
    }

    /// Ready when the piece may go before which `left` bytes are to come; says how many bytes it has at most.
    pub(crate) fn poll_piece(&mut self, left: u64, context: &mut Context<'_>) -> Poll<u64> {
        let piece = self.whole.div_ceil(PIECES).max(PIECE_MIN).min(self.whole.div_ceil(2)).max(1);
        let began = *self.began_ns.get_or_insert_with(monotonic_ns);
        let last_at = (self.whole - piece.min(self.whole)).max(1);
        let after =
            u128::from(self.over_ns) * u128::from((self.whole - left).min(last_at)) / u128::from(last_at);
        let due_ns = began + after as u64;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep_until(due_ns)));
        // Without a descriptor for a timer it goes at once; the load has other failures then.
        let _ = ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(piece)
    }
}

impl Clone for Spread {
    fn clone(&self) -> Self {
        Self::new(self.whole, self.over_ns)
    }
}

impl fmt::Debug for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Spread({} bytes over {} ns)", self.whole, self.over_ns)
    }
}
