//! What a direction has counted.

use crate::DropCause;

/// Counts since the direction was made.
///
/// Every packet offered is in exactly one of `packets`, `dropped_queue`, `dropped_loss` and `dropped_path`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets accepted: released already or still on their way.
    pub packets: u64,
    /// Bytes of the packets accepted.
    pub bytes: u64,
    /// Packets dropped by the queue: because it was full, or by its management.
    pub dropped_queue: u64,
    /// Packets lost at random.
    pub dropped_loss: u64,
    /// Packets that a middlebox dropped, or answered itself.
    pub dropped_path: u64,
    /// The most bytes that ever waited at once behind the packet being serialised.
    pub queue_bytes_max: u64,
}

impl Stats {
    /// Counts `bytes` that wait at one moment.
    pub fn count_waiting(&mut self, bytes: u64) {
        self.queue_bytes_max = self.queue_bytes_max.max(bytes);
    }

    /// Counts a packet, accepted until then, as dropped.
    pub fn count_drop(&mut self, cause: DropCause, bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
        match cause {
            DropCause::Loss => self.dropped_loss += 1,
            DropCause::Queue => self.dropped_queue += 1,
            DropCause::Path => self.dropped_path += 1,
        }
    }
}
