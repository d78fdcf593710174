//! Tests when QUIC connections make a load invalid.

use crate::support::{B, Load, NONE, handshake};
use fastopen_contract::{InvalidKind, QuicEnd, QuicRecord};
use fastopen_link::path::Behaviour;
use fastopen_replay::HttpVersion;
use fastopen_replay::quic::packets::PacketCounts;
use fastopen_replay::tls::SessionStart;

/// Returns the packet counts of both ends of a connection. The client sent `zero_rtt` 0-RTT packets.
fn quic(zero_rtt: u64) -> QuicRecord {
    let up =
        PacketCounts { datagrams: 4, bytes: 4000, initial: 2, zero_rtt, handshake: 1, one_rtt: 2, retry: 0 };
    let down = PacketCounts {
        datagrams: 5,
        bytes: 5000,
        initial: 1,
        zero_rtt: 0,
        handshake: 2,
        one_rtt: 4,
        retry: 0,
    };
    let end = |sent, received| QuicEnd { sent, received, lost_packets: Some(0), rtt_us: Some(10_000) };
    QuicRecord { client: end(up, down), origin: Some(end(down, up)) }
}

/// Returns a valid load over HTTP/3, with responses a round trip earlier than over TCP.
fn load(session: SessionStart) -> Load {
    let early = session == SessionStart::Early;
    let mut load = Load::tls(session);
    load.job.origins.http = HttpVersion::Http3;
    for connection in &mut load.connections {
        let sends_early = early && connection.tls.as_ref().is_some_and(|tls| tls.resumed);
        (connection.client, connection.origin) = (None, None);
        connection.handshake_us = None;
        connection.quic = Some(quic(u64::from(sends_early)));
    }
    for request in &mut load.requests {
        request.first_byte_ns = Some(if early { 10_000_000 } else { 20_000_000 });
    }
    load
}

fn quic_of(load: &mut Load, number: usize) -> &mut QuicRecord {
    load.connections[number].quic.as_mut().expect("it has one")
}

#[test]
fn of_a_request_that_a_browser_gave_up_the_origins_time_is_not_the_clients() {
    let load = load(SessionStart::Early).with(|load| {
        load.requests[0].queued_ns = None;
        load.requests[0].first_byte_ns = Some(1);
    });
    assert_eq!(load.kinds(), NONE);
}

#[test]
fn a_load_over_quic_that_begins_as_its_session_says_is_valid_a_round_trip_sooner() {
    for session in [SessionStart::None, SessionStart::Resumed, SessionStart::Early] {
        assert_eq!(load(session).kinds(), NONE, "{session:?}");
        let sooner = load(session).with(|load| {
            let first_byte_ns = load.requests[0].first_byte_ns.expect("it has one") - 10_000;
            load.requests[0].first_byte_ns = Some(first_byte_ns);
        });
        assert_eq!(sooner.kinds(), [InvalidKind::SoonerThanPossible], "{session:?}");
    }
}

#[test]
fn early_data_that_no_packet_carried_does_not_count_whatever_both_ends_say() {
    let unsent = load(SessionStart::Early).with(|load| *quic_of(load, 0) = quic(0));
    assert_eq!(unsent.kinds(), [InvalidKind::NoEarlyData]);
    let excused = unsent.with(|load| quic_of(load, 0).client.lost_packets = Some(1));
    assert_eq!(excused.kinds(), NONE);
    let does_not_say = excused.with(|load| quic_of(load, 0).client.lost_packets = None);
    assert_eq!(does_not_say.kinds(), [InvalidKind::NoEarlyData]);
    assert_eq!(does_not_say.with(|load| load.link.up.dropped_loss = 1).kinds(), NONE);
}

