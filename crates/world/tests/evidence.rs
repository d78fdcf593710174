//! Each kind of reason: a load that gives it, and one like it that does not.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fastopen_link::path::{Behaviour, PathRule};
use fastopen_page::Page;
use fastopen_replay::tls::{SessionStart, Settings, Version};
use fastopen_world::contract::{
    BothEnds, Cached, ConnectionRecord, Cookies, EndEvidence, GivenUpRecord, Invalid, InvalidKind,
    LinkDirectionRecord, LinkRecord, LoadPlan, Network, OriginTlsRecord, RequestRecord, SeenAt, TlsRecord,
    Transport,
};
use fastopen_world::evidence::{Expectation, FASTOPEN_COUNTERS, Observations, given_up, judge};

/// A load of a page with the root document on a.test and an image on b.test, to be changed by each test.
struct Load {
    plan: LoadPlan,
    page: Page,
    requests: Vec<RequestRecord>,
    connections: Vec<ConnectionRecord>,
    counters: BothEnds<BTreeMap<String, i64>>,
    link: LinkRecord,
    cookies_before: Vec<Ipv4Addr>,
    path: PathRule,
    repeat_view: bool,
    finished: bool,
    tls: Settings,
    network: Network,
}

const A: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 2);
const LATE_US: u64 = 5000;
/// No reason: the load counts.
const NONE: [InvalidKind; 0] = [];

const PAGE: &str = r#"{"format": "fastopen-page/1", "name": "p", "url": "http://a.test/", "source": "made up",
    "initiators": "declared", "resources": [
    {"url": "http://a.test/", "type": "document", "body_bytes": 5000, "initiator": null},
    {"url": "http://b.test/", "type": "image", "body_bytes": 300, "initiator": 0}]}"#;

const NETWORK: &str = r#"{"rtt_us": 10000, "down": {"rate_bit_per_s": null, "queue_bytes": null},
    "up": {"rate_bit_per_s": null, "queue_bytes": null}}"#;

/// An end of a connection that was established.
fn end(syn_data_acked: bool) -> EndEvidence {
    EndEvidence {
        syn_data_acked,
        options: if syn_data_acked { 39 } else { 7 },
        fastopen_client_fail: 0,
        rtt_us: 0,
        min_rtt_us: 0,
        bytes_sent: 0,
        bytes_received: 0,
        segments_out: 5,
        segments_in: 5,
        retransmits: 0,
    }
}

/// A connection that the client closed in `SYN_SENT`, after the origin had taken the data in its SYN.
fn given_up_connection(host: &str, at_ms: u64) -> ConnectionRecord {
    ConnectionRecord {
        connected_ns: None,
        handshake_us: None,
        requests: 0,
        client: Some(EndEvidence { segments_out: 1, segments_in: 0, ..end(false) }),
        origin: Some(end(true)),
        ..connection(host, at_ms, false)
    }
}

/// A connection opened at a millisecond; one without data in its SYN was established 10 ms later.
fn connection(host: &str, at_ms: u64, syn_data: bool) -> ConnectionRecord {
    let opened_ns = at_ms * 1_000_000;
    ConnectionRecord {
        id: 0,
        host: host.into(),
        port: 80,
        client_port: Some(40_000),
        opened_ns,
        connected_ns: Some(opened_ns + if syn_data { 1000 } else { 10_000_000 }),
        handshake_us: (!syn_data).then_some(10_000),
        tls: None,
        multiplexed: false,
        requests: 1,
        client: Some(end(syn_data)),
        origin: Some(end(syn_data)),
        origin_samples: Vec::new(),
    }
}

/// A handshake; both ends agree on what it came to.
fn handshake(resumed: bool, early: bool) -> TlsRecord {
    let early_bytes = if early { 400 } else { 0 };
    TlsRecord {
        secured_ns: 30_000_000,
        version: Version::Tls13,
        cipher: "TLS13_AES_256_GCM_SHA384".into(),
        group: None,
        alpn: None,
        resumed,
        early_bytes,
        hello_bytes: 300,
        sent_bytes: 300,
        received_bytes: 300,
        origin: Some(OriginTlsRecord { resumed, early_bytes, answer_held_ns: 0 }),
    }
}

