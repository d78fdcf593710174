//! Tests when loads over paths that break TCP Fast Open are invalid.

use std::net::{IpAddr, Ipv6Addr};

use crate::support::{A, Load, NONE, connection, given_up_connection};
use fastopen_contract::{ClientFastOpen, InvalidKind, ListenerFastOpen};
use fastopen_link::ip::Versions;
use fastopen_link::path::{Behaviour, PathRule};

/// Returns a warm load behind a middlebox that strips the Fast Open option, with the evidence that Linux
/// gives on such a path.
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
    let not_behind = stripped().with(|load| load.path.hosts = Some([A].into()));
    assert_eq!(not_behind.kinds(), [InvalidKind::FastopenFailed, InvalidKind::NoSynData]);
}

#[test]
fn hosts_that_take_no_data_without_their_setting_are_expected_to_refuse_it() {
    let off = |load: &mut Load| {
        load.path = PathRule::default();
        load.job.tcp.listener_fastopen = ListenerFastOpen::Off;
    };
    assert_eq!(stripped().with(off).kinds(), NONE);
    let as_if_on = stripped().with(|load| load.path = PathRule::default());
    assert_eq!(as_if_on.kinds(), [InvalidKind::FastopenFailed, InvalidKind::NoSynData]);
    let accepted = Load::warm().with(off);
    assert_eq!(accepted.kinds(), [InvalidKind::PathWithoutEffect]);
    let without_option = stripped().with(|load| {
        load.job.tcp.client_fastopen = ClientFastOpen::WithoutCookie;
        load.job.tcp.listener_fastopen = ListenerFastOpen::CookieNotRequired;
    });
    let reasons = [InvalidKind::FastopenFailed, InvalidKind::NoSynData];
    assert_eq!(without_option.kinds(), reasons, "there is no option to strip");
}

#[test]
fn a_black_hole_is_expected_where_there_is_one_and_the_kernel_is_to_detect_it() {
    let hole = |load: &mut Load| {
        load.path = PathRule { behaviour: Behaviour::DropAnswers, hosts: Some([A].into()) };
        load.job.tcp.blackhole_timeout_s = 3600;
        load.counters.client.insert("TCPFastOpenBlackhole".into(), 1);
        load.connections[0].client.as_mut().expect("it has one").retransmits = 4;
        load.counters.client.insert("TCPFastOpenActiveFail".into(), 1);
        let suspected_ns = load.connections[0].opened_ns + 1_400_000_000;
        // The other connection is opened at the moment when the kernel suspects the black hole.
        let later = &mut load.connections[1];
        later.opened_ns = suspected_ns;
        later.connected_ns = Some(later.opened_ns + 10_000_000);
        for end in [&mut later.client, &mut later.origin].into_iter().flatten() {
            end.syn_data_acked = false;
        }
        load.count();
    };
    let without_timeouts = |load: &mut Load| {
        load.connections[0].client.as_mut().expect("it has one").retransmits = 0;
        load.counters.client.remove("TCPFastOpenActiveFail");
    };
    assert_eq!(Load::warm().with(hole).kinds(), NONE);
    let not_asked = Load::warm().with(hole).with(|load| load.job.tcp.blackhole_timeout_s = 0);
    assert_eq!(not_asked.kinds(), [InvalidKind::Blackhole, InvalidKind::NoSynData]);
    let open = Load::warm().with(hole).with(without_timeouts);
    let open = open.with(|load| load.path = PathRule::default());
    assert_eq!(open.kinds(), [InvalidKind::Blackhole, InvalidKind::NoSynData]);
    let before = Load::warm().with(hole).with(|load| {
        load.connections[1].opened_ns -= 1;
    });
    assert_eq!(before.kinds(), [InvalidKind::NoSynData], "it did without before there was a suspicion");
    let silent = Load::warm().with(hole).with(without_timeouts);
    assert_eq!(silent.kinds(), [InvalidKind::Blackhole, InvalidKind::NoSynData], "without a time-out");
    for (end, times) in [("client", 2), ("client", 0), ("origins", 1)] {
        let load = Load::warm().with(hole).with(|load| {
            let counters =
                if end == "client" { &mut load.counters.client } else { &mut load.counters.origins };
            counters.insert("TCPFastOpenBlackhole".into(), times);
        });
        assert!(load.kinds().contains(&InvalidKind::Blackhole), "{end}: {times}");
    }
}

/// Returns a warm load behind a path that resets SYNs with data. No connection was established, and each
/// client socket retransmitted once.
fn reset() -> Load {
    Load::warm().with(|load| {
        load.path = PathRule { behaviour: Behaviour::RstSynData, hosts: None };
        for connection in &mut load.connections {
            (connection.requests, connection.origin, connection.handshake_us) = (0, None, None);
            let client = connection.client.as_mut().expect("it has one");
            (client.syn_data_acked, client.retransmits) = (false, 1);
        }
        load.count();
    })
}

