//! Tests when the browser profile sends each request, in which order and on which connection.

use fastopen_page::{ConnectionId, Event, Nanos, Policy, Resource, ResourceType};

use crate::driver::{Load, MS, Network, RequestOutcome, after_the_root, browser, load};
use crate::pages::{gallery, image, page, resource, root};

#[test]
fn requests_the_root_and_then_what_it_reveals() {
    let page = page(root("http://a.test/"), [image("http://a.test/1"), image("http://b.test/2")]);
    let load = load(&page, &Policy::browser());
    let expected =
        ["0 #0 open a.test", "100 #0 send /", "200 #0 send /1", "200 #1 open b.test", "300 #1 send /2"];
    assert_eq!(load.trace(), expected);
    assert_eq!(load.scheduler.plt(), Some(400 * MS));
    assert!(load.scheduler.is_finished());
}

#[test]
fn learns_of_a_resource_when_its_place_in_the_initiator_has_arrived() {
    let page = page(
        root("http://a.test/"),
        [
            Resource { initiator_at_bytes: Some(5_000), ..image("http://b.test/late") },
            Resource { initiator_at_bytes: Some(0), ..image("http://c.test/header") },
            Resource { initiator_at_bytes: Some(1), ..image("http://d.test/early") },
            image("http://a.test/end"),
        ],
    );
    let load = Load::run(&page, &Policy::browser(), Network { slow: true, ..Network::default() });
    let queued: Vec<_> = (1..=4).map(|index| load.scheduler.queued_at(index).unwrap() / MS).collect();
    assert_eq!(queued, [205, 200, 201, 210]);
}

#[test]
fn what_the_last_bytes_of_a_body_reveal_is_sent_on_its_connection() {
    let page = page(
        root("http://a.test/"),
        [Resource { initiator_at_bytes: Some(10_000), ..image("http://a.test/1") }],
    );
    let load = Load::run(&page, &Policy::browser(), Network { slow: true, ..Network::default() });
    assert_eq!(load.trace(), ["0 #0 open a.test", "100 #0 send /", "210 #0 send /1"]);
}

#[test]
fn learns_of_what_is_pushed_when_the_initiator_is_requested() {
    let pushed = |url| Resource { pushed: true, processing_us: 30_000, ..image(url) };
    let child = Resource { initiator: Some(1), ..image("http://a.test/3") };
    let page = page(root("http://a.test/"), [pushed("http://b.test/1"), pushed("http://a.test/2"), child]);
    let load = load(&page, &Policy::browser());
    let queued: Vec<_> = (1..=3).map(|index| load.scheduler.queued_at(index).unwrap() / MS).collect();
    assert_eq!(queued, [30, 30, 230]);
    assert!(load.scheduler.is_finished());
}

#[test]
fn learns_of_the_rest_when_a_response_ends_without_progress_events() {
    let page =
        page(root("http://a.test/"), [Resource { initiator_at_bytes: Some(10), ..image("http://a.test/1") }]);
    assert_eq!(load(&page, &Policy::browser()).scheduler.queued_at(1), Some(200 * MS));
}

#[test]
fn follows_a_redirect_when_its_response_has_ended() {
    let redirect =
        Resource { status: 301, redirect_to: Some("http://b.test/".to_owned()), ..root("http://a.test/") };
    let target =
        Resource { initiator_at_bytes: Some(1), ..resource("http://b.test/", ResourceType::Document) };
    let page = page(redirect, [target]);
    let load = Load::run(&page, &Policy::browser(), Network { slow: true, ..Network::default() });
    assert_eq!(load.scheduler.queued_at(1), Some(210 * MS));
}

