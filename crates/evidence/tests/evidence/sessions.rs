//! Tests when TLS sessions, early data or the times of first bytes make a load invalid.

use crate::support::{A, B, LATE_US, Load, NETWORK, NONE, end, handshake, retransmitted};
use fastopen_contract::{
    ClientKind, Cookies, InvalidKind, Network, OriginTlsRecord, RequestRecord, TlsRecord, Transport,
};
use fastopen_replay::tls::{SessionStart, TicketState};

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
    // Connection 2 may use a ticket that an earlier connection of the load received.
    assert_eq!(load(2).kinds(), NONE);
    // The SYN of connection 0 was lost, and another connection completed its handshake earlier.
    assert_eq!(load(0).with(|load| handshake_of(load, 0).secured_ns = 1_030_000_000).kinds(), NONE);
}

#[test]
fn as_many_connections_resume_as_there_are_tickets_and_both_ends_say_so() {
    let missing =
        Load::tls(SessionStart::Resumed).with(|load| load.connections[1].tls = Some(handshake(false, false)));
    assert_eq!(missing.kinds(), [InvalidKind::NotResumed]);
    assert_eq!(missing.with(|load| load.job.tls.tickets = 1).kinds(), NONE);
    let kept = |kind| {
        Load::tls(SessionStart::Resumed).with(|load| {
            load.job.tls.tickets = 6;
            load.job.client.kind = kind;
        })
    };
    assert_eq!(kept(ClientKind::Command).kinds(), NONE, "a command may have only one ticket left");
    assert_eq!(kept(ClientKind::Loader).kinds(), [InvalidKind::NotResumed]);
    let resumed = |number: usize| {
        kept(ClientKind::Command).with(|load| {
            for connection in &mut load.connections[number..] {
                connection.tls = Some(handshake(false, false));
            }
        })
    };
    assert_eq!(resumed(1).kinds(), NONE);
    assert_eq!(resumed(0).kinds(), [InvalidKind::NotResumed]);
    let doubtful =
        Load::tls(SessionStart::Resumed).with(|load| origins_handshake_of(load, 1).resumed = false);
    assert_eq!(doubtful.kinds(), [InvalidKind::NotResumed]);
}

#[test]
fn early_data_counts_only_where_the_origin_read_it_before_the_handshake_was_complete() {
    let unread = || {
        Load::tls(SessionStart::Early).with(|load| {
            origins_handshake_of(load, 0).early_bytes = 0;
            load.requests[0].first_byte_ns = Some(30_000_000);
        })
    };
    assert_eq!(unread().kinds(), [InvalidKind::NoEarlyData]);
    let answered = unread().with(|load| load.requests[0].first_byte_ns = Some(20_000_000));
    assert_eq!(answered.kinds(), [InvalidKind::NoEarlyData, InvalidKind::SoonerThanPossible]);
    let lost = unread().with(|load| {
        load.connections[0] = retransmitted(load.connections[0].clone());
        load.link.up.dropped_loss = 1;
    });
    assert_eq!(lost.kinds(), NONE);
    assert_eq!(unread().with(|load| load.job.page.resources[0].method = "POST".into()).kinds(), NONE);
}

#[test]
fn a_connection_whose_first_request_came_when_its_handshake_was_over_had_nothing_to_send_early() {
    let sent_after_us = |us: u64| {
        Load::tls(SessionStart::Early).with(|load| {
            let tls = handshake_of(load, 0);
            tls.early_bytes = 0;
            let sent_ns = tls.secured_ns + us * 1000;
            origins_handshake_of(load, 0).early_bytes = 0;
            load.requests[0].sent_ns = Some(sent_ns);
            load.requests[0].first_byte_ns = Some(sent_ns + 20_000_000);
            load.requests[0].end_ns = Some(sent_ns + 20_000_000);
        })
    };
    // A request that is sent within the tolerance after the handshake counts as one that waited for it.
    assert!(sent_after_us(LATE_US).kinds().contains(&InvalidKind::NoEarlyData));
    assert!(!sent_after_us(LATE_US + 1).kinds().contains(&InvalidKind::NoEarlyData));
}