fn request(resource: usize, body_bytes: u64) -> RequestRecord {
    let (end_ns, status) = (Some(1), Some(200));
    RequestRecord { resource, end_ns, status, body_bytes, ..RequestRecord::default() }
}

fn way() -> LinkDirectionRecord {
    LinkDirectionRecord {
        packets: 10,
        bytes: 1000,
        dropped_queue: 0,
        dropped_loss: 0,
        dropped_path: 0,
        overruns: 0,
        queue_bytes_max: Some(0),
        late_us_p50: 0,
        late_us_p99: 0,
        late_us_max: LATE_US,
    }
}

impl Load {
    fn new(transport: Transport, cookies: Option<Cookies>, connections: Vec<ConnectionRecord>) -> Self {
        let mut load = Self {
            plan: LoadPlan { id: "load".into(), transport, cookies },
            page: serde_json::from_str(PAGE).expect("it is a page"),
            requests: vec![request(0, 5000), request(1, 300)],
            connections,
            counters: BothEnds::default(),
            link: LinkRecord { down: way(), up: way() },
            cookies_before: Vec::new(),
            path: PathRule::default(),
            repeat_view: false,
            finished: true,
            tls: Settings::default(),
            network: serde_json::from_str(NETWORK).expect("it is a network"),
        };
        load.count();
        load
    }

    fn tcp() -> Self {
        Self::new(Transport::Tcp, None, vec![connection("a.test", 0, false), connection("b.test", 20, false)])
    }

    fn warm() -> Self {
        let connections = vec![connection("a.test", 0, true), connection("b.test", 20, true)];
        let mut load = Self::new(Transport::Tfo, Some(Cookies::Warm), connections);
        load.cookies_before = vec![A, B];
        load
    }

    /// Over TLS, with three connections of which as many begin with a session as there are tickets.
    fn tls(session: SessionStart) -> Self {
        let begins = |resumed| ConnectionRecord {
            tls: Some(handshake(resumed, resumed && session == SessionStart::Early)),
            ..connection("a.test", 0, false)
        };
        let connections = [session != SessionStart::None; 2].map(begins).into_iter().chain([begins(false)]);
        let connections = (0..).zip(connections).map(|(id, one)| ConnectionRecord { id, ..one }).collect();
        Self::new(Transport::Tls, None, connections).with(|load| {
            load.tls.session = session;
            let first = |(connection, number)| RequestRecord {
                connection: Some(connection),
                connect_start_ns: Some(0),
                sent_ns: Some(1),
                first_byte_ns: Some(if session == SessionStart::Early { 20_000_000 } else { 30_000_000 }),
                ..request(0, number)
            };
            load.requests = [(0, 5000), (1, 5000)].map(first).into();
        })
    }

    fn cold(connections: Vec<ConnectionRecord>) -> Self {
        Self::new(Transport::Tfo, Some(Cookies::Cold), connections)
    }

    /// Makes the counters agree with the sockets.
    fn count(&mut self) {
        let with_data = |end: fn(&ConnectionRecord) -> Option<EndEvidence>| {
            self.connections.iter().filter(|one| end(one).is_some_and(|end| end.syn_data_acked)).count()
                as i64
        };
        let (client, origins) = (with_data(|one| one.client), with_data(|one| one.origin));
        self.counters.client.insert("TCPFastOpenActive".into(), client);
        self.counters.origins.insert("TCPFastOpenPassive".into(), origins);
    }

