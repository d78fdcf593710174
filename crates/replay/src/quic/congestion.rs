//! Room in an origin's congestion window for what ends its handshake.
//!
//! Where the packets of an origin that a client needs for its keys are lost, early answers after them cannot
//! be read, and count as in flight while the loss makes the window smaller. The loss timer of quinn 0.11
//! does not run then when the handshake is over: it is set while the connection still counts as handshaking,
//! when 1-RTT packets have none. And there is no room for the `HANDSHAKE_DONE` whose acknowledgment would
//! show the loss.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quinn::congestion::{Controller, ControllerFactory};

use super::DATAGRAM_BYTES;

/// The probes that a timer would send (RFC 9002 section 6.2.4).
const PROBES: u64 = 2;

/// Makes the controller of one origin's connection.
pub(super) struct RoomFactory {
    pub(super) inner: Arc<dyn ControllerFactory + Send + Sync>,
    /// Whether the handshake is over.
    pub(super) complete: Arc<AtomicBool>,
}

impl ControllerFactory for RoomFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, current_mtu);
        Box::new(Room { inner, complete: self.complete.clone(), sent: 0, lost: false, acknowledged: false })
    }
}

/// A controller whose window has room for two datagrams after a handshake with losses, until the first
/// acknowledgment.
struct Room {
    inner: Box<dyn Controller>,
    complete: Arc<AtomicBool>,
    /// All bytes that were sent before the handshake was over: no fewer than are in flight.
    sent: u64,
    lost: bool,
    acknowledged: bool,
}

impl Controller for Room {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        if !self.complete.load(Ordering::Relaxed) {
            self.sent += bytes;
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
        self.acknowledged |= self.complete.load(Ordering::Relaxed);
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_acked: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        self.lost = true;
        self.inner.on_congestion_event(now, sent, persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        let window = self.inner.window();
        if self.lost && !self.acknowledged && self.complete.load(Ordering::Relaxed) {
            // What is sent may not reach the window itself.
            window.max(self.sent + PROBES * u64::from(DATAGRAM_BYTES) + 1)
        } else {
            window
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let Self { sent, lost, acknowledged, .. } = *self;
        let inner = self.inner.clone_box();
        Box::new(Self { inner, complete: self.complete.clone(), sent, lost, acknowledged })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