/// Returns a load with Fast Open whose first connection sends a `ClientHello` and early data of these sizes.
/// The origin read the early data only after the handshake, and answered after two round trips.
fn in_a_syn(hello_bytes: u64, early_bytes: u64) -> Load {
    Load::tls(SessionStart::Early).with(|load| {
        load.plan.transport = Transport::TlsTfo;
        load.plan.cookies = Some(Cookies::Warm);
        load.cookies_before = vec![A, B];
        for connection in &mut load.connections {
            (connection.client, connection.origin) = (Some(end(true)), Some(end(true)));
        }
        load.count();
        let tls = handshake_of(load, 0);
        (tls.hello_bytes, tls.early_bytes) = (hello_bytes, early_bytes);
        origins_handshake_of(load, 0).early_bytes = 0;
    })
}

#[test]
fn early_data_that_does_not_fit_into_a_syn_is_held_to_two_round_trips() {
    // At an MTU of 1500 bytes a SYN holds 1420 bytes of data, of which record headers and a tag take 28.
    assert_eq!(in_a_syn(300, 1420 - 300 - 28).kinds(), [InvalidKind::NoEarlyData]);
    let exceeds = || in_a_syn(300, 1420 - 300 - 28 + 1);
    assert_eq!(exceeds().kinds(), NONE);
    let sooner = exceeds().with(|load| load.requests[0].first_byte_ns = Some(19_990_000));
    assert_eq!(sooner.kinds(), [InvalidKind::SoonerThanPossible]);
    // The origin may have read the rest before the client's Finished, which takes the same number of round
    // trips.
    let read_apart = |ns| {
        exceeds().with(|load| {
            origins_handshake_of(load, 0).early_bytes = 1093;
            load.job.page.resources[0].body_bytes = 5000;
            load.requests[0].body_bytes = 5000;
            load.requests[0].first_byte_ns = Some(ns);
        })
    };
    assert_eq!(read_apart(25_000_000).kinds(), NONE);
    assert_eq!(read_apart(40_000_000).kinds(), [InvalidKind::FirstByteLate]);
    // The first connection has used its ticket, but the other connection must still send early data.
    let other_unread = exceeds().with(|load| origins_handshake_of(load, 1).early_bytes = 0);
    assert_eq!(other_unread.kinds(), [InvalidKind::NoEarlyData]);
    // After a SYN without data, all early data arrives before the client's Finished.
    let without = exceeds().with(|load| {
        load.connections[0].client = Some(end(false));
        load.requests[0].first_byte_ns = Some(30_000_000);
    });
    assert!(without.kinds().contains(&InvalidKind::NoEarlyData));
    // All early data also arrives before the client's Finished if the `ClientHello` does not fit into the SYN
    // either.
    assert_eq!(in_a_syn(1421, 400).kinds(), [InvalidKind::NoEarlyData]);
}

#[test]
fn a_path_with_a_smaller_mtu_has_less_room_in_a_syn() {
    let load = || in_a_syn(300, 800);
    assert_eq!(load().kinds(), [InvalidKind::NoEarlyData]);
    assert_eq!(load().with(|load| load.job.network.mtu_bytes = 1200).kinds(), NONE);
}

#[test]
fn early_data_where_none_is_to_be_is_named() {
    let early = || handshake(true, true);
    let resumed = Load::tls(SessionStart::Resumed).with(|load| load.connections[0].tls = Some(early()));
    assert_eq!(resumed.kinds(), [InvalidKind::EarlyDataUnasked]);
    let rejected = Load::tls(SessionStart::Early).with(|load| load.job.tls.early_data_rejected = true);
    assert!(rejected.kinds().contains(&InvalidKind::EarlyDataUnasked));
    for state in [TicketState::Stale, TicketState::Expired, TicketState::Forgotten] {
        let no_good = Load::tls(SessionStart::Early).with(|load| load.job.tls.ticket_state = state);
        assert!(no_good.kinds().contains(&InvalidKind::EarlyDataUnasked));
        let resumed_none = no_good.kinds().contains(&InvalidKind::SessionBeforeFirst);
        assert_eq!(resumed_none, state != TicketState::Stale);
    }
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
        assert_eq!(sooner.with(|load| load.job.network = jittery()).kinds(), NONE);
    }
}

fn jittery() -> Network {
    let jitter = NETWORK.replacen("null}", "null, \"jitter\": {\"normal_us\": 1}}", 1);
    serde_json::from_str(&jitter).expect("it is a network")
}

