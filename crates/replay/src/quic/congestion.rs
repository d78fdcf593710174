//! Leaves room in an origin's congestion window for the packets that end its handshake.
//!
//! If a handshake packet is lost, responses to early data fill the window, and no acknowledgment makes room.
//! Without the `ServerHello`, the client cannot decrypt the responses. Without the client's `Finished`, the
//! origin cannot decrypt acknowledgments. quinn 0.11 then stalls in two ways:
//!
//! - During the handshake, an acknowledgment of a later Initial packet may reveal that the `ServerHello` is
//!   lost. The retransmission then waits forever for room (as in quicwg/base-drafts#2984 and nginx#1616).
//! - After the handshake, no loss timer runs: quinn last set it during the handshake, when 1-RTT packets have
//!   no timer. There is no room for `HANDSHAKE_DONE`, whose acknowledgment would reveal the loss.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fastopen_netns::clock::monotonic_ns;
use quinn::congestion::{Controller, ControllerFactory};

use super::{CongestionControl, DATAGRAM_BYTES};

/// Number of datagrams that a probe timeout may send (RFC 9002 section 6.2.4).
const PROBES: u64 = 2;
/// Probe timeout after the first RTT sample, in round trips (RFC 9002 sections 5.3 and 6.2.1).
const PTO_RTTS: u32 = 3;
/// Probe timeout before the first RTT sample (RFC 9002 section 6.2.2).
const INITIAL_PTO: Duration = Duration::from_millis(999);

pub(super) struct RoomFactory {
    pub(super) inner: CongestionControl,
    /// End of the handshake, in nanoseconds of the monotonic clock; unset until then.
    pub(super) completed_ns: Arc<OnceLock<u64>>,
}

impl ControllerFactory for RoomFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Room {
            inner: self.inner.clone().build(now, current_mtu),
            completed_ns: self.completed_ns.clone(),
            probe_after: INITIAL_PTO,
            unacknowledged: 0,
            when_lost: None,
            acknowledged: false,
        })
    }
}

/// A congestion controller that lets an origin complete a handshake even if the congestion window is full.
/// After each loss during the handshake, the origin may send two more datagrams. After the handshake, until
/// the next acknowledgment, it may send two: at once if there was a loss, otherwise after a probe timeout.
struct Room {
    inner: Box<dyn Controller>,
    completed_ns: Arc<OnceLock<u64>>,
    /// Time from the end of the handshake to the probe, if no acknowledgment arrives in between.
    probe_after: Duration,
    /// Bytes sent before the end of the QUIC handshake and not acknowledged yet, including lost bytes: an
    /// upper bound of the bytes in flight.
    unacknowledged: u64,
    /// Value of `unacknowledged` when the last loss was detected; `None` before the first loss.
    when_lost: Option<u64>,
    acknowledged: bool,
}

impl Controller for Room {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        if self.completed_ns.get().is_none() {
            self.unacknowledged += bytes;
        }
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &quinn_proto::RttEstimator,
    ) {
        self.acknowledged |= self.completed_ns.get().is_some();
        self.unacknowledged = self.unacknowledged.saturating_sub(bytes);
        self.probe_after = PTO_RTTS * rtt.get();
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_acked: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        self.when_lost = Some(self.unacknowledged);
        self.inner.on_congestion_event(now, sent, persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        let window = self.inner.window();
        if self.acknowledged {
            return window;
        }
        let is_due = |completed_ns: u64| monotonic_ns() >= completed_ns + self.probe_after.as_nanos() as u64;
        let stuck = match self.completed_ns.get() {
            None => self.when_lost,
            Some(&at) => (self.when_lost.is_some() || is_due(at)).then_some(self.unacknowledged),
        };
        // quinn sends a datagram only if the bytes in flight, including the datagram, stay below the window.
        stuck.map_or(window, |stuck| window.max(stuck + PROBES * u64::from(DATAGRAM_BYTES) + 1))
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let Self { probe_after, unacknowledged, when_lost, acknowledged, .. } = *self;
        let (inner, completed_ns) = (self.inner.clone_box(), self.completed_ns.clone());
        Box::new(Self { inner, completed_ns, probe_after, unacknowledged, when_lost, acknowledged })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
#[path = "../../tests/unit/congestion.rs"]
mod tests;