#[test]
fn the_kernel_may_count_connections_that_were_never_answered_once_their_timers_ran_out() {
    for failed in 0..=2 {
        assert_eq!(reset().client_counts("TCPFastOpenActiveFail", failed).kinds(), NONE, "{failed}");
    }
    assert_eq!(reset().client_counts("TCPFastOpenActiveFail", 3).kinds(), [InvalidKind::FastopenFailed]);
    let often = reset().with(|load| load.connections[0].client.as_mut().expect("it has one").retransmits = 4);
    assert_eq!(often.kinds(), [InvalidKind::FastopenFailed], "it cannot have gone uncounted");
}

#[test]
fn a_syn_that_was_lost_on_its_way_leaves_no_trace_at_its_host() {
    let load = |accepted: i64| {
        stripped().with(|load| {
            load.path.behaviour = Behaviour::StripData;
            load.link.up.dropped_loss = 1;
            load.connections[1].client.as_mut().expect("it has one").fastopen_client_fail = 3;
            load.connections[1].client.as_mut().expect("it has one").retransmits = 1;
            load.counters.origins.insert("TCPFastOpenPassive".into(), accepted);
        })
    };
    assert_eq!(load(1).kinds(), NONE);
    assert_eq!(load(2).kinds(), NONE);
    assert_eq!(load(0).kinds(), [InvalidKind::CountersDisagree]);
    assert_eq!(load(3).kinds(), [InvalidKind::CountersDisagree]);
}

#[test]
fn a_host_may_count_a_syn_without_its_data_of_a_connection_that_was_given_up() {
    let load = |accepted: i64| {
        stripped().with(|load| {
            load.path.behaviour = Behaviour::StripData;
            let mut given_up = given_up_connection("b.test", 30);
            given_up.origin.as_mut().expect("it has one").syn_data_acked = false;
            load.connections.push(given_up);
            load.counters.origins.insert("TCPFastOpenPassive".into(), accepted);
        })
    };
    assert_eq!(load(2).kinds(), NONE);
    assert_eq!(load(3).kinds(), NONE);
    assert_eq!(load(1).kinds(), [InvalidKind::CountersDisagree]);
    assert_eq!(load(4).kinds(), [InvalidKind::CountersDisagree]);
}

const SIX: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0x19, 0, 0, 0, 1));

#[test]
fn packets_that_pass_where_ipv6_is_blocked_make_a_load_invalid() {
    let blocked = |address| {
        Load::tcp().with(|load| {
            load.path.behaviour = Behaviour::BlockIpv6;
            load.connections[0].address = Some(address);
        })
    };
    assert_eq!(blocked(A).kinds(), NONE);
    assert_eq!(blocked(SIX).kinds(), [InvalidKind::PathWithoutEffect]);
}

#[test]
fn a_client_that_a_cookie_keeps_from_ipv4_is_named_and_no_other_is() {
    // A SYN with data over IPv6, retransmitted and never answered, in a load that did not finish.
    let unanswered = || {
        Load::warm().with(|load| {
            load.job.network.ip = Versions::Both;
            load.path.behaviour = Behaviour::BlockIpv6;
            let mut lost = given_up_connection("a.test", 0);
            lost.address = Some(SIX);
            lost.origin = None;
            lost.client.as_mut().expect("it has one").retransmits = 7;
            load.connections = vec![lost];
            load.cookies_before.push(SIX);
            load.requests.clear();
            load.finished = false;
            load.count();
        })
    };
    let named = |load: Load| load.reasons()[0].detail.contains("a.test did not answer over IPv6");
    assert!(named(unanswered()));
    assert!(!named(unanswered().with(|load| load.job.network.ip = Versions::V6)), "there is no IPv4");
    assert!(!named(unanswered().with(|load| load.cookies_before.retain(|one| *one != SIX))), "no cookie");
    let tried = unanswered().with(|load| {
        let mut four = connection("a.test", 300, false);
        four.address = Some(A);
        load.connections.push(four);
    });
    assert!(!named(tried));
}

#[test]
fn a_client_without_fast_open_may_wait_long_for_ipv6_before_it_uses_ipv4() {
    let load = Load::tcp().with(|load| {
        load.job.network.ip = Versions::Both;
        load.path.behaviour = Behaviour::BlockIpv6;
        load.connections[0].address = Some(A);
        let mut lost = given_up_connection("a.test", 0);
        lost.address = Some(SIX);
        lost.origin = None;
        let end = lost.client.as_mut().expect("it has one");
        (end.retransmits, end.segments_in) = (5, 0);
        load.connections.push(lost);
        load.count();
    });
    assert_eq!(load.kinds(), NONE);
}
