//! TLS sessions and early data.

use crate::support::{LATE_US, Load, NETWORK, NONE, handshake, retransmitted};
use fastopen_replay::tls::SessionStart;
use fastopen_world::contract::{InvalidKind, Network, OriginTlsRecord, TlsRecord};

#[test]
fn a_load_that_begins_as_its_session_says_is_valid() {
    for session in [SessionStart::None, SessionStart::Resumed, SessionStart::Early] {
        assert_eq!(Load::tls(session).kinds(), NONE, "{session:?}");
    }
}

fn handshake_of(load: &mut Load, number: usize) -> &mut TlsRecord {
    load.connections[number].tls.as_mut().expect("it has one")
}

fn origins_handshake_of(load: &mut Load, number: usize) -> &mut OriginTlsRecord {
    handshake_of(load, number).origin.as_mut().expect("it has one")
}

#[test]
fn without_a_session_of_an_earlier_visit_the_first_handshake_is_full() {
    let load = |number: usize| {
        Load::tls(SessionStart::None).with(|load| load.connections[number].tls = Some(handshake(true, false)))
    };
    assert_eq!(load(0).kinds(), [InvalidKind::SessionBeforeFirst]);
    assert_eq!(load(0).with(|load| load.repeat_view = true).kinds(), NONE);
    // The ticket came with an earlier connection of the load.
    assert_eq!(load(2).kinds(), NONE);
}

#[test]
fn as_many_connections_resume_as_there_are_tickets_and_both_ends_say_so() {
    let missing =
        Load::tls(SessionStart::Resumed).with(|load| load.connections[1].tls = Some(handshake(false, false)));
    assert_eq!(missing.kinds(), [InvalidKind::NotResumed]);
    assert_eq!(missing.with(|load| load.tls.tickets = 1).kinds(), NONE);
    let doubtful =
        Load::tls(SessionStart::Resumed).with(|load| origins_handshake_of(load, 1).resumed = false);
    assert_eq!(doubtful.kinds(), [InvalidKind::NotResumed]);
}

#[test]
fn early_data_counts_only_where_the_origin_read_it_before_the_handshake_was_complete() {
    let unread = || Load::tls(SessionStart::Early).with(|load| origins_handshake_of(load, 0).early_bytes = 0);
    assert_eq!(unread().kinds(), [InvalidKind::NoEarlyData]);
    let lost = unread().with(|load| {
        load.connections[0] = retransmitted(load.connections[0].clone());
        load.link.up.dropped_loss = 1;
    });
    assert_eq!(lost.kinds(), NONE);
    assert_eq!(unread().with(|load| load.page.resources[0].method = "POST".into()).kinds(), NONE);
}

#[test]
fn early_data_where_none_is_to_be_is_named() {
    let early = || handshake(true, true);
    let resumed = Load::tls(SessionStart::Resumed).with(|load| load.connections[0].tls = Some(early()));
    assert_eq!(resumed.kinds(), [InvalidKind::EarlyDataUnasked]);
    let rejected = Load::tls(SessionStart::Early).with(|load| load.tls.early_data_rejected = true);
    assert!(rejected.kinds().contains(&InvalidKind::EarlyDataUnasked));
}

#[test]
fn an_answer_to_early_data_that_waited_for_the_handshake_is_named() {
    let held =
        |ns| Load::tls(SessionStart::Early).with(|load| origins_handshake_of(load, 1).answer_held_ns = ns);
    assert_eq!(held(LATE_US * 1000).kinds(), NONE);
    assert_eq!(held(LATE_US * 1000 + 1).kinds(), [InvalidKind::AnswerHeld]);
}

#[test]
fn no_answer_comes_before_the_round_trips_of_its_first_flight() {
    for (session, rtts) in [(SessionStart::None, 3), (SessionStart::Resumed, 3), (SessionStart::Early, 2)] {
        let load = |first_byte_ns| {
            Load::tls(session).with(|load| load.requests[0].first_byte_ns = Some(first_byte_ns))
        };
        assert_eq!(load(rtts * 10_000_000).kinds(), NONE, "{session:?}");
        let sooner = load(rtts * 10_000_000 - 10_000);
        assert_eq!(sooner.kinds(), [InvalidKind::SoonerThanPossible], "{session:?}");
        assert_eq!(sooner.with(|load| load.network = jittery()).kinds(), NONE);
    }
}

fn jittery() -> Network {
    let jitter = NETWORK.replacen("null}", "null, \"jitter\": {\"normal_us\": 1}}", 1);
    serde_json::from_str(&jitter).expect("it is a network")
}