    fn reasons(&self) -> Vec<Invalid> {
        let observed = Observations {
            page: &self.page,
            hosts: &[("a.test".to_owned(), A), ("b.test".to_owned(), B)].into(),
            cookies_before: &self.cookies_before,
            requests: &self.requests,
            connections: &self.connections,
            path: &self.path,
            repeat_view: self.repeat_view,
            unfinished: (!self.finished).then_some("not finished in the time given"),
            counters: &self.counters,
            link: &self.link,
            recorded: false,
            late_us: LATE_US,
            seen_at: SeenAt::Client,
            network: &self.network,
            tolerance_us: 1,
        };
        judge(&observed, Expectation::of(&self.plan, &self.tls))
    }

    fn kinds(&self) -> Vec<InvalidKind> {
        self.reasons().into_iter().map(|reason| reason.kind).collect()
    }

    fn client_counts(mut self, counter: &str, growth: i64) -> Self {
        self.counters.client.insert(counter.into(), growth);
        self
    }

    fn origins_count(mut self, counter: &str, growth: i64) -> Self {
        self.counters.origins.insert(counter.into(), growth);
        self
    }

    /// The load after a change.
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

fn retransmitted(mut connection: ConnectionRecord) -> ConnectionRecord {
    connection.client.as_mut().expect("there is evidence").retransmits = 1;
    connection
}

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
fn bytes_other_than_the_pages_are_wrong() {
    assert_eq!(Load::tcp().with(|load| load.requests[1].body_bytes = 299).kinds(), [InvalidKind::WrongBytes]);
    assert_eq!(
        Load::tcp().with(|load| load.requests[1].status = Some(404)).kinds(),
        [InvalidKind::WrongBytes]
    );
    let missing = Load::tcp().with(|load| {
        load.page.resources[1].status = 404;
        load.requests[1].status = Some(404);
    });
    assert_eq!(missing.kinds(), NONE);
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
            load.page.resources[1].method = method.into();
            load.page.resources[1].status = status;
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
    // The first was established at 10 ms.
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
    // It may still have brought one, where what it lost was not its SYN.
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
fn data_in_a_syn_may_be_lost_where_packets_are_and_nowhere_else() {
    let failed = || Load::warm().client_counts("TCPFastOpenActiveFail", 1);
    assert_eq!(failed().kinds(), [InvalidKind::FastopenFailed]);
    assert_eq!(failed().with(|load| load.link.up.dropped_loss = 1).kinds(), NONE);
    assert_eq!(failed().with(|load| load.link.down.dropped_queue = 1).kinds(), NONE);
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
    // The origin took its SYN's data, so its kernel has counted it.
    let uncounted = load(surplus()).with(|load| {
        load.counters.origins.insert("TCPFastOpenPassive".into(), 2);
    });
    assert_eq!(uncounted.kinds(), [InvalidKind::CountersDisagree]);
    assert!(uncounted.reasons()[0].detail.ends_with("1 of connections that were given up"));
    // One that carried a request, or whose client had an answer, was not given up.
    let used = ConnectionRecord { requests: 1, client: retransmitted(surplus()).client, ..surplus() };
    assert_eq!(load(used).kinds(), [InvalidKind::CountersDisagree]);
    let answered = ConnectionRecord { client: Some(end(false)), ..surplus() };
    assert_eq!(load(answered).kinds(), [InvalidKind::CountersDisagree]);
    // Nothing is known of the client's end.
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
    assert_eq!(counted, GivenUpRecord { connections: 2, syn_data: 1 });
}

#[test]
fn a_connection_that_was_given_up_brings_no_cookie() {
    let again = connection("a.test", 20, false);
    assert_eq!(Load::cold(vec![given_up_connection("a.test", 0), again]).kinds(), NONE);
}

#[test]
fn the_ends_may_disagree_only_where_packets_are_lost() {
    // The origin took the data, but its answer was lost: the client sent it again.
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
    assert_eq!(load(0).with(|load| load.repeat_view = true).kinds(), NONE);
    // The ticket came with an earlier connection of the load.
    assert_eq!(load(2).kinds(), NONE);
}

#[test]
fn as_many_connections_resume_as_there_are_tickets_and_both_ends_say_so() {
    let missing =
        Load::tls(SessionStart::Resumed).with(|load| load.connections[1].tls = Some(handshake(false, false)));
    assert_eq!(missing.kinds(), [InvalidKind::NotResumed]);
    assert_eq!(missing.with(|load| load.tls.tickets = 1).kinds(), NONE);
    let doubtful =
        Load::tls(SessionStart::Resumed).with(|load| origins_handshake_of(load, 1).resumed = false);
    assert_eq!(doubtful.kinds(), [InvalidKind::NotResumed]);
}

#[test]
fn early_data_counts_only_where_the_origin_read_it_before_the_handshake_was_complete() {
    let unread = || Load::tls(SessionStart::Early).with(|load| origins_handshake_of(load, 0).early_bytes = 0);
    assert_eq!(unread().kinds(), [InvalidKind::NoEarlyData]);
    let lost = unread().with(|load| {
        load.connections[0] = retransmitted(load.connections[0].clone());
        load.link.up.dropped_loss = 1;
    });
    assert_eq!(lost.kinds(), NONE);
    assert_eq!(unread().with(|load| load.page.resources[0].method = "POST".into()).kinds(), NONE);
}

#[test]
fn early_data_where_none_is_to_be_is_named() {
    let early = || handshake(true, true);
    let resumed = Load::tls(SessionStart::Resumed).with(|load| load.connections[0].tls = Some(early()));
    assert_eq!(resumed.kinds(), [InvalidKind::EarlyDataUnasked]);
    let rejected = Load::tls(SessionStart::Early).with(|load| load.tls.early_data_rejected = true);
    assert!(rejected.kinds().contains(&InvalidKind::EarlyDataUnasked));
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
        assert_eq!(sooner.with(|load| load.network = jittery()).kinds(), NONE);
    }
}

fn jittery() -> Network {
    let jitter = NETWORK.replacen("null}", "null, \"jitter\": {\"normal_us\": 1}}", 1);
    serde_json::from_str(&jitter).expect("it is a network")
}

/// A warm load behind a middlebox that takes options out, with what Linux shows of it.
fn stripped() -> Load {
    let mut load = Load::warm();
    load.path = PathRule { behaviour: Behaviour::StripOption, hosts: None };
    for connection in &mut load.connections {
        for end in [&mut connection.client, &mut connection.origin].into_iter().flatten() {
            end.syn_data_acked = false;
        }
        connection.client.as_mut().expect("it has one").fastopen_client_fail = 2;
    }
    load.count();
    load.counters.client.insert("TCPFastOpenActiveFail".into(), 2);
    load
}

#[test]
fn what_a_path_does_to_connections_is_expected_of_them_and_nothing_else() {
    assert_eq!(stripped().kinds(), NONE);
    let accepted = stripped().with(|load| {
        let connection = &mut load.connections[1];
        for end in [&mut connection.client, &mut connection.origin].into_iter().flatten() {
            (end.syn_data_acked, end.fastopen_client_fail) = (true, 0);
        }
        load.count();
        load.counters.client.insert("TCPFastOpenActiveFail".into(), 1);
    });
    assert_eq!(accepted.kinds(), [InvalidKind::PathWithoutEffect]);
    let otherwise = stripped().with(|load| {
        load.connections[0].client.as_mut().expect("it has one").fastopen_client_fail = 3;
    });
    assert_eq!(otherwise.kinds(), [InvalidKind::PathWithoutEffect]);
    let one_more = stripped().with(|load| {
        load.counters.client.insert("TCPFastOpenActiveFail".into(), 3);
    });
    assert_eq!(one_more.kinds(), [InvalidKind::FastopenFailed]);
    let not_behind = stripped().with(|load| load.path.hosts = Some([A.octets()].into()));
    assert_eq!(not_behind.kinds(), [InvalidKind::FastopenFailed, InvalidKind::NoSynData]);
}
