//! Tests connections that carry several requests at once, as with HTTP/2.

use fastopen_page::{ConnectionId, Event, Limits, Policy, ResourceState};

use crate::driver::{Load, MS, Network, RequestOutcome, after_the_root, load, server};
use crate::pages::{gallery, image, page, root};

/// Returns a browser's policy with these limits: connections to a server, and requests on each connection.
fn browser(connections: usize, streams: usize) -> Policy {
    let limits = |host: &str| (server(host), Limits { connections, streams });
    Policy { multiplexed: ["a.test", "b.test"].map(limits).into(), ..Policy::browser() }
}

#[test]
fn everything_known_is_requested_at_once_on_one_connection() {
    let page = gallery(9);
    let load = load(&page, &browser(1, 100));
    assert!(after_the_root(&load).iter().all(|action| action.starts_with("200 #0 send /")));
    assert_eq!(load.scheduler.plt(), Some(300 * MS));
}

#[test]
fn what_becomes_known_while_the_connection_is_made_waits_for_it() {
    let page = page(root("http://a.test/"), (1..=3).map(|number| image(&format!("http://b.test/{number}"))));
    let expected =
        ["200 #1 open b.test", "300 #1 send /1", "300 #1 send /2", "300 #1 send /3"].map(str::to_owned);
    assert_eq!(after_the_root(&load(&page, &browser(1, 100))), expected);
}

#[test]
fn more_than_the_server_allows_wait_for_a_stream_to_end() {
    let page = gallery(5);
    let times = |load: &Load<'_>| -> Vec<String> {
        after_the_root(load).iter().map(|action| action.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(times(&load(&page, &browser(1, 2))), ["200", "200", "300", "300", "400"]);
}

#[test]
fn a_second_connection_is_opened_only_for_what_the_first_has_no_room_for() {
    let page = gallery(5);
    let load = load(&page, &browser(6, 4));
    let opened = after_the_root(&load).into_iter().filter(|action| action.contains("open"));
    assert_eq!(opened.collect::<Vec<_>>(), ["200 #1 open a.test"]);
}

#[test]
fn a_failed_stream_is_retried_on_another_connection_when_the_others_have_ended() {
    let page = gallery(3);
    let network = Network {
        slow: true,
        outcome: Box::new(|connection, resource| match (connection, resource) {
            (ConnectionId(0), 2) => RequestOutcome::Broken { answered: false },
            _ => RequestOutcome::Answered { reusable: true },
        }),
        ..Network::default()
    };
    let load = Load::run(&page, &browser(1, 100), network);
    let expected = [
        "210 #0 send /1",
        "210 #0 send /2",
        "210 #0 send /3",
        "311 #0 close",
        "311 #1 open a.test",
        "411 #1 send /2",
    ];
    assert_eq!(after_the_root(&load), expected);
    assert!(load.scheduler.plt().is_some());
}

#[test]
fn all_requests_of_a_lost_connection_are_retried_together_and_once() {
    let page = gallery(3);
    let lost = |connection| Event::ConnectionClosed(ConnectionId(connection));
    let network = Network { also: vec![(250 * MS, lost(0)), (375 * MS, lost(1))], ..Network::default() };
    let load = Load::run(&page, &browser(1, 100), network);
    assert_eq!((1..=3).map(|resource| load.times_sent(resource)).collect::<Vec<_>>(), [2, 2, 2]);
    assert!((1..=3).all(|resource| matches!(load.scheduler.state(resource), ResourceState::Failed(_))));
}

#[test]
fn without_keep_alive_a_connection_carries_one_request_whatever_its_limit() {
    let page = gallery(3);
    let policy = Policy { keep_alive: false, ..browser(6, 100) };
    let opened = after_the_root(&load(&page, &policy)).into_iter().filter(|action| action.contains("open"));
    assert_eq!(opened.count(), 3);
}

#[test]
fn a_host_with_limits_of_its_own_leaves_the_others_theirs() {
    let images =
        (1..=3).flat_map(|number| ["b", "c"].map(|host| image(&format!("http://{host}.test/{number}"))));
    let page = page(root("http://a.test/"), images);
    let multiplexed = [(server("b.test"), Limits { connections: 1, streams: 100 })].into();
    let policy = Policy { multiplexed, connections_per_host: 2, ..Policy::browser() };
    let load = load(&page, &policy);
    let opened: Vec<_> = after_the_root(&load).into_iter().filter(|action| action.contains("open")).collect();
    assert_eq!(opened, ["200 #1 open b.test", "200 #2 open c.test", "200 #3 open c.test"]);
    // Without keep-alive, no connection carries two requests, neither at once nor one after the other.
    let policy = Policy { keep_alive: false, ..policy };
    let load = crate::driver::load(&page, &policy);
    assert_eq!(load.trace().iter().filter(|action| action.contains("open")).count(), 7);
}
