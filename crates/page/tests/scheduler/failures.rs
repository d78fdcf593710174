//! Tests failures: which requests are retried, which fail, and that the load ends.

use fastopen_page::{ConnectionId, Event, Phase, Policy, Resource, ResourceState, ResourceType, Scheduler};

use crate::driver::{Load, MS, Network, RequestOutcome, after_the_root, browser};
use crate::pages::{gallery, image, page, resource, root};

fn failures(load: &Load<'_>) -> Vec<(usize, ResourceState)> {
    let failed = |state| matches!(state, ResourceState::Failed(_) | ResourceState::NeverRequested);
    let states = (0..load.page.resources.len()).map(|resource| (resource, load.scheduler.state(resource)));
    states.filter(|(_, state)| failed(*state)).collect()
}

#[test]
fn when_the_root_fails_nothing_else_is_requested_and_the_load_ends() {
    let mut page = gallery(1);
    page.resources.push(Resource { initiator: Some(1), ..image("http://a.test/2") });
    let network = Network { refuses: Box::new(|_| true), ..Network::default() };
    let load = Load::run(&page, &Policy::browser(), network);
    assert_eq!(load.trace(), ["0 #0 open a.test"]);
    assert_eq!(
        failures(&load),
        [
            (0, ResourceState::Failed(100 * MS)),
            (1, ResourceState::NeverRequested),
            (2, ResourceState::NeverRequested)
        ]
    );
    assert_eq!(load.scheduler.plt(), None);
    assert!(load.scheduler.is_finished());
}

#[test]
fn what_a_broken_response_had_revealed_before_is_still_loaded() {
    let mut page = gallery(2);
    page.resources[1].initiator_at_bytes = Some(0);
    let network = Network {
        also: vec![
            (150 * MS, Event::BodyProgress { resource: 0, bytes_so_far: 0 }),
            (160 * MS, Event::ResponseFailed { resource: 0, connection: ConnectionId(0), answered: true }),
        ],
        ..Network::default()
    };
    let load = Load::run(&page, &Policy::browser(), network);
    assert_eq!(load.scheduler.state(1), ResourceState::Ended(350 * MS));
    assert_eq!(failures(&load), [(0, ResourceState::Failed(160 * MS)), (2, ResourceState::NeverRequested)]);
}

#[test]
fn a_failure_that_the_load_event_does_not_wait_for_leaves_the_page_load_time() {
    let mut page = gallery(2);
    page.resources[2].phase = Phase::Async;
    let network = Network {
        outcome: Box::new(|_, resource| match resource {
            2 => RequestOutcome::Broken { answered: true },
            _ => RequestOutcome::Answered { reusable: true },
        }),
        ..Network::default()
    };
    let load = Load::run(&page, &Policy::browser(), network);
    assert_eq!(failures(&load).len(), 1);
    assert_eq!(load.scheduler.plt(), Some(300 * MS));
}

#[test]
fn a_request_without_a_response_on_a_reused_connection_is_retried_on_an_unused_one() {
    let page = gallery(1);
    let network = Network {
        outcome: Box::new(|connection, resource| match (connection.0, resource) {
            (0, 1) => RequestOutcome::Broken { answered: false },
            _ => RequestOutcome::Answered { reusable: true },
        }),
        ..Network::default()
    };
    let load = Load::run(&page, &browser(6), network);
    let expected = ["200 #0 send /1", "300 #0 close", "300 #1 open a.test", "400 #1 send /1"];
    assert_eq!(after_the_root(&load), expected);
    assert_eq!(load.scheduler.plt(), Some(500 * MS));
    assert_eq!(load.scheduler.queued_at(1), Some(200 * MS));
}

#[test]
fn a_retry_takes_no_idle_connection_that_was_used() {
    let mut page = gallery(4);
    page.resources[4].processing_us = 250_000;
    let network = Network {
        outcome: Box::new(|connection, resource| match (connection.0, resource) {
            (1, 4) => RequestOutcome::Broken { answered: false },
            _ => RequestOutcome::Answered { reusable: true },
        }),
        ..Network::default()
    };
    let load = Load::run(&page, &browser(2), network);
    let expected = ["450 #1 send /4", "550 #1 close", "550 #2 open a.test", "650 #2 send /4"];
    assert_eq!(after_the_root(&load)[4..], expected);
}

#[test]
fn a_retry_closes_a_used_connection_when_there_is_no_room_for_a_fresh_one() {
    let page = page(
        root("http://a.test/"),
        [
            image("http://a.test/image"),
            Resource { processing_us: 50_000, ..resource("http://a.test/sheet", ResourceType::Stylesheet) },
        ],
    );
    let network = Network {
        outcome: Box::new(|connection, resource| match (connection.0, resource) {
            (0, 1) => RequestOutcome::Broken { answered: false },
            _ => RequestOutcome::Answered { reusable: true },
        }),
        ..Network::default()
    };
    let load = Load::run(&page, &browser(1), network);
    let expected = [
        "200 #0 send /image",
        "300 #0 close",
        "300 #1 open a.test",
        "400 #1 send /sheet",
        "500 #1 close",
        "500 #2 open a.test",
        "600 #2 send /image",
    ];
    assert_eq!(after_the_root(&load), expected);
}