#[test]
fn an_answer_that_comes_a_round_trip_after_its_first_flight_is_named() {
    // The network has a round trip of 10 ms. The rule allows twice the tolerance for a busy machine.
    let slack_ns = 2 * LATE_US * 1000;
    for (session, rtts) in [(SessionStart::None, 3), (SessionStart::Resumed, 3), (SessionStart::Early, 2)] {
        let load = |after_ns| {
            Load::tls(session).with(|load| {
                load.job.page.resources[0].body_bytes = 300;
                load.requests.iter_mut().for_each(|one| one.body_bytes = 300);
                load.requests[0].first_byte_ns = Some(rtts * 10_000_000 + after_ns);
            })
        };
        assert_eq!(load(slack_ns).kinds(), NONE, "{session:?}");
        let late = || load(slack_ns + 1_000_000);
        assert_eq!(late().kinds(), [InvalidKind::FirstByteLate], "{session:?}");
        // This bound does not apply to external clients, nor with jitter, with think time or after losses.
        assert_eq!(late().with(|load| load.job.client.kind = ClientKind::Command).kinds(), NONE);
        assert_eq!(late().with(|load| load.job.network = jittery()).kinds(), NONE);
        assert_eq!(late().with(|load| load.job.page.resources[0].server_think_us = 1_000).kinds(), NONE);
        let lost = late().with(|load| {
            load.connections[0] = retransmitted(load.connections[0].clone());
            load.link.up.dropped_loss = 1;
        });
        assert_eq!(lost.kinds(), NONE);
    }
}

#[test]
fn an_answer_of_more_than_the_initial_window_may_take_another_round_trip() {
    // A TLS record can be read only once it is complete.
    let load = Load::tls(SessionStart::Early).with(|load| {
        load.job.page.resources[0].body_bytes = 20_000;
        let first_byte_ns = Some(30_000_000 + 2 * LATE_US * 1000);
        let first = RequestRecord { body_bytes: 20_000, first_byte_ns, ..load.requests[0].clone() };
        load.requests = vec![first];
    });
    assert_eq!(load.kinds(), NONE);
    let fits = load.with(|load| load.job.tcp.initial_window_segments = 20);
    assert_eq!(fits.kinds(), [InvalidKind::FirstByteLate]);
}

#[test]
fn what_the_client_or_the_initial_window_holds_back_is_not_late() {
    let late = |ns: u64| {
        Load::tls(SessionStart::None).with(|load| {
            load.job.page.resources[0].body_bytes = 300;
            load.requests.iter_mut().for_each(|one| one.body_bytes = 300);
            load.requests[0].first_byte_ns = Some(ns);
        })
    };
    let slack_ns = 2 * LATE_US * 1000;
    let too_late = || late(30_000_000 + slack_ns + 1_000_000);
    assert_eq!(too_late().kinds(), [InvalidKind::FirstByteLate]);
    // The client held the request back on an open connection until other requests were answered.
    let held = too_late().with(|load| load.requests[0].sent_ns = Some(60_000_000));
    assert_eq!(held.kinds(), NONE);
    // Certificates larger than the initial window take another round trip.
    let chain = too_late().with(|load| handshake_of(load, 0).received_bytes = 20_000);
    assert_eq!(chain.kinds(), NONE);
    // If the last segment of the first flight is acknowledged late, the second flight has 18 segments instead
    // of 20. So the two flights carry 28 segments.
    let of_segments = |segments: u64| {
        late(40_000_000 + slack_ns + 6_000_000)
            .with(|load| handshake_of(load, 0).received_bytes = segments * 1448)
    };
    assert_eq!(of_segments(28).kinds(), [InvalidKind::FirstByteLate]);
    assert_eq!(of_segments(29).kinds(), NONE);
}

#[test]
fn early_data_that_exceeds_the_initial_window_arrives_with_the_end_of_the_handshake() {
    // At an MTU of 1500 bytes, a SYN holds 1420 bytes of data and a segment 1448. So the first window carries
    // the last 80 bytes of the `ClientHello` and a part of the early data.
    let load = |window| in_a_syn(1500, 2900).with(|load| load.job.tcp.initial_window_segments = window);
    assert_eq!(load(1).kinds(), NONE);
    assert_eq!(load(3).kinds(), [InvalidKind::NoEarlyData]);
}
