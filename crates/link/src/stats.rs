//! What a direction has counted.

/// Counts since the direction was made or its counts were last taken.
///
/// Every packet offered is in exactly one of `packets`, `dropped_queue` and `dropped_loss`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets accepted: released already or still on their way.
    pub packets: u64,
    /// Bytes of the packets accepted.
    pub bytes: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets lost at random.
    pub dropped_loss: u64,
    /// The most bytes that ever waited at once behind the packet being serialised.
    pub queue_bytes_max: u64,
}
