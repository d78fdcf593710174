//! Tests when requests, data in SYNs, cookies, counters or the link make a load invalid.

use fastopen_contract::{
    Cached, ConnectionCounts, ConnectionRecord, EndEvidence, InvalidKind, ListenerRecord, ServerRecord,
};
use fastopen_evidence::{FASTOPEN_COUNTERS, given_up};

use crate::support::*;

#[test]
fn a_load_whose_evidence_fits_its_transport_is_valid() {
    assert_eq!(Load::tcp().kinds(), NONE);
    assert_eq!(Load::warm().kinds(), NONE);
    let known = vec![connection("a.test", 0, false), connection("a.test", 11, true)];
    assert_eq!(Load::cold(known).kinds(), NONE);
}

#[test]
fn a_request_that_failed_makes_a_load_incomplete() {
    let load = Load::tcp().with(|load| load.requests[1].error = Some("no answer".into()));
    assert_eq!(load.kinds(), [InvalidKind::Incomplete]);
    assert_eq!(load.reasons()[0].detail, "http://b.test/: no answer");
    let both = load.with(|load| load.requests[0].error = Some("reset".into()));
    assert_eq!(both.reasons()[0].detail, "http://a.test/: reset (and 1 more)");
}

#[test]
fn a_load_that_did_not_finish_is_incomplete() {
    assert_eq!(Load::tcp().with(|load| load.finished = false).kinds(), [InvalidKind::Incomplete]);
}

#[test]
fn a_load_without_a_request_is_incomplete() {
    let nothing = Load::tcp().with(|load| {
        load.requests.clear();
        load.connections.clear();
    });
    assert_eq!(nothing.kinds(), [InvalidKind::Incomplete]);
}

#[test]
fn bytes_other_than_the_pages_are_wrong() {
    assert_eq!(Load::tcp().with(|load| load.requests[1].body_bytes = 299).kinds(), [InvalidKind::WrongBytes]);
    assert_eq!(
        Load::tcp().with(|load| load.requests[1].status = Some(404)).kinds(),
        [InvalidKind::WrongBytes]
    );
    let missing = Load::tcp().with(|load| {
        load.job.page.resources[1].status = 404;
        load.requests[1].status = Some(404);
    });
    assert_eq!(missing.kinds(), NONE);
}

#[test]
fn an_answer_that_was_cut_off_is_whole_where_the_browser_took_its_end_from_another() {
    let shared = |body_bytes| {
        Load::tcp().with(|load| {
            load.requests[0].body_bytes = body_bytes;
            load.requests[0].cache = Some(Cached::Shared);
        })
    };
    assert_eq!(shared(3000).kinds(), NONE);
    assert_eq!(shared(5001).kinds(), [InvalidKind::WrongBytes]);
}

#[test]
fn what_a_client_had_kept_needs_no_bytes_and_what_was_confirmed_needs_a_304() {
    for (cache, status) in [(Cached::Fresh, 200), (Cached::Revalidated, 304)] {
        let kept = Load::tcp().with(|load| {
            let request = &mut load.requests[1];
            (request.cache, request.status, request.body_bytes) = (Some(cache), Some(status), 0);
        });
        assert_eq!(kept.kinds(), NONE, "{cache:?}");
        assert_eq!(kept.with(|load| load.requests[1].status = Some(404)).kinds(), [InvalidKind::WrongBytes]);
    }
    let nothing = Load::tcp().with(|load| load.requests[1].body_bytes = 0);
    assert_eq!(nothing.kinds(), [InvalidKind::WrongBytes]);
}

#[test]
fn answers_that_must_not_have_a_body_are_right_without() {
    for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304)] {
        let load = Load::tcp().with(|load| {
            load.job.page.resources[1].method = method.into();
            load.job.page.resources[1].status = status;
            (load.requests[1].status, load.requests[1].body_bytes) = (Some(status), 0);
        });
        assert_eq!(load.kinds(), NONE, "{method} {status}");
    }
}

