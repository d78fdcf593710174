//! Tests when DNS lookups make a load invalid.

use fastopen_contract::{ConnectionRecord, InvalidKind, LookupRecord, NameLookup, ResolverRecord, TlsRecord};
use fastopen_replay::tls::SessionStart;

use crate::support::{Load, NONE, connection, handshake};

const DISAGREE: [InvalidKind; 1] = [InvalidKind::LookupsDisagree];
const MS: u64 = 1_000_000;

fn lookup(host: &str, asked_ns: u64, answered_ns: u64) -> LookupRecord {
    LookupRecord {
        host: host.into(),
        asked_ns,
        answered_ns: Some(answered_ns),
        queries: 1,
        error: None,
        resolver: ResolverRecord { queries: 1, answers: 1 },
    }
}

/// Returns a valid load in which each host was looked up a round trip before its first connection.
fn load() -> Load {
    Load::tcp().with(|load| {
        load.job.network.names = NameLookup::Do53;
        for connection in &mut load.connections {
            connection.opened_ns += 10 * MS;
            *connection.connected_ns.as_mut().expect("it is connected") += 10 * MS;
        }
        load.lookups = vec![lookup("a.test", 0, 10 * MS), lookup("b.test", 20 * MS, 30 * MS)];
        load.counters.client.insert("UdpOutDatagrams".into(), 2);
        load.counters.origins.insert("UdpInDatagrams".into(), 2);
    })
}

#[test]
fn lookups_that_all_ends_agree_on_are_valid() {
    assert_eq!(load().kinds(), NONE);
    // An answer may take less than the link's RTT if the resolver is nearer than the hosts.
    let nearer = load().with(|load| {
        load.job.network.resolver_rtt_us = Some(5000);
        load.lookups[0].asked_ns = 5 * MS;
    });
    assert_eq!(nearer.kinds(), NONE);
}

#[test]
fn a_host_is_looked_up_before_its_first_connection() {
    assert_eq!(load().with(|load| load.connections[1].opened_ns = 29 * MS).kinds(), DISAGREE);
    let never = load().with(|load| {
        load.lookups.pop();
        load.counters.client.insert("UdpOutDatagrams".into(), 1);
        load.counters.origins.insert("UdpInDatagrams".into(), 1);
    });
    assert_eq!(never.kinds(), DISAGREE);
    assert_eq!(load().with(|load| load.job.network.names = NameLookup::None).kinds(), DISAGREE);
}

#[test]
fn the_resolver_has_seen_and_answered_each_query() {
    assert_eq!(load().with(|load| load.lookups[0].resolver.answers = 0).kinds(), DISAGREE);
    let unseen = |load: &mut Load| {
        load.lookups[0].queries = 2;
        load.counters.client.insert("UdpOutDatagrams".into(), 3);
    };
    assert_eq!(load().with(unseen).kinds(), DISAGREE);
    let lost = load().with(unseen).with(|load| load.link.up.dropped_loss = 1);
    assert_eq!(lost.kinds(), NONE);
    let twice = load().with(unseen).with(|load| {
        load.lookups[0].resolver = ResolverRecord { queries: 2, answers: 2 };
        load.counters.origins.insert("UdpInDatagrams".into(), 3);
    });
    assert_eq!(twice.kinds(), DISAGREE);
    let late = twice.with(|load| {
        load.lookups[0].answered_ns = Some(5010 * MS);
        for connection in &mut load.connections {
            connection.opened_ns += 5000 * MS;
            *connection.connected_ns.as_mut().expect("it is connected") += 5000 * MS;
        }
    });
    assert_eq!(late.kinds(), NONE);
}

#[test]
fn the_kernels_have_counted_the_datagrams() {
    for (client, origins) in [(3, 2), (2, 3), (0, 2), (2, 0)] {
        let load = load().with(|load| {
            load.counters.client.insert("UdpOutDatagrams".into(), client);
            load.counters.origins.insert("UdpInDatagrams".into(), origins);
        });
        assert_eq!(load.kinds(), DISAGREE, "{client} {origins}");
    }
}

#[test]
fn no_answer_comes_before_the_round_trip_is_over() {
    let sooner = load().with(|load| load.lookups[1].asked_ns = 25 * MS);
    assert_eq!(sooner.kinds(), DISAGREE);
}

/// Returns the load of [`load`], but with queries over one connection to the resolver. `round_trips` is the
/// number of round trips until the first answer, including handshakes.
fn over_connection(names: NameLookup, round_trips: u64) -> Load {
    load().with(|load| {
        load.job.network.names = names;
        load.counters.client.remove("UdpOutDatagrams");
        load.counters.origins.remove("UdpInDatagrams");
        for connection in &mut load.connections {
            connection.opened_ns += 20 * MS;
            *connection.connected_ns.as_mut().expect("it is connected") += 20 * MS;
        }
        let mut resolver = connection("198.19.255.53", 0, false);
        resolver.id = 2;
        resolver.requests = 2;
        if let Some(alpn) = names.alpn() {
            let alpn = Some(String::from_utf8_lossy(alpn).into_owned());
            resolver.tls = Some(TlsRecord { secured_ns: 20 * MS, alpn, ..handshake(false, false) });
        }
        load.connections.push(resolver);
        load.lookups = vec![lookup("a.test", 0, 10 * round_trips * MS), lookup("b.test", 20 * MS, 30 * MS)];
        if let Some(at) = load.lookups[1].answered_ns.as_mut().filter(|_| round_trips > 2) {
            *at += 10 * MS;
        }
    })
}

#[test]
fn over_a_connection_its_handshakes_come_first() {
    for (names, round_trips) in [(NameLookup::Tcp, 2), (NameLookup::Dot, 3), (NameLookup::Doh, 3)] {
        let valid = over_connection(names, round_trips);
        assert_eq!(valid.kinds(), NONE, "{names:?}");
        let sooner = over_connection(names, round_trips)
            .with(|load| load.lookups[0].answered_ns = Some((10 * round_trips - 1) * MS));
        assert_eq!(sooner.kinds(), DISAGREE, "{names:?}");
        let twice = over_connection(names, round_trips).with(|load| {
            let again = ConnectionRecord { id: 3, ..load.connections[2].clone() };
            load.connections.push(again);
        });
        assert_eq!(twice.kinds(), DISAGREE, "{names:?}");
    }
}

#[test]
fn the_resolver_is_asked_over_the_protocol_that_was_asked_for() {
    let in_the_clear = over_connection(NameLookup::Dot, 3).with(|load| load.connections[2].tls = None);
    assert_eq!(in_the_clear.kinds(), DISAGREE);
    let other = over_connection(NameLookup::Dot, 3).with(|load| load.job.network.names = NameLookup::Doh);
    assert_eq!(other.kinds(), DISAGREE);
    let one_end = over_connection(NameLookup::Doh, 3).with(|load| {
        load.connections[2].tls.as_mut().expect("it has TLS").origin = None;
    });
    assert_eq!(one_end.kinds(), DISAGREE);
}

#[test]
fn a_query_begins_as_early_data_where_there_is_a_ticket() {
    let early = |resolver: TlsRecord| {
        over_connection(NameLookup::Dot, 3).with(|load| {
            load.job.tls.session = SessionStart::Early;
            load.connections[2].tls = Some(TlsRecord { alpn: Some("dot".into()), ..resolver });
        })
    };
    assert_eq!(early(handshake(true, true)).kinds(), NONE);
    assert_eq!(early(handshake(true, false)).kinds(), [InvalidKind::NoEarlyData]);
    assert_eq!(early(handshake(false, false)).kinds()[0], InvalidKind::NotResumed);
}
