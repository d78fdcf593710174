//! Sends packets at recorded times: the delivery opportunities of a Mahimahi trace, repeated endlessly.
//!
//! The rules follow `src/frontend/link_queue.cc` in ravinet/mahimahi:
//!
//! - Each opportunity carries [`OPPORTUNITY_BYTES`], and serves packets that arrived before it, in order.
//! - Several small packets share an opportunity. A packet that does not fit continues in the next one.
//! - Unused bytes and unused opportunities are lost.
//! - The last time of the list is also the period, so an opportunity at 0 coincides with the last one of the
//!   period before.

use crate::Nanos;
use crate::stage::{Downstream, Packet, Stage, Verdict};

/// Bytes that one opportunity carries: an IP packet of the usual MTU. Mahimahi's 1504 bytes are this packet
/// and the four bytes that its TUN device adds.
pub const OPPORTUNITY_BYTES: u32 = 1500;

const NANOS_PER_MS: Nanos = 1_000_000;

/// Sorted times at which the link can send one packet. They repeat endlessly; the last time is the period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Sorted times since the start of a repetition. The list is not empty, and its last time is not 0.
    times: Vec<Nanos>,
}

impl Trace {
    /// Latest permitted time in a trace, in milliseconds after the start of the trace: a day.
    pub const MAX_MS: u64 = 24 * 60 * 60 * 1000;

    /// Creates a trace from times in milliseconds after its start. Fails if the list is empty or decreases,
    /// or if its last time is 0 or exceeds [`Trace::MAX_MS`]. Errors number the entries from 1.
    pub fn from_millis(times_ms: &[u64]) -> Result<Self, String> {
        let decreases = times_ms.windows(2).position(|pair| pair[1] < pair[0]);
        let problem = match (decreases, times_ms.last()) {
            (_, None) => "has no entries".to_owned(),
            (Some(at), _) => {
                let (before, ms) = (times_ms[at], times_ms[at + 1]);
                format!("entry {}: {ms} ms is before the {before} ms of the entry before it", at + 2)
            }
            (_, Some(0)) => {
                "ends at 0 ms, but its last entry is the period after which it repeats".to_owned()
            }
            (_, Some(&last)) if last > Self::MAX_MS => {
                format!("ends at {last} ms, later than the {} ms of a day", Self::MAX_MS)
            }
            _ => return Ok(Self { times: times_ms.iter().map(|ms| ms * NANOS_PER_MS).collect() }),
        };
        Err(format!("trace {problem}"))
    }

    fn period(&self) -> Nanos {
        self.times[self.times.len() - 1]
    }
}

pub(crate) struct Opportunities {
    trace: Trace,
    /// Time of the delivery opportunity that the last packet used, or that the next packet will use.
    open_at: Nanos,
    open_bytes: u32,
    /// Start of the trace's repetition that contains the next delivery opportunity, the one at index `next`.
    period_start: Nanos,
    next: usize,
}

impl<P> Stage<P> for Opportunities {
    /// Returns the time of the trace's first delivery opportunity after `now` that can take more bytes. An
    /// opportunity at `now` itself does not count, because it serves only packets that arrived before `now`.
    fn free_at(&mut self, now: Nanos) -> Nanos {
        self.open_after(now)
    }

    /// Delays a packet until the delivery opportunity of the trace that carries the packet's last byte.
    fn offer(&mut self, now: Nanos, packet: &mut Packet<P>, _: &mut Downstream<P>) -> Verdict {
        // A packet that is offered exactly at `open_at` has waited for this opportunity, and may use it.
        if now != self.open_at || self.open_bytes == 0 {
            self.open_after(now);
        }
        let mut unsent = packet.bytes;
        while unsent > self.open_bytes {
            unsent -= self.open_bytes;
            self.open_next();
        }
        self.open_bytes -= unsent;
        Verdict::Hold(self.open_at)
    }
}

impl Opportunities {
    pub(crate) fn new(trace: Trace, start: Nanos) -> Self {
        Self { trace, open_at: start, open_bytes: 0, period_start: start, next: 0 }
    }

    fn open_after(&mut self, now: Nanos) -> Nanos {
        if self.open_at <= now {
            self.open_bytes = 0;
            self.skip_past(now);
        }
        if self.open_bytes == 0 {
            self.open_next();
        }
        self.open_at
    }

    fn next_at(&self) -> Nanos {
        self.period_start + self.trace.times[self.next]
    }

    fn skip_past(&mut self, now: Nanos) {
        if self.next_at() > now {
            return;
        }
        let period = self.trace.period();
        let periods = (now - self.period_start) / period;
        if periods > 0 {
            self.period_start += periods * period;
            self.next = 0;
        }
        let into_period = now - self.period_start;
        self.next += self.trace.times[self.next..].partition_point(|&time| time <= into_period);
    }

    fn open_next(&mut self) {
        (self.open_at, self.open_bytes) = (self.next_at(), OPPORTUNITY_BYTES);
        self.next += 1;
        if self.next == self.trace.times.len() {
            self.next = 0;
            self.period_start += self.trace.period();
        }
    }
}
