//! Selects the stream that sends next on a connection: the one with the most urgent response (RFC 9218).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::lock;
use crate::priority::Priority;

/// A priority queue of the streams with pending data.
///
/// Among streams of equal urgency, the non-incremental streams send first, one after another in the order of
/// their requests. Then the incremental streams send round-robin.
#[derive(Debug, Clone, Default)]
pub struct StreamScheduler(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    pending: BTreeMap<Key, Waker>,
    /// Number of calls of `enqueue` so far. Incremental streams send in the order of their calls.
    sends: u64,
}

/// The sort key: the urgency, true for an incremental stream, and a number: the stream identifier or, for an
/// incremental stream, the number of the `enqueue` call, so that incremental streams send round-robin.
type Key = (u8, bool, u64);

impl StreamScheduler {
    /// Enqueues a stream. Dropping the returned value removes the stream from the queue.
    pub fn enqueue(&self, stream: u32, priority: Priority) -> PendingSend {
        let mut queue = lock(&self.0);
        queue.sends += 1;
        let order = if priority.incremental { queue.sends } else { stream.into() };
        let key = (priority.urgency, priority.incremental, order);
        queue.pending.insert(key, Waker::noop().clone());
        drop(queue);
        PendingSend { scheduler: self.clone(), key }
    }
}

/// A stream's place in the queue, which the stream keeps until this value is dropped.
#[derive(Debug)]
pub struct PendingSend {
    scheduler: StreamScheduler,
    key: Key,
}

impl PendingSend {
    /// Returns `Ready` if this stream is first in the queue. Otherwise, wakes the task when it becomes first.
    pub fn poll_first(&self, context: &Context<'_>) -> Poll<()> {
        let mut queue = lock(&self.scheduler.0);
        queue.pending.insert(self.key, context.waker().clone());
        match queue.pending.first_key_value() {
            Some((first, _)) if *first == self.key => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

impl Drop for PendingSend {
    fn drop(&mut self) {
        let mut queue = lock(&self.scheduler.0);
        queue.pending.remove(&self.key);
        let next = queue.pending.first_key_value().map(|(_, waker)| waker.clone());
        drop(queue);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}
