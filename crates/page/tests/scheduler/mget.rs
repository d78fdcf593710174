//! Tests the mget profile: it loads the root document first, then all other resources in order.

use fastopen_page::{Action, ConnectionId, Event, Phase, Policy, Profile, Resource, ResourceType, Scheduler};

use crate::driver::{MS, after_the_root, load};
use crate::pages::{gallery, image, page, resource, root};

#[test]
fn asks_for_everything_in_page_order_over_five_connections_used_once() {
    let mut page = gallery(3);
    page.load_event_processing_us = 9_000;
    page.resources[3] = Resource {
        initiator: Some(2),
        processing_us: 80_000,
        ..resource("http://b.test/3", ResourceType::Document)
    };
    page.resources.extend((4..=7).map(|number| image(&format!("http://a.test/{number}"))));
    let load = load(&page, &Policy::mget());
    let expected = [
        "200 #0 close",
        "200 #1 open a.test",
        "200 #2 open a.test",
        "200 #3 open b.test",
        "200 #4 open a.test",
        "200 #5 open a.test",
        "300 #1 send /1",
        "300 #2 send /2",
        "300 #3 send /3",
        "300 #4 send /4",
        "300 #5 send /5",
        "400 #1 close",
        "400 #6 open a.test",
        "400 #2 close",
        "400 #7 open a.test",
        "400 #3 close",
        "400 #4 close",
        "400 #5 close",
        "500 #6 send /6",
        "500 #7 send /7",
        "600 #6 close",
        "600 #7 close",
    ];
    assert_eq!(after_the_root(&load), expected);
    assert_eq!(load.most_open, (4, 5));
    assert_eq!(load.scheduler.plt(), Some(600 * MS));
}

#[test]
fn opens_the_next_connection_for_the_first_request_without_one() {
    // When the first image has ended, one connection may be opened. The request to b.test was queued before
    // the last one to a.test.
    let urls = ["a.test/1", "a.test/2", "b.test/3", "a.test/4"];
    let page = page(root("http://a.test/"), urls.map(|url| image(&format!("http://{url}"))));
    let policy = Policy { connections_total: 2, ..Policy::mget() };
    let mut scheduler = Scheduler::new(&page, &policy);
    scheduler.handle(0, Event::Start);
    scheduler.handle(0, Event::ConnectionReady(ConnectionId(0)));
    scheduler.handle(0, Event::ResponseEnd { resource: 0, connection: ConnectionId(0), reusable: true });
    scheduler.handle(0, Event::ConnectionReady(ConnectionId(1)));
    while scheduler.next_action().is_some() {}
    scheduler.handle(0, Event::ResponseEnd { resource: 1, connection: ConnectionId(1), reusable: true });
    assert_eq!(scheduler.next_action(), Some(Action::Close(ConnectionId(1))));
    let Some(Action::Open { origin, .. }) = scheduler.next_action() else { panic!("nothing is opened") };
    assert_eq!(scheduler.origins()[origin.0].host, "b.test");
}

#[test]
fn follows_the_redirects_of_the_root_before_the_rest() {
    let redirect =
        |to: &str, from: Resource| Resource { status: 302, redirect_to: Some(to.to_owned()), ..from };
    let page = page(
        redirect("/en", root("http://a.test/")),
        [
            redirect("/en/", resource("http://a.test/en", ResourceType::Document)),
            image("http://a.test/rest"),
            Resource { initiator: Some(1), ..resource("http://a.test/en/", ResourceType::Document) },
        ],
    );
    let load = load(&page, &Policy::mget());
    let sent: Vec<_> = load.trace().into_iter().filter(|line| line.contains("send")).collect();
    assert_eq!(sent, ["100 #0 send /", "300 #1 send /en", "500 #2 send /en/", "700 #3 send /rest"]);
}

#[test]
fn loads_the_same_resources_as_a_browser() {
    let page = page(
        Resource { status: 302, redirect_to: Some("/x".to_owned()), ..root("http://a.test/") },
        [
            Resource { phase: Phase::Async, ..image("http://a.test/x") },
            Resource { initiator: Some(1), ..image("http://a.test/y") },
            image("http://a.test/z"),
        ],
    );
    for profile in [Profile::Browser, Profile::Mget] {
        let policy = Policy { profile, phases: vec![Phase::Load], ..Policy::browser() };
        let load = load(&page, &policy);
        assert!(load.scheduler.is_finished());
        assert_eq!([1, 2, 3].map(|index| load.times_sent(index)), [0, 0, 1], "{profile:?}");
    }
}
