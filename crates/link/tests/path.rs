//! Middleboxes that break TCP Fast Open: what each behaviour does to which packet.

use fastopen_link::path::{self, Behaviour, Middlebox, Passage, PathRule, Way};
use fastopen_link::{Direction, DirectionConfig};
use proptest::prelude::*;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const HOST: [u8; 4] = [10, 1, 0, 1];
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const ISN: u32 = 0xffff_ffff;
/// Kind 34 with a cookie of eight bytes, behind a maximum segment size.
const COOKIE: &[u8] = &[2, 4, 5, 0xb4, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1];
/// A request for a cookie, in the form of RFC 7413's appendix A.
const EXPERIMENT: &[u8] = &[254, 4, 0xf9, 0x89];

/// A packet of the client to the host, or down the other way, with options and payload.
fn packet(way: Way, flags: u8, ack: u32, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let (source, destination) = if way == Way::Up { (CLIENT, HOST) } else { (HOST, CLIENT) };
    let (from, to): (u16, u16) = if way == Way::Up { (4000, 80) } else { (80, 4000) };
    let length = 40 + options.len() + payload.len();
    let mut ip = vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend([source, destination].concat());
    ip.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
    ip.extend([ISN.to_be_bytes(), ack.to_be_bytes()].concat());
    ip.extend([((5 + options.len() as u8 / 4) << 4), flags, 0xff, 0xff, 0, 0, 0, 0]);
    ip.extend([options, payload].concat());
    ip
}

fn syn(options: &[u8], payload: &[u8]) -> Vec<u8> {
    packet(Way::Up, SYN, 0, options, payload)
}

fn middlebox(behaviour: Behaviour) -> Middlebox {
    Middlebox::new(PathRule { behaviour, hosts: None })
}

/// The packet that goes on; none where it is dropped.
fn crossed(middlebox: &mut Middlebox, way: Way, mut ip: Vec<u8>) -> Option<Vec<u8>> {
    match middlebox.pass(way, &mut ip) {
        Passage::Forward(bytes) => {
            ip.truncate(bytes as usize);
            Some(ip)
        }
        Passage::Drop => None,
        Passage::Answer => panic!("it is answered: {ip:?}"),
    }
}