#[test]
fn a_retry_that_fails_too_has_failed() {
    let page = gallery(1);
    let network = Network {
        outcome: Box::new(|_, resource| match resource {
            1 => RequestOutcome::Broken { answered: false },
            _ => RequestOutcome::Answered { reusable: true },
        }),
        ..Network::default()
    };
    let load = Load::run(&page, &browser(6), network);
    assert_eq!(load.times_sent(1), 2);
    assert_eq!(failures(&load), [(1, ResourceState::Failed(500 * MS))]);
}

#[test]
fn neither_a_response_that_broke_off_nor_a_first_request_is_retried() {
    for (images, answered) in [(1, true), (0, false)] {
        let page = gallery(images);
        let network = Network {
            outcome: Box::new(move |_, resource| {
                if resource == images {
                    RequestOutcome::Broken { answered }
                } else {
                    RequestOutcome::Answered { reusable: true }
                }
            }),
            ..Network::default()
        };
        let load = Load::run(&page, &browser(6), network);
        assert_eq!(load.times_sent(images), 1);
        assert_eq!(failures(&load).len(), 1);
    }
}

#[test]
fn a_connection_that_cannot_be_made_fails_the_most_urgent_request_that_waits() {
    let page = page(
        root("http://a.test/"),
        [image("http://b.test/image"), resource("http://b.test/script", ResourceType::Script)],
    );
    let network = Network { refuses: Box::new(|connection| connection.0 == 1), ..Network::default() };
    let load = Load::run(&page, &browser(6), network);
    assert_eq!(failures(&load), [(2, ResourceState::Failed(300 * MS))]);
    assert_eq!(load.scheduler.state(1), ResourceState::Ended(400 * MS));
}

#[test]
fn a_connection_that_the_server_closed_while_idle_is_not_used_again() {
    let mut page = gallery(1);
    page.resources[1].processing_us = 50_000;
    let network =
        Network { also: vec![(220 * MS, Event::ConnectionClosed(ConnectionId(0)))], ..Network::default() };
    let load = Load::run(&page, &browser(6), network);
    assert_eq!(after_the_root(&load), ["250 #1 open a.test", "350 #1 send /1"]);
}

#[test]
fn events_that_crossed_with_an_action_are_ignored() {
    let mut page = gallery(3);
    page.resources[2].initiator = Some(1);
    page.resources[3] =
        Resource { initiator: Some(2), initiator_at_bytes: Some(0), ..image("http://a.test/3") };
    let mut scheduler = Scheduler::new(&page, &Policy { keep_alive: false, ..Policy::browser() });
    let connection = ConnectionId(0);
    let stranger = ConnectionId(77);
    scheduler.handle(0, Event::Start);
    scheduler.handle(1, Event::ConnectionReady(connection));
    scheduler.handle(2, Event::ResponseEnd { resource: 0, connection, reusable: true });
    while scheduler.next_action().is_some() {}
    for event in [
        Event::Start,
        Event::ConnectionReady(connection),
        Event::ConnectionFailed(connection),
        Event::ConnectionClosed(connection),
        Event::ConnectionClosed(stranger),
        Event::BodyProgress { resource: 0, bytes_so_far: 10_000 },
        Event::BodyProgress { resource: 2, bytes_so_far: 1_000 },
        Event::ResponseEnd { resource: 0, connection, reusable: true },
        Event::ResponseEnd { resource: 1, connection: ConnectionId(1), reusable: true },
        Event::ResponseFailed { resource: 0, connection, answered: false },
    ] {
        scheduler.handle(3, event);
        assert_eq!(scheduler.next_action(), None, "{event:?}");
    }
    assert_eq!(scheduler.state(0), ResourceState::Ended(2));
    assert_eq!(scheduler.state(1), ResourceState::Requested);
    assert_eq!([2, 3].map(|index| scheduler.state(index)), [ResourceState::Unknown; 2]);
}

#[test]
fn time_that_goes_backwards_stands_still() {
    let mut scheduler = Scheduler::new(&gallery(1), &Policy::browser());
    let connection = ConnectionId(0);
    scheduler.handle(5, Event::Start);
    scheduler.handle(9, Event::ConnectionReady(connection));
    scheduler.handle(7, Event::ResponseEnd { resource: 0, connection, reusable: true });
    assert_eq!(scheduler.state(0), ResourceState::Ended(9));
    assert_eq!(scheduler.queued_at(1), Some(9));
}
