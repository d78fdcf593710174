use quinn::congestion::CubicConfig;

use super::*;

const INITIAL_WINDOW: u64 = 12_000;
const PROBES_BYTES: u64 = PROBES * DATAGRAM_BYTES as u64 + 1;

fn full() -> (Box<dyn Controller>, Arc<OnceLock<u64>>, Instant) {
    let mut cubic = CubicConfig::default();
    cubic.initial_window(INITIAL_WINDOW);
    let completed_ns = Arc::new(OnceLock::new());
    let factory = RoomFactory { inner: Arc::new(cubic), completed_ns: completed_ns.clone() };
    let now = Instant::now();
    let mut room = Arc::new(factory).build(now, DATAGRAM_BYTES);
    room.on_sent(now, INITIAL_WINDOW, 9);
    assert_eq!(room.window(), INITIAL_WINDOW);
    (room, completed_ns, now)
}

#[test]
fn a_server_hello_that_was_lost_before_early_answers_can_be_sent_again() {
    let (mut room, completed_ns, now) = full();
    room.on_congestion_event(now, now, false, 1200);
    assert_eq!(room.window(), INITIAL_WINDOW + PROBES_BYTES);
    // Packets sent in this room do not add to it until the handshake is complete.
    room.on_sent(now, 2400, 11);
    assert_eq!(room.window(), INITIAL_WINDOW + PROBES_BYTES);
    completed_ns.set(monotonic_ns()).expect("it is set once");
    assert_eq!(room.window(), INITIAL_WINDOW + 2400 + PROBES_BYTES);
}

#[test]
fn where_a_finished_was_late_there_is_room_when_a_probe_is_due() {
    let (room, completed_ns, _) = full();
    completed_ns.set(monotonic_ns() - INITIAL_PTO.as_nanos() as u64).expect("it is set once");
    assert_eq!(room.window(), INITIAL_WINDOW + PROBES_BYTES);
}

#[test]
fn after_a_handshake_without_a_loss_the_window_is_the_controllers() {
    let (room, completed_ns, _) = full();
    completed_ns.set(monotonic_ns()).expect("it is set once");
    assert_eq!(room.window(), INITIAL_WINDOW);
}