#[test]
fn processes_before_requests_and_before_the_load_event() {
    let mut page =
        page(root("http://a.test/"), [Resource { processing_us: 30_000, ..image("http://a.test/1") }]);
    page.load_event_processing_us = 7_000;
    let plt = |processing_scale| {
        let load = load(&page, &Policy { processing_scale, ..Policy::browser() });
        assert!(load.scheduler.is_finished());
        load.scheduler.plt().unwrap()
    };
    assert_eq!(plt(1.0), 337 * MS);
    assert_eq!(plt(0.0), 300 * MS);
    assert_eq!(plt(1.0 / 3.0), 300 * MS + 10_000_000 + 2_333_333);
}

#[test]
fn opens_no_more_connections_to_a_server_than_it_may() {
    let page = gallery(5);
    let load = load(&page, &browser(3));
    let expected = [
        "200 #0 send /1",
        "200 #1 open a.test",
        "200 #2 open a.test",
        "300 #0 send /2",
        "300 #1 send /3",
        "300 #2 send /4",
        "400 #0 send /5",
    ];
    assert_eq!(after_the_root(&load), expected);
}

#[test]
fn opens_no_more_connections_than_requests_wait() {
    assert_eq!(load(&gallery(3), &browser(6)).most_open, (3, 3));
}

#[test]
fn sends_a_request_on_whichever_connection_is_free_first() {
    // The first connection is free again at 300 ms, before the connection for the second image is ready.
    let mut page = gallery(2);
    page.resources[2].processing_us = 99_000;
    let mut load = Load::run(&page, &browser(6), Network::default());
    let expected = ["200 #0 send /1", "299 #1 open a.test", "300 #0 send /2"];
    assert_eq!(after_the_root(&load), expected);
    // The unused connection stays open.
    assert_eq!(load.left_open(), 2);
    assert_eq!(load.scheduler.next_action(), None);
}

#[test]
fn prefers_the_connection_used_last_to_one_never_used() {
    let mut page = gallery(3);
    page.resources[2].processing_us = 99_000;
    page.resources[3].processing_us = 400_000;
    let load = load(&page, &browser(6));
    assert_eq!(load.trace().last().unwrap(), "600 #0 send /3");
}

#[test]
fn requests_the_most_urgent_first_when_connections_are_scarce() {
    use ResourceType::{Document, Font, Image, Media, Other, Script, Stylesheet, Xhr};
    let kinds = [
        (Image, "image"),
        (Media, "media"),
        (Other, "other"),
        (Script, "script"),
        (Font, "font"),
        (Xhr, "xhr"),
        (Stylesheet, "stylesheet"),
        (Document, "document"),
    ];
    let first = Resource { initiator_at_bytes: Some(0), ..image("http://a.test/first") };
    let rest = kinds.map(|(kind, name)| Resource {
        initiator: Some(1),
        initiator_at_bytes: Some(0),
        ..resource(&format!("http://a.test/{name}"), kind)
    });
    let page = page(root("http://a.test/"), std::iter::once(first).chain(rest));
    let load = Load::run(&page, &browser(1), Network { slow: true, ..Network::default() });
    let order: Vec<_> =
        load.trace().iter().filter_map(|line| line.split_once("send /")).map(|l| l.1.to_owned()).collect();
    assert_eq!(
        order,
        ["", "first", "font", "stylesheet", "document", "script", "xhr", "media", "other", "image"]
    );
}