#[test]
fn data_in_a_syn_without_fast_open_shows_by_sockets_and_by_counters() {
    let sockets = Load::tcp().with(|load| load.connections[0].client = Some(end(true)));
    assert!(sockets.kinds().contains(&InvalidKind::SynDataWithoutTfo));
    for counter in FASTOPEN_COUNTERS {
        let client = Load::tcp().client_counts(counter, 1);
        assert!(client.kinds().contains(&InvalidKind::SynDataWithoutTfo), "{counter}");
        let origins = Load::tcp().origins_count(counter, 1);
        assert!(origins.kinds().contains(&InvalidKind::SynDataWithoutTfo), "{counter}");
    }
}

#[test]
fn a_warm_connection_without_data_in_its_syn_is_named_unless_it_lost_something_or_carried_nothing() {
    let bare = || connection("b.test", 20, false);
    let load = |connection| {
        Load::warm().with(|load| {
            load.connections[1] = connection;
            load.count();
        })
    };
    assert_eq!(load(bare()).kinds(), [InvalidKind::NoSynData]);
    assert!(load(bare()).reasons()[0].detail.contains("1 of 2 connections"));
    assert_eq!(load(retransmitted(bare())).kinds(), NONE);
    assert_eq!(load(ConnectionRecord { requests: 0, ..bare() }).kinds(), NONE);
}

#[test]
fn a_warm_load_needs_a_cookie_of_every_host() {
    let load = Load::warm().with(|load| load.cookies_before = vec![A]);
    assert_eq!(load.kinds(), [InvalidKind::NoCookieWhenWarm]);
    assert_eq!(load.reasons()[0].detail, "no cookie of b.test (1 of 2 hosts)");
}

#[test]
fn a_cold_load_must_begin_without_cookies() {
    let cold = || Load::cold(vec![connection("a.test", 0, false)]);
    assert_eq!(cold().kinds(), NONE);
    assert_eq!(cold().with(|load| load.cookies_before = vec![A]).kinds(), [InvalidKind::CookieBeforeCold]);
    assert_eq!(Load::cold(vec![connection("a.test", 0, true)]).kinds(), [InvalidKind::CookieBeforeCold]);
}

#[test]
fn cold_connections_before_the_cookie_has_come_may_go_without_and_those_after_may_not() {
    let six: Vec<_> = (0..6).map(|at| connection("a.test", at, false)).collect();
    assert_eq!(Load::cold(six.clone()).kinds(), NONE);
    // The first connection was established at 10 ms.
    let at = |at_ms| [six.clone(), vec![connection("a.test", at_ms, false)]].concat();
    assert_eq!(Load::cold(at(10)).kinds(), NONE);
    assert_eq!(Load::cold(at(11)).kinds(), [InvalidKind::NoSynData]);
    let elsewhere = vec![connection("a.test", 0, false), connection("b.test", 50, false)];
    assert_eq!(Load::cold(elsewhere).kinds(), NONE);
}

#[test]
fn the_cookie_of_a_host_serves_all_its_ports() {
    let other_port = |syn_data| ConnectionRecord { port: 8080, ..connection("a.test", 20, syn_data) };
    assert_eq!(Load::cold(vec![connection("a.test", 0, false), other_port(true)]).kinds(), NONE);
    assert_eq!(
        Load::cold(vec![connection("a.test", 0, false), other_port(false)]).kinds(),
        [InvalidKind::NoSynData]
    );
}

#[test]
fn a_connection_that_carried_nothing_brings_a_cookie_all_the_same() {
    let unused = ConnectionRecord { requests: 0, ..connection("a.test", 0, false) };
    assert_eq!(Load::cold(vec![unused, connection("a.test", 20, true)]).kinds(), NONE);
}

#[test]
fn a_cold_connection_that_lost_its_syn_brings_no_cookie() {
    let first = || retransmitted(connection("a.test", 0, false));
    assert_eq!(Load::cold(vec![first(), connection("a.test", 20, false)]).kinds(), NONE);
    // The first connection may have brought a cookie if the packet that it lost was not its SYN.
    assert_eq!(Load::cold(vec![first(), connection("a.test", 20, true)]).kinds(), NONE);
}

