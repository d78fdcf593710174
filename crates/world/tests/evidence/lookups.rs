//! Lookups of names: what client, resolver and kernels say of them.

use crate::support::{Load, NONE};
use fastopen_world::contract::{InvalidKind, LookupRecord, NameLookup, ResolverRecord};

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

/// Both hosts were looked up, a round trip before their first connections.
fn load() -> Load {
    Load::tcp().with(|load| {
        load.network.names = NameLookup::Do53;
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
    // An answer in less than the link's RTT comes of a nearer resolver.
    let nearer = load().with(|load| {
        load.network.resolver_rtt_us = Some(5000);
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
    assert_eq!(load().with(|load| load.network.names = NameLookup::None).kinds(), DISAGREE);
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