#[test]
fn has_at_most_ten_images_in_flight_unless_a_server_takes_more_connections() {
    let hosts = 0..12;
    let page = page(root("http://a.test/"), hosts.map(|host| image(&format!("http://{host}.test/"))));
    let opened = |policy| {
        let load = load(&page, &policy);
        let opened = after_the_root(&load).into_iter().filter(|line| line.contains("open"));
        opened.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(opened(browser(6)), [vec!["200"; 10], vec!["400"; 2]].concat());
    assert_eq!(opened(browser(12)), ["200"; 12]);
}

#[test]
fn images_of_one_server_leave_those_of_others_their_place_among_the_ten() {
    let hosts = [["a.test"; 8].as_slice(), &["b.test"; 2]].concat();
    let images = hosts.iter().enumerate().map(|(n, host)| image(&format!("http://{host}/{n}")));
    let page = page(root("http://a.test/"), images);
    let load = load(&page, &browser(6));
    let sent =
        |at: &str| load.trace().iter().filter(|line| line.starts_with(at) && line.contains("send")).count();
    assert_eq!([sent("200 "), sent("300 "), sent("400 ")], [1, 8, 1]);
}

#[test]
fn an_image_waits_while_its_server_has_six_requests_of_any_kind_in_flight() {
    let scripts = (0..5).map(|number| resource(&format!("http://b.test/{number}"), ResourceType::Script));
    let images = ["http://b.test/first", "http://b.test/second", "http://c.test/third"].map(image);
    let page = page(root("http://a.test/"), scripts.chain(images));
    let trace = load(&page, &browser(6)).trace();
    let sent = |target: &str| trace.iter().find(|line| line.ends_with(target)).cloned();
    assert_eq!(sent("send /first").as_deref(), Some("300 #6 send /first"));
    assert_eq!(sent("send /second").as_deref(), Some("400 #1 send /second"));
    assert_eq!(sent("send /third").as_deref(), Some("300 #7 send /third"));
    let fonts = (0..6).map(|number| resource(&format!("http://b.test/{number}"), ResourceType::Font));
    let page = self::page(root("http://a.test/"), fonts.chain([image("http://b.test/image")]));
    let opened = |line: &&String| line.contains("open b.test");
    assert_eq!(load(&page, &browser(6)).trace().iter().filter(opened).count(), 7);
    assert!(load(&page, &browser(6)).trace().contains(&"400 #7 open b.test".to_owned()));
}

#[test]
fn what_a_redirect_leads_to_has_its_place_among_the_images() {
    let to = "http://z.test/target".to_owned();
    let redirect = Resource { status: 302, redirect_to: Some(to.clone()), ..image("http://b.test/redirect") };
    let others = (0..10).map(|number| image(&format!("http://c{number}.test/{number}")));
    let target = Resource { initiator: Some(1), ..image(&to) };
    let page = page(root("http://a.test/"), [redirect].into_iter().chain(others).chain([target]));
    let trace = load(&page, &browser(6)).trace();
    let opened = |host: &str| trace.iter().find(|line| line.ends_with(host)).cloned();
    assert_eq!(opened("open z.test").as_deref(), Some("400 #11 open z.test"));
    assert_eq!(opened("open c9.test").as_deref(), Some("400 #12 open c9.test"));
}

#[test]
fn the_images_of_each_frame_have_a_limit_of_their_own() {
    let of = |initiator, resource| Resource { initiator: Some(initiator), ..resource };
    let of_page = (0..12).map(|host| image(&format!("http://{host}.test/")));
    let frame = resource("http://a.test/frame", ResourceType::Document);
    let of_frame = (20..32).map(|host| of(13, image(&format!("http://{host}.test/"))));
    let page = page(root("http://a.test/"), of_page.chain([frame]).chain(of_frame));
    let load = load(&page, &browser(6));
    let opened =
        |at: &str| load.trace().iter().filter(|line| line.starts_with(at) && line.contains("open")).count();
    // The frame's document is loaded on the page's connection, while ten of the page's images open
    // connections.
    assert_eq!([opened("200 "), opened("300 ")], [10, 10]);
}

#[test]
fn requests_without_credentials_and_those_of_other_sites_frames_have_connections_of_their_own() {
    let of = |initiator, resource| Resource { initiator: Some(initiator), ..resource };
    let after = |ms: u64, resource| Resource { processing_us: ms * 1000, ..resource };
    let page = page(
        root("http://www.a.test/"),
        [
            image("http://img.a.test/"),
            after(300, resource("http://img.a.test/font", ResourceType::Font)),
            after(300, resource("http://www.a.test/font", ResourceType::Font)),
            after(600, resource("http://img.a.test/frame", ResourceType::Document)),
            of(4, image("http://img.a.test/in-frame")),
            after(1000, resource("http://b.test/frame", ResourceType::Document)),
            of(6, image("http://img.a.test/in-foreign-frame")),
        ],
    );
    let load = load(&page, &Policy::browser());
    let sent: Vec<_> =
        load.trace().iter().filter_map(|line| line.split_once(' ')).map(|(_, l)| l.to_owned()).collect();
    let sent: Vec<_> = sent.into_iter().filter(|line| line.contains("send")).collect();
    let expected = [
        "#0 send /",
        "#1 send /",
        "#0 send /font",
        "#2 send /font",
        "#1 send /frame",
        "#1 send /in-frame",
        "#3 send /frame",
        "#4 send /in-foreign-frame",
    ];
    assert_eq!(sent, expected);
}

#[test]
fn closes_the_connection_idle_longest_when_it_needs_another_beyond_its_limit() {
    let page = page(
        root("http://a.test/"),
        [
            image("http://b.test/1"),
            Resource { processing_us: 5_000, ..image("http://c.test/2") },
            Resource { initiator: Some(1), processing_us: 10_000, ..image("http://d.test/3") },
        ],
    );
    let load = load(&page, &Policy { connections_total: 2, ..Policy::browser() });
    let expected = [
        "200 #1 open b.test",
        "205 #0 close",
        "205 #2 open c.test",
        "300 #1 send /1",
        "305 #2 send /2",
        // Now connections 1 and 2 are idle, connection 1 for longer.
        "410 #1 close",
        "410 #3 open d.test",
        "510 #3 send /3",
    ];
    assert_eq!(after_the_root(&load), expected);
}

#[test]
fn waits_for_a_connection_when_all_it_may_have_are_busy() {
    let page = page(root("http://a.test/"), [image("http://b.test/1"), image("http://c.test/2")]);
    let load = load(&page, &Policy { connections_total: 1, ..Policy::browser() });
    let expected = [
        "200 #0 close",
        "200 #1 open b.test",
        "300 #1 send /1",
        "400 #1 close",
        "400 #2 open c.test",
        "500 #2 send /2",
    ];
    assert_eq!(after_the_root(&load), expected);
}

#[test]
fn opens_the_next_connection_for_the_request_without_one_that_is_most_urgent() {
    // With one connection in all, the image of c.test was queued first, but the script of d.test is more
    // urgent.
    let page = page(
        root("http://a.test/"),
        [
            image("http://b.test/first"),
            image("http://c.test/image"),
            resource("http://d.test/script", ResourceType::Script),
        ],
    );
    let load = load(&page, &Policy { connections_total: 1, ..Policy::browser() });
    assert_eq!(after_the_root(&load)[4], "400 #2 open d.test");
}

#[test]
fn opens_connections_and_sends_in_the_order_of_requests_whatever_their_urgency() {
    let page = page(
        root("http://a.test/"),
        [
            image("http://b.test/image"),
            resource("http://a.test/xhr", ResourceType::Xhr),
            resource("http://c.test/script", ResourceType::Script),
        ],
    );
    let expected = ["200 #1 open b.test", "200 #0 send /xhr", "200 #2 open c.test"];
    assert_eq!(after_the_root(&load(&page, &browser(6)))[..3], expected);
}

#[test]
fn a_second_connection_is_opened_where_the_first_to_a_server_takes_longer_than_a_quarter_of_a_second() {
    let page = page(root("http://a.test/"), [image("http://b.test/1"), image("http://b.test/2")]);
    let opened = |rtt: Nanos, policy: &Policy, also| {
        let load = Load::run(&page, policy, Network { rtt, also, ..Network::default() });
        load.trace().into_iter().filter(|line| line.contains("open")).collect::<Vec<_>>()
    };
    assert_eq!(
        opened(250 * MS, &browser(6), vec![]),
        ["0 #0 open a.test", "500 #1 open b.test", "500 #2 open b.test"]
    );
    let expected = [
        "0 #0 open a.test",
        "250 #1 open a.test",
        // Only the first connection to a server has a backup.
        "600 #2 open b.test",
        "600 #3 open b.test",
        "850 #4 open b.test",
    ];
    assert_eq!(opened(300 * MS, &browser(6), vec![]), expected);
    // No backup is opened if the TCP handshake is over and only the TLS handshake takes long.
    let established = vec![
        (200 * MS, Event::ConnectionEstablished(ConnectionId(0))),
        (800 * MS, Event::ConnectionEstablished(ConnectionId(1))),
    ];
    assert_eq!(opened(300 * MS, &browser(6), established).len(), 3);
    assert_eq!(opened(300 * MS, &browser(1), vec![]).len(), 2, "no more than a server may have");
    assert_eq!(opened(300 * MS, &Policy::mget(), vec![]).len(), 3, "a downloader makes no backups");
}

#[test]
fn a_second_connection_does_not_come_while_the_name_of_the_server_is_looked_up() {
    let page = page(root("http://a.test/"), []);
    let policy = Policy { lookups: true, ..browser(6) };
    let opened = |rtt: Nanos, lookup: Nanos| {
        let load = Load::run(&page, &policy, Network { rtt, lookup, ..Network::default() });
        load.trace().into_iter().filter(|line| line.contains("open")).collect::<Vec<_>>()
    };
    assert_eq!(opened(200 * MS, 900 * MS), ["0 #0 open a.test"]);
    assert_eq!(opened(300 * MS, 900 * MS), ["0 #0 open a.test", "1150 #1 open a.test"]);
}

#[test]
fn without_keep_alive_uses_a_connection_once() {
    let page = gallery(2);
    let load = load(&page, &Policy { keep_alive: false, ..browser(6) });
    let expected = [
        "200 #0 close",
        "200 #1 open a.test",
        "200 #2 open a.test",
        "300 #1 send /1",
        "300 #2 send /2",
        "400 #1 close",
        "400 #2 close",
    ];
    assert_eq!(after_the_root(&load), expected);
}

#[test]
fn closes_a_connection_that_the_server_will_not_use_again() {
    let network = Network {
        outcome: Box::new(|_, _| RequestOutcome::Answered { reusable: false }),
        ..Network::default()
    };
    let page = gallery(1);
    let load = Load::run(&page, &browser(6), network);
    assert_eq!(
        after_the_root(&load),
        ["200 #0 close", "200 #1 open a.test", "300 #1 send /1", "400 #1 close"]
    );
}

#[test]
fn saves_a_round_trip_for_each_handshake_on_the_critical_path_when_none_is_waited_for() {
    let page = page(
        root("http://a.test/"),
        [
            image("http://a.test/reuses a connection".replace(' ', "-").as_str()),
            resource("http://b.test/sheet", ResourceType::Stylesheet),
            Resource { initiator: Some(2), ..resource("http://c.test/font", ResourceType::Font) },
        ],
    );
    let plt = |early| {
        let network = Network { early, ..Network::default() };
        Load::run(&page, &Policy::browser(), network).scheduler.plt().unwrap()
    };
    assert_eq!((plt(false), plt(true)), (600 * MS, 300 * MS));
}

#[test]
fn asks_for_what_one_byte_reveals_in_the_order_of_the_seed_and_for_the_rest_as_ever() {
    let first = Resource { initiator_at_bytes: Some(1), ..image("http://a.test/first") };
    let page = page(
        root("http://a.test/"),
        (0..8).map(|number| image(&format!("http://a.test/{number}"))).chain([first]),
    );
    let order = |order_seed| {
        let load = load(&page, &Policy { order_seed, ..browser(1) });
        after_the_root(&load).into_iter().filter(|line| line.contains("send")).collect::<Vec<_>>()
    };
    let (of_page, shuffled) = (order(None), order(Some(1)));
    assert_eq!(of_page[0], shuffled[0]);
    assert_ne!(of_page, shuffled);
    assert_eq!(order(Some(1)), shuffled);
    assert_ne!(order(Some(2)), shuffled);
}