#[test]
fn a_full_queue_a_black_hole_and_refused_data_are_found_by_their_counters() {
    for (counter, kind) in [
        ("TCPFastOpenListenOverflow", InvalidKind::ListenOverflow),
        ("TCPFastOpenBlackhole", InvalidKind::Blackhole),
        ("TCPFastOpenPassiveFail", InvalidKind::FastopenFailed),
    ] {
        assert_eq!(Load::warm().origins_count(counter, 2).kinds(), [kind]);
        assert_eq!(Load::warm().client_counts(counter, 2).kinds(), [kind]);
        assert_eq!(Load::warm().client_counts(counter, 0).kinds(), NONE);
    }
}

#[test]
fn a_server_serves_to_the_end_and_needs_a_queue_where_loads_use_fast_open() {
    let listening = |fastopen_queue, connections| {
        let address = "0.0.0.0".parse().expect("it is an address");
        let listener = ListenerRecord { address, port: 80, fastopen_queue, connections, syn_data: 0 };
        Some(ServerRecord { listeners: vec![listener], upstream: ConnectionCounts::default() })
    };
    for (queue, connections, kinds) in [
        (Some(0), 2, &[InvalidKind::NoListenerQueue][..]),
        (Some(1), 2, &[]),
        (None, 2, &[]),
        // A listener without connections, such as one for IPv6.
        (Some(0), 0, &[]),
    ] {
        let server = listening(queue, connections);
        assert_eq!(Load::warm().with(|load| load.server = server).kinds(), kinds);
    }
    let without_cookies = Load::warm().with(|load| {
        load.server = listening(Some(0), 2);
        load.cookies_before.clear();
    });
    assert_eq!(without_cookies.kinds(), [InvalidKind::NoListenerQueue], "what follows from it is not said");
    assert_eq!(Load::tcp().with(|load| load.server = listening(Some(0), 2)).kinds(), NONE);
    let ended = Load::tcp().with(|load| load.server_failure = Some("the server x ended".into()));
    assert_eq!(ended.kinds(), [InvalidKind::ServerFailed]);
}

#[test]
fn a_servers_own_connections_carry_data_where_they_may_and_count_for_no_client() {
    let load = |arm: Load, connections, syn_data, active| {
        arm.with(|load| {
            let upstream = ConnectionCounts { connections, syn_data };
            load.server = Some(ServerRecord { listeners: Vec::new(), upstream });
            load.job.origins.upstream_tfo = true;
            load.counters.origins.insert("TCPFastOpenActive".into(), active);
            *load.counters.origins.entry("TCPFastOpenPassive".into()).or_default() += active;
        })
    };
    for arm in [Load::tcp, Load::warm] {
        assert_eq!(load(arm(), 2, 2, 2).kinds(), NONE);
        assert_eq!(load(arm(), 2, 1, 1).kinds(), [InvalidKind::NoSynData]);
        let not_asked = load(arm(), 2, 0, 0).with(|load| load.job.origins.upstream_tfo = false);
        assert_eq!(not_asked.kinds(), NONE);
    }
    // The origins' sockets report two connections with SYN data, but the kernel counts one.
    assert!(load(Load::warm(), 2, 2, 1).kinds().contains(&InvalidKind::CountersDisagree));
}

#[test]
fn data_in_a_syn_may_be_lost_where_packets_are_and_nowhere_else() {
    let failed = || Load::warm().client_counts("TCPFastOpenActiveFail", 1);
    assert_eq!(failed().kinds(), [InvalidKind::FastopenFailed]);
    assert_eq!(failed().with(|load| load.link.up.dropped_loss = 1).kinds(), NONE);
    assert_eq!(failed().with(|load| load.link.down.dropped_queue = 1).kinds(), NONE);
}

