//! Counts the packets that a direction accepts and drops.

use crate::DropCause;

/// Counts since the direction was created.
///
/// Every offered packet is counted in exactly one of `packets`, `dropped_queue`, `dropped_loss` and
/// `dropped_path`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Accepted packets, released or still in flight.
    pub packets: u64,
    /// Bytes of the accepted packets.
    pub bytes: u64,
    /// Packets dropped by the queue because it was full, or by its AQM.
    pub dropped_queue: u64,
    /// Packets lost at random.
    pub dropped_loss: u64,
    /// Packets that a middlebox dropped or answered.
    pub dropped_path: u64,
    /// Largest number of bytes that waited at one time, without the packet on the wire.
    pub queue_bytes_max: u64,
}

impl Stats {
    /// Raises `queue_bytes_max` to `bytes`, the number of bytes that wait now, if this number is larger.
    pub fn count_waiting(&mut self, bytes: u64) {
        self.queue_bytes_max = self.queue_bytes_max.max(bytes);
    }

    /// Counts a packet of `bytes` bytes as dropped. [`crate::Direction::offer`] has counted it as accepted.
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