/// The sum of RFC 1071 over the words of header and pseudo header, which is 0xffff where a checksum is right.
fn sum(words: &[u8]) -> u16 {
    let mut sum: u32 =
        words.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn assert_checksums(ip: &[u8]) {
    assert_eq!(sum(&ip[..20]), 0xffff, "of the IP header: {ip:?}");
    let length = (ip.len() - 20) as u16;
    let pseudo = [&ip[12..20], &[0, 6], &length.to_be_bytes(), &ip[20..]].concat();
    assert_eq!(sum(&pseudo), 0xffff, "of the segment: {ip:?}");
    assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
}

/// All SYNs that differ in what the behaviours look at.
fn syns() -> [Vec<u8>; 5] {
    [syn(&[], b""), syn(&[], b"data"), syn(COOKIE, b""), syn(COOKIE, b"data"), syn(EXPERIMENT, b"")]
}

#[test]
fn syns_with_data_or_with_the_option_are_dropped() {
    let mut middlebox = middlebox(Behaviour::DropSynData);
    let pass = syns().map(|syn| crossed(&mut middlebox, Way::Up, syn).is_some());
    assert_eq!(pass, [true, false, true, false, true]);
    let mut middlebox = self::middlebox(Behaviour::DropOption);
    let pass = syns().map(|syn| crossed(&mut middlebox, Way::Up, syn).is_some());
    assert_eq!(pass, [true, true, false, false, false]);
}

#[test]
fn the_option_becomes_padding_and_the_data_goes_on() {
    let mut middlebox = middlebox(Behaviour::StripOption);
    let stripped = crossed(&mut middlebox, Way::Up, syn(COOKIE, b"data")).expect("it goes on");
    assert_eq!(&stripped[40..56], &[2, 4, 5, 0xb4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(&stripped[56..], b"data");
    assert_checksums(&stripped);
    let stripped = crossed(&mut middlebox, Way::Up, syn(EXPERIMENT, b"")).expect("it goes on");
    assert_eq!(&stripped[40..], &[1, 1, 1, 1]);
}

#[test]
fn the_data_is_cut_off_with_the_option_or_without() {
    for (behaviour, kind) in [(Behaviour::StripData, 34), (Behaviour::StripBoth, 1)] {
        let stripped = crossed(&mut middlebox(behaviour), Way::Up, syn(COOKIE, b"data")).expect("it goes on");
        assert_eq!((stripped.len(), stripped[44]), (56, kind));
        assert_checksums(&stripped);
    }
}

#[test]
fn a_syn_ack_has_no_cookie_any_more() {
    let mut middlebox = middlebox(Behaviour::StripSynackOption);
    let answer = packet(Way::Down, SYN | ACK, 0, COOKIE, b"");
    let stripped = crossed(&mut middlebox, Way::Down, answer).expect("it goes on");
    assert_eq!(stripped[44], 1);
    assert_checksums(&stripped);
    let kept = crossed(&mut middlebox, Way::Up, syn(COOKIE, b"data")).expect("it goes on");
    assert_eq!(kept, syn(COOKIE, b"data"), "SYNs keep theirs");
}

#[test]
fn a_broken_cookie_has_its_length_and_another_value() {
    let mut middlebox = middlebox(Behaviour::BreakCookie);
    let broken = crossed(&mut middlebox, Way::Up, syn(COOKIE, b"data")).expect("it goes on");
    assert_eq!(&broken[44..54], &[34, 10, 254, 253, 252, 251, 250, 249, 248, 247]);
    assert_checksums(&broken);
    let asking = crossed(&mut middlebox, Way::Up, syn(EXPERIMENT, b"")).expect("it goes on");
    assert_eq!(asking, syn(EXPERIMENT, b""), "a request for a cookie has none to break");
}

#[test]
fn a_reset_answers_a_syn_with_data_from_its_host() {
    let mut middlebox = middlebox(Behaviour::RstSynData);
    let mut ip = syn(COOKIE, b"data");
    assert_eq!(middlebox.pass(Way::Up, &mut ip), Passage::Answer);
    ip.truncate(40);
    assert_checksums(&ip);
    assert_eq!([&ip[12..16], &ip[16..20]], [HOST, CLIENT]);
    assert_eq!(&ip[20..24], &[0, 80, 4000_u16.to_be_bytes()[0], 4000_u16.to_be_bytes()[1]]);
    assert_eq!(ip[33], RST | ACK);
    assert_eq!(&ip[28..32], &[0, 0, 0, 0], "it acknowledges the SYN alone, at the wrap of its numbers");
    assert!(crossed(&mut middlebox, Way::Up, syn(COOKIE, b"")).is_some());
}

#[test]
fn syn_acks_are_dropped_of_flows_whose_syn_had_data() {
    let mut middlebox = middlebox(Behaviour::DropSynack);
    let synack = || packet(Way::Down, SYN | ACK, 0, &[], b"");
    assert!(crossed(&mut middlebox, Way::Down, synack()).is_some());
    crossed(&mut middlebox, Way::Up, syn(COOKIE, b"data"));
    assert!(crossed(&mut middlebox, Way::Down, synack()).is_none());
    assert!(crossed(&mut middlebox, Way::Down, packet(Way::Down, ACK, 0, &[], b"more")).is_some());
}

#[test]
fn answers_are_dropped_once_data_in_a_syn_was_accepted() {
    let data = || packet(Way::Down, ACK, 4, &[], b"answer");
    for (acknowledged, passes) in [(0, true), (4, false)] {
        let mut middlebox = middlebox(Behaviour::DropAnswers);
        crossed(&mut middlebox, Way::Up, syn(COOKIE, b"data"));
        let synack = packet(Way::Down, SYN | ACK, acknowledged, &[], b"");
        assert!(crossed(&mut middlebox, Way::Down, synack).is_some());
        assert_eq!(crossed(&mut middlebox, Way::Down, data()).is_some(), passes, "{acknowledged}");
    }
}

#[test]
fn hosts_that_are_not_behind_it_notice_nothing() {
    let elsewhere = PathRule { behaviour: Behaviour::DropSynData, hosts: Some([[10, 1, 0, 2]].into()) };
    let pass = crossed(&mut Middlebox::new(elsewhere), Way::Up, syn(COOKIE, b"data"));
    assert_eq!(pass, Some(syn(COOKIE, b"data")));
}

#[test]
fn the_client_is_answered_after_the_delay_of_the_way_back_alone() {
    let config = DirectionConfig { delay: 50, ..DirectionConfig::default() };
    let rule = PathRule { behaviour: Behaviour::RstSynData, hosts: None };
    let (_, mut up) = Direction::pair(&config, &config, &rule, 0);
    up.offer(7, 60, 0, syn(COOKIE, b"data")).expect("it is taken");
    let (at, answer) = up.take_answer().expect("it is answered");
    assert_eq!((at, answer[33], up.next_release()), (7, RST | ACK, None));
    assert_eq!((up.stats().packets, up.stats().bytes, up.stats().dropped_path), (0, 0, 1));
}

proptest! {
    #[test]
    fn no_packet_makes_it_panic_or_grow(
        mut ip in prop::collection::vec(any::<u8>(), 0..120), cut in 0_usize..120, number in 0_usize..10,
        up in any::<bool>(), like_tcp in any::<bool>(),
    ) {
        let behaviours = [
            Behaviour::DropSynData, Behaviour::DropOption, Behaviour::StripOption, Behaviour::StripData,
            Behaviour::StripBoth, Behaviour::StripSynackOption, Behaviour::BreakCookie,
            Behaviour::RstSynData, Behaviour::DropSynack, Behaviour::DropAnswers,
        ];
        if like_tcp {
            let whole = syn(COOKIE, b"data");
            let kept = cut.min(whole.len());
            ip.splice(..0, whole[..kept].iter().copied());
        }
        let before = ip.len();
        let way = if up { Way::Up } else { Way::Down };
        if let Passage::Forward(bytes) = middlebox(behaviours[number]).pass(way, &mut ip) {
            prop_assert!(bytes as usize <= before);
        }
    }
}

#[test]
fn each_host_is_behind_with_the_probability_asked_and_a_larger_share_has_the_hosts_of_a_smaller_one() {
    let drawn = |share, seed| path::drawn_hosts(share, seed).take(10_000).collect::<Vec<_>>();
    let (few, more) = (drawn(0.1, 7), drawn(0.25, 7));
    assert!(few.iter().zip(&more).all(|(few, more)| *more || !few));
    for (share, hosts) in [(0.1, &few), (0.25, &more)] {
        let behind = hosts.iter().filter(|behind| **behind).count() as f64 / 10_000.0;
        assert!((behind - share).abs() < 0.015, "{behind} of the hosts at {share}");
    }
    assert_ne!(few, drawn(0.1, 8));
    assert_eq!(drawn(0.0, 7), vec![false; 10_000]);
    assert_eq!(drawn(1.0, 7), vec![true; 10_000]);
}