#[test]
fn data_in_a_syn_may_be_lost_where_a_queue_held_it_for_longer_than_its_timeout() {
    let failed = |queue_bytes: u64, again: bool| {
        Load::warm().client_counts("TCPFastOpenActiveFail", 1).with(|load| {
            load.job.network.up.rate_bit_per_s = Some(256_000);
            load.link.up.queue_bytes_max = Some(queue_bytes);
            load.link.down.queue_bytes_max = Some(0);
            if again {
                load.connections[1] = retransmitted(connection("b.test", 20, true));
            }
        })
    };
    // A queue of 31,680 bytes at 256 kbit/s (990 ms) and the round trip of 10 ms together take a second, the
    // timeout of a SYN.
    assert_eq!(failed(31_680, true).kinds(), NONE);
    assert_eq!(failed(31_600, true).kinds(), [InvalidKind::FastopenFailed]);
    assert_eq!(failed(64_000, false).kinds(), [InvalidKind::FastopenFailed]);
}

#[test]
fn counters_and_sockets_must_tell_the_same_story() {
    let active = Load::warm().client_counts("TCPFastOpenActive", 1);
    assert_eq!(active.kinds(), [InvalidKind::CountersDisagree]);
    let passive = Load::warm().origins_count("TCPFastOpenPassive", 3);
    assert_eq!(passive.kinds(), [InvalidKind::CountersDisagree]);
}

#[test]
fn a_connection_that_was_given_up_before_its_syn_ack_came_is_no_disagreement_of_the_ends() {
    let load = |given_up| {
        Load::warm().with(|load| {
            load.connections.push(given_up);
            load.count();
        })
    };
    let surplus = || given_up_connection("b.test", 30);
    assert_eq!(load(surplus()).kinds(), NONE);
    // The origin accepted the SYN data, so its kernel must have counted it.
    let uncounted = load(surplus()).with(|load| {
        load.counters.origins.insert("TCPFastOpenPassive".into(), 2);
    });
    assert_eq!(uncounted.kinds(), [InvalidKind::CountersDisagree]);
    assert!(uncounted.reasons()[0].detail.ends_with("1 of connections that were given up"));
    // A connection that carried a request, or whose client received a segment, was not given up.
    let used = ConnectionRecord { requests: 1, client: retransmitted(surplus()).client, ..surplus() };
    assert_eq!(load(used).kinds(), [InvalidKind::CountersDisagree]);
    let answered = ConnectionRecord { client: Some(end(false)), ..surplus() };
    assert_eq!(load(answered).kinds(), [InvalidKind::CountersDisagree]);
    // Without evidence of the client's end, a connection does not count as given up.
    let unknown = ConnectionRecord { client: None, ..surplus() };
    assert_eq!(load(unknown).kinds(), [InvalidKind::CountersDisagree]);
}

#[test]
fn connections_that_were_given_up_are_counted_apart_with_the_syn_data_that_the_origin_took() {
    let used = connection("a.test", 0, true);
    let dropped = ConnectionRecord { origin: None, ..given_up_connection("b.test", 30) };
    let unsent = ConnectionRecord {
        client: Some(EndEvidence { segments_out: 0, segments_in: 0, ..end(false) }),
        ..dropped.clone()
    };
    let counted = given_up(&[used, given_up_connection("b.test", 20), dropped, unsent]);
    assert_eq!(counted, ConnectionCounts { connections: 2, syn_data: 1 });
}

#[test]
fn a_connection_that_was_given_up_brings_no_cookie() {
    let again = connection("a.test", 20, false);
    assert_eq!(Load::cold(vec![given_up_connection("a.test", 0), again]).kinds(), NONE);
}

#[test]
fn the_ends_may_disagree_only_where_packets_are_lost() {
    // The origin accepted the data, but its answer was lost, and the client retransmitted.
    let ends = || {
        Load::warm().with(|load| {
            load.connections[1] = retransmitted(connection("b.test", 20, false));
            load.connections[1].origin = Some(end(true));
            load.count();
        })
    };
    assert_eq!(ends().kinds(), [InvalidKind::CountersDisagree]);
    assert_eq!(ends().with(|load| load.link.down.dropped_loss = 1).kinds(), NONE);
}

#[test]
fn a_packet_later_than_allowed_or_lost_before_the_link_is_told() {
    assert_eq!(
        Load::tcp().with(|load| load.link.up.late_us_max = LATE_US + 1).kinds(),
        [InvalidKind::LinkLate]
    );
    assert_eq!(Load::tcp().with(|load| load.link.down.overruns = 1).kinds(), [InvalidKind::LinkLate]);
}