#[test]
fn packets_of_early_data_are_in_no_load_that_has_none() {
    for session in [SessionStart::None, SessionStart::Resumed] {
        let unasked = load(session).with(|load| *quic_of(load, 1) = quic(1));
        assert_eq!(unasked.kinds(), [InvalidKind::EarlyDataUnasked], "{session:?}");
    }
    let rejected = load(SessionStart::Early).with(|load| {
        load.job.tls.early_data_rejected = true;
        for connection in &mut load.connections {
            let tls = connection.tls.as_mut().expect("it has one");
            tls.early_bytes = 0;
            tls.origin.as_mut().expect("it has one").early_bytes = 0;
        }
        load.requests.iter_mut().for_each(|one| one.first_byte_ns = Some(20_000_000));
    });
    assert_eq!(rejected.kinds(), NONE);
}

#[test]
fn connections_are_quics_to_hosts_with_http3_and_to_no_others() {
    let over_tcp = load(SessionStart::None).with(|load| load.connections[0].quic = None);
    assert_eq!(over_tcp.kinds(), [InvalidKind::NoQuic, InvalidKind::SoonerThanPossible]);
    let over_quic = load(SessionStart::None).with(|load| load.job.origins.http = HttpVersion::Http2);
    assert_eq!(over_quic.kinds(), [InvalidKind::NoQuic; 3]);
    let unused = load(SessionStart::None).with(|load| {
        (load.connections[2].quic, load.connections[2].requests) = (None, 0);
    });
    assert_eq!(unused.kinds(), NONE);
}

/// Returns a load in which a.test did not answer over QUIC, and the client used TCP 200 ms later. `after_ms`
/// is the delay after which the job lets the client fall back to TCP.
fn fallen_back(after_ms: u64) -> Load {
    load(SessionStart::None).with(|load| {
        load.job.client.h3_fallback_us = Some(after_ms * 1000);
        let mut left = load.connections[0].clone();
        (left.tls, left.requests) = (None, 0);
        left.quic.as_mut().expect("it has one").origin = None;
        let taken = &mut load.connections[0];
        taken.quic = None;
        taken.opened_ns = 200_000_000;
        let first = load.requests.iter_mut().filter(|one| one.connection == Some(taken.id));
        first.for_each(|one| one.first_byte_ns = Some(230_000_000));
        left.id = 77;
        load.connections.push(left);
    })
}

#[test]
fn a_client_that_falls_back_may_speak_tcp_after_quic_had_its_time() {
    assert_eq!(fallen_back(200).kinds(), NONE);
    let too_soon = fallen_back(201);
    assert_eq!(too_soon.kinds(), [InvalidKind::NoQuic]);
    assert!(too_soon.reasons()[0].detail.contains("before the fallback delay was over"));
    let secured = fallen_back(200).with(|load| {
        let left = load.connections.last_mut().expect("it has some");
        left.tls = Some(handshake(false, false));
    });
    assert!(secured.kinds().contains(&InvalidKind::NoQuic));
}

#[test]
fn datagrams_that_pass_where_udp_is_blocked_make_a_load_invalid() {
    let blocked = load(SessionStart::None).with(|load| load.path.behaviour = Behaviour::BlockUdp);
    assert_eq!(blocked.kinds(), [InvalidKind::PathWithoutEffect]);
    let behind = load(SessionStart::None).with(|load| {
        load.path.behaviour = Behaviour::BlockUdp;
        load.path.hosts = Some([B].into());
    });
    assert_eq!(behind.kinds(), NONE);
}

#[test]
fn no_end_receives_what_the_other_has_not_sent() {
    let more = load(SessionStart::None).with(|load| quic_of(load, 0).client.received.retry = 1);
    assert_eq!(more.kinds(), [InvalidKind::PacketsDisagree]);
    assert!(more.reasons()[0].detail.contains("the origin sent 0 Retry packets"));
    let under_way = load(SessionStart::None).with(|load| quic_of(load, 0).client.sent.one_rtt += 1);
    assert_eq!(under_way.kinds(), NONE);
    let unseen = load(SessionStart::None).with(|load| quic_of(load, 0).origin = None);
    assert_eq!(unseen.kinds(), [InvalidKind::PacketsDisagree]);
}

#[test]
fn datagrams_that_a_kernel_had_no_room_for_make_a_load_invalid() {
    let full = load(SessionStart::None).client_counts("UdpRcvbufErrors", 1);
    assert_eq!(full.kinds(), [InvalidKind::DatagramsDropped]);
}
