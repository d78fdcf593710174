//! Tests the fallback from QUIC to TCP: a client tries QUIC, then also TCP, and uses the first to be ready.

use fastopen_page::{Action, ConnectionId, Event, Limits, OriginId, Policy, Scheduler};

use crate::driver::{Load, MS, Network, server};
use crate::pages::gallery;

const AFTER: u64 = 200 * MS;
const FIRST: ConnectionId = ConnectionId(0);
const OTHER: ConnectionId = ConnectionId(1);

fn policy() -> Policy {
    Policy {
        multiplexed: [(server("a.test"), Limits { connections: 1, streams: 100 })].into(),
        fallback_after: [(server("a.test"), AFTER)].into(),
        ..Policy::browser()
    }
}

/// Passes an event to the scheduler and returns the actions that follow.
fn after(scheduler: &mut Scheduler, at: u64, event: Event) -> Vec<Action> {
    scheduler.handle(at, event);
    std::iter::from_fn(|| scheduler.next_action()).collect()
}

fn begun() -> Scheduler {
    let mut scheduler = Scheduler::new(&gallery(2), &policy());
    let opened = after(&mut scheduler, 0, Event::Start);
    assert_eq!(opened, [Action::Open { connection: FIRST, origin: OriginId(0), fallback: false }]);
    assert_eq!(scheduler.next_wakeup(), Some(AFTER));
    scheduler
}

fn falls_back(scheduler: &mut Scheduler) {
    scheduler.advance(AFTER);
    let other = Action::Open { connection: OTHER, origin: OriginId(0), fallback: true };
    assert_eq!((scheduler.next_action(), scheduler.next_action()), (Some(other), None));
}

fn send(connection: ConnectionId, resource: usize) -> Action {
    Action::Send { connection, resource }
}

#[test]
fn a_server_that_answers_in_time_is_spoken_to_in_one_way() {
    let mut scheduler = begun();
    after(&mut scheduler, AFTER / 2, Event::ConnectionSecured(FIRST));
    assert_eq!(after(&mut scheduler, AFTER / 2, Event::ConnectionReady(FIRST)), [send(FIRST, 0)]);
    assert_eq!(scheduler.next_wakeup(), None);
}

#[test]
fn the_way_that_is_ready_first_is_taken_and_the_other_closed() {
    let mut scheduler = begun();
    falls_back(&mut scheduler);
    let taken = after(&mut scheduler, 2 * AFTER, Event::ConnectionReady(OTHER));
    assert_eq!(taken, [Action::Close(FIRST), send(OTHER, 0)]);
    assert_eq!(after(&mut scheduler, 3 * AFTER, Event::ConnectionSecured(FIRST)), []);

    let mut scheduler = begun();
    falls_back(&mut scheduler);
    let secured = after(&mut scheduler, 2 * AFTER, Event::ConnectionSecured(FIRST));
    assert_eq!(secured, [Action::Close(OTHER)]);
    assert_eq!(after(&mut scheduler, 2 * AFTER, Event::ConnectionReady(FIRST)), [send(FIRST, 0)]);
}

#[test]
fn early_data_that_nobody_answers_is_sent_again_the_other_way() {
    let mut scheduler = begun();
    assert_eq!(after(&mut scheduler, 0, Event::ConnectionReady(FIRST)), [send(FIRST, 0)]);
    falls_back(&mut scheduler);
    let taken = after(&mut scheduler, 2 * AFTER, Event::ConnectionReady(OTHER));
    assert_eq!(taken, [Action::Close(FIRST), send(OTHER, 0)]);
}

#[test]
fn a_server_stays_with_the_way_that_was_taken() {
    let mut scheduler = begun();
    falls_back(&mut scheduler);
    after(&mut scheduler, 2 * AFTER, Event::ConnectionReady(OTHER));
    after(&mut scheduler, 3 * AFTER, Event::ConnectionClosed(OTHER));
    let later = after(
        &mut scheduler,
        3 * AFTER,
        Event::ResponseEnd { resource: 0, connection: OTHER, reusable: true },
    );
    assert!(later.iter().all(|action| matches!(action, Action::Open { fallback: true, .. })), "{later:?}");
}

#[test]
fn a_way_that_fails_leaves_the_other_at_once() {
    let mut scheduler = begun();
    let lost = after(&mut scheduler, 1, Event::ConnectionFailed(FIRST));
    assert_eq!(lost, [Action::Open { connection: OTHER, origin: OriginId(0), fallback: true }]);
    assert_eq!(after(&mut scheduler, 2, Event::ConnectionReady(OTHER)), [send(OTHER, 0)]);

    let page = gallery(2);
    let network = Network { refuses: Box::new(|connection| connection == FIRST), ..Network::default() };
    assert!(Load::run(&page, &policy(), network).scheduler.plt().is_some());
    let network = Network { refuses: Box::new(|_| true), ..Network::default() };
    assert!(Load::run(&page, &policy(), network).scheduler.is_finished());
}
