//! Room in an origin's congestion window for what ends its handshake.
//!
//! Where the packets of an origin that a client needs for its keys are lost, early answers after them cannot
//! be read, so that no acknowledgment makes room: they fill the window, which the loss makes smaller. Then
//! quinn 0.11 sends the lost `ServerHello` again only if its own timer probes for it; once a later Initial
//! packet has shown the loss, it waits for room that never comes (as in quicwg/base-drafts#2984 and
//! nginx#1616). And when the handshake is over, the loss timer does not run: it is set while the connection
//! still counts as handshaking, when 1-RTT packets have none. There is no room either for the
//! `HANDSHAKE_DONE` whose acknowledgment would show the loss.

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
        let complete = self.complete.clone();
        Box::new(Room { inner, complete, sent: 0, sent_when_lost: None, acknowledged: false })
    }
}

/// A controller whose window has room for two datagrams after each loss in a handshake, and after that
/// handshake, until the first acknowledgment of what came after it.
struct Room {
    inner: Box<dyn Controller>,
    complete: Arc<AtomicBool>,
    /// All bytes that were sent before the handshake was over: no fewer than are in flight.
    sent: u64,
    /// Of these, those before the last loss.
    sent_when_lost: Option<u64>,
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
        self.sent_when_lost = Some(self.sent);
        self.inner.on_congestion_event(now, sent, persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        let window = self.inner.window();
        match self.sent_when_lost {
            Some(sent_when_lost) if !self.acknowledged => {
                let sent = if self.complete.load(Ordering::Relaxed) { self.sent } else { sent_when_lost };
                // What is sent may not reach the window itself.
                window.max(sent + PROBES * u64::from(DATAGRAM_BYTES) + 1)
            }
            _ => window,
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let Self { sent, sent_when_lost, acknowledged, .. } = *self;
        let inner = self.inner.clone_box();
        Box::new(Self { inner, complete: self.complete.clone(), sent, sent_when_lost, acknowledged })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use quinn::congestion::CubicConfig;

    use super::*;

    const INITIAL_WINDOW: u64 = 12_000;

    fn room() -> (Box<dyn Controller>, Arc<AtomicBool>, Instant) {
        let mut cubic = CubicConfig::default();
        cubic.initial_window(INITIAL_WINDOW);
        let complete = Arc::new(AtomicBool::new(false));
        let factory = RoomFactory { inner: Arc::new(cubic), complete: complete.clone() };
        let now = Instant::now();
        (Arc::new(factory).build(now, DATAGRAM_BYTES), complete, now)
    }

    #[test]
    fn a_server_hello_that_was_lost_before_a_window_of_early_answers_can_be_sent_again() {
        let (mut room, complete, now) = room();
        room.on_sent(now, INITIAL_WINDOW, 9);
        assert_eq!(room.window(), INITIAL_WINDOW);
        room.on_congestion_event(now, now, false, 1200);
        let after_loss = INITIAL_WINDOW + 2 * u64::from(DATAGRAM_BYTES) + 1;
        assert_eq!(room.window(), after_loss);
        // What is sent then makes no more room, until the handshake is over.
        room.on_sent(now, 2400, 11);
        assert_eq!(room.window(), after_loss);
        complete.store(true, Ordering::Relaxed);
        assert_eq!(room.window(), after_loss + 2400);
    }

    #[test]
    fn without_a_loss_in_the_handshake_the_window_is_the_controllers() {
        let (mut room, complete, now) = room();
        room.on_sent(now, INITIAL_WINDOW, 9);
        complete.store(true, Ordering::Relaxed);
        assert_eq!(room.window(), INITIAL_WINDOW);
    }
}
