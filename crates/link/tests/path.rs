//! Tests middleboxes that break TCP Fast Open, large `ClientHello`s or QUIC: the effect of each behaviour on
//! each kind of packet.

use fastopen_link::path::{self, Behaviour, Middlebox, PathRule, Way};
use fastopen_link::stage::Verdict;
use fastopen_link::{Direction, DirectionConfig, DropCause, ip};
use proptest::prelude::*;

const DROP: Verdict = Verdict::Drop(DropCause::Path);
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const HOST: [u8; 4] = [10, 1, 0, 1];
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const ISN: u32 = 0xffff_ffff;
/// The option for the maximum segment size, and the Fast Open option (kind 34) with a cookie of eight bytes.
const COOKIE: &[u8] = &[2, 4, 5, 0xb4, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1];
/// A request for a cookie, in the experimental format of RFC 7413's appendix A.
const EXPERIMENT: &[u8] = &[254, 4, 0xf9, 0x89];

/// Every behaviour except `None`.
const BEHAVIOURS: [Behaviour; 21] = [
    Behaviour::BlockIpv6,
    Behaviour::DropSynData,
    Behaviour::DropOption,
    Behaviour::DropSynackOption,
    Behaviour::StripOption,
    Behaviour::StripData,
    Behaviour::StripBoth,
    Behaviour::StripSynackOption,
    Behaviour::BreakCookie,
    Behaviour::RstSynData,
    Behaviour::DropSynack,
    Behaviour::DropAnswers,
    Behaviour::DropSplitHello,
    Behaviour::RstSplitHello,
    Behaviour::StallSecondSegment,
    Behaviour::BlockUdp,
    Behaviour::LimitUdp,
    Behaviour::DropZeroRtt,
    Behaviour::DelayInitial,
    Behaviour::Rebind,
    Behaviour::DropLargeUdp,
];

/// Returns a TCP packet from the client to the host, or from the host to the client if `way` is down.
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
    let segment = (ip.len() - 20) as u16;
    for (at, sum) in [(10, sum(&ip[..20])), (36, sum(&pseudo(&ip, segment)))] {
        ip[at..at + 2].copy_from_slice(&(!sum).to_be_bytes());
    }
    ip
}

/// Returns the pseudo header of the packet `ip` for a TCP segment of `length` bytes, then the segment.
fn pseudo(ip: &[u8], length: u16) -> Vec<u8> {
    [&ip[12..20], &[0, 6], &length.to_be_bytes(), &ip[20..]].concat()
}

fn syn(options: &[u8], payload: &[u8]) -> Vec<u8> {
    packet(Way::Up, SYN, 0, options, payload)
}

fn middlebox(behaviour: Behaviour) -> Middlebox {
    Middlebox::new(PathRule { behaviour, hosts: None })
}

/// Returns a UDP datagram between a port of the client and port 443 of the host.
fn datagram(way: Way, client_port: u16, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = if way == Way::Up { (CLIENT, HOST) } else { (HOST, CLIENT) };
    let (from, to) = if way == Way::Up { (client_port, 443) } else { (443, client_port) };
    let length = (8 + payload.len()) as u16;
    let mut ip = vec![0x45, 0, 0, 20 + length as u8, 0, 0, 0x40, 0, 64, 17, 0, 0];
    ip.extend([source, destination].concat());
    ip.extend([from, to, length, 0].map(u16::to_be_bytes).concat());
    ip.extend(payload);
    ip
}

/// Returns the packet that the middlebox forwards; `None` if it drops or holds the packet.
fn crossed(middlebox: &mut Middlebox, way: Way, mut ip: Vec<u8>) -> Option<Vec<u8>> {
    match middlebox.pass(0, way, &mut ip) {
        Verdict::Pass => {
            ip.truncate(ip::length(&ip).expect("a header"));
            Some(ip)
        }
        Verdict::Answer => panic!("it is answered: {ip:?}"),
        _ => None,
    }
}

/// Returns the sum of RFC 1071 over pairs of bytes: 0xffff if the bytes include their correct checksum.
fn sum(words: &[u8]) -> u16 {
    let mut sum: u32 =
        words.chunks(2).map(|pair| (u32::from(pair[0]) << 8) | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn assert_checksums(ip: &[u8]) {
    assert_eq!(sum(&ip[..20]), 0xffff, "of the IP header: {ip:?}");
    let length = (ip.len() - 20) as u16;
    assert_eq!(sum(&pseudo(ip, length)), 0xffff, "of the segment: {ip:?}");
    assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
}

/// Returns a SYN for each combination of Fast Open option and data that a behaviour distinguishes.
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
    // The option may also begin at an odd offset.
    let odd = crossed(&mut middlebox, Way::Up, syn(&[1, 34, 5, 9, 8, 7, 1, 0], b"odd")).expect("it goes on");
    assert_eq!(&odd[40..48], &[1, 1, 1, 1, 1, 1, 1, 0]);
    assert_checksums(&odd);
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
fn syn_acks_with_the_option_are_dropped_and_syns_are_not() {
    let mut middlebox = middlebox(Behaviour::DropSynackOption);
    for (options, passes) in [(COOKIE, false), (EXPERIMENT, false), (&[][..], true)] {
        let answer = packet(Way::Down, SYN | ACK, 0, options, b"");
        assert_eq!(crossed(&mut middlebox, Way::Down, answer).is_some(), passes, "{options:?}");
    }
    assert!(crossed(&mut middlebox, Way::Up, syn(COOKIE, b"data")).is_some());
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
    assert_eq!(middlebox.pass(0, Way::Up, &mut ip), Verdict::Answer);
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

/// Returns a 0-RTT packet. If `coalesced`, it follows an Initial packet in the same datagram (RFC 9000
/// section 12.2).
fn early(coalesced: bool) -> Vec<u8> {
    let long = |first: u8, token: &[u8]| [&[first, 0, 0, 0, 1, 0, 0], token, &[3, 7, 7, 7]].concat();
    [if coalesced { long(0xc0, &[0]) } else { vec![] }, long(0xd0, &[])].concat()
}

#[test]
fn udp_is_blocked_and_tcp_is_not() {
    let mut middlebox = middlebox(Behaviour::BlockUdp);
    for way in [Way::Up, Way::Down] {
        assert_eq!(crossed(&mut middlebox, way, datagram(way, 40_000, b"quic")), None);
    }
    assert!(crossed(&mut middlebox, Way::Up, syn(COOKIE, b"data")).is_some());
}

#[test]
fn ipv6_is_blocked_and_ipv4_is_not() {
    let mut middlebox = middlebox(Behaviour::BlockIpv6);
    for (way, ip) in [
        (Way::Up, syn(COOKIE, b"data")),
        (Way::Up, datagram(Way::Up, 40_000, b"quic")),
        (Way::Down, packet(Way::Down, SYN | ACK, 4, COOKIE, b"")),
    ] {
        let mut six = over_ipv6(&ip);
        assert_eq!(middlebox.pass(0, way, &mut six), DROP);
        assert_eq!(crossed(&mut middlebox, way, ip.clone()), Some(ip));
    }
}

#[test]
fn datagrams_with_early_data_are_dropped_wherever_it_is_in_them() {
    let mut middlebox = middlebox(Behaviour::DropZeroRtt);
    for coalesced in [false, true] {
        assert_eq!(crossed(&mut middlebox, Way::Up, datagram(Way::Up, 40_000, &early(coalesced))), None);
    }
    let other = datagram(Way::Up, 40_000, &early(true)[..12]);
    assert_eq!(crossed(&mut middlebox, Way::Up, other.clone()), Some(other));
}

#[test]
fn an_initial_packet_that_is_held_is_overtaken_by_what_follows_it() {
    let rule = PathRule { behaviour: Behaviour::DelayInitial, hosts: None };
    let (_, mut up) = Direction::pair(&DirectionConfig::default(), &DirectionConfig::default(), &rule, 0);
    // These packets have long headers without connection IDs, and lengths of 1. The token of the Initial
    // packet is empty.
    let initial = [0xc0, 0, 0, 0, 1, 0, 0, 0, 1, 7];
    let zero_rtt = [0xd0, 0, 0, 0, 1, 0, 0, 1, 7];
    let handshake = [0xe0, 0, 0, 0, 1, 0, 0, 1, 7];
    let sent = [&initial[..], &zero_rtt, &[&initial[..], &handshake].concat()];
    let sent = sent.map(|payload| datagram(Way::Up, 40_000, payload));
    for (at, datagram) in (1..).zip(&sent) {
        up.offer(at, datagram.len() as u32, 0, datagram.clone()).expect("nothing is dropped");
    }
    let [first, early, last] = sent;
    let arrived: Vec<_> = std::iter::from_fn(|| up.release(20_000_000)).collect();
    assert_eq!(arrived, [(2, early), (3, last), (10_000_001, first)]);
    assert_eq!(up.stats().dropped_path, 0);
}

#[test]
fn udp_above_a_megabit_a_second_is_dropped_in_each_direction_by_itself() {
    let mut middlebox = middlebox(Behaviour::LimitUdp);
    // Of packets with 100 bytes, 150 pass at once, and then one every 0.8 ms.
    let mut pass =
        |now, way| middlebox.pass(now, way, &mut datagram(way, 40_000, &[0x40; 72])) == Verdict::Pass;
    for way in [Way::Up, Way::Down] {
        assert_eq!((0..200).filter(|_| pass(0, way)).count(), 150);
    }
    assert_eq!([799_999, 800_000, 800_001].map(|now| pass(now, Way::Up)), [false, true, false]);
}

#[test]
fn a_flow_that_is_bound_anew_is_another_port_to_its_host_and_the_same_to_its_client() {
    let mut middlebox = middlebox(Behaviour::Rebind);
    let mut crossed = |now, way, mut ip: Vec<u8>| {
        assert_eq!(middlebox.pass(now, way, &mut ip), Verdict::Pass);
        ip
    };
    let (begun, later) = (7, 500_000_007);
    let sent = datagram(Way::Up, 40_000, b"odd");
    assert_eq!(crossed(begun, Way::Up, sent.clone()), sent);
    assert_eq!(crossed(later - 1, Way::Up, sent.clone()), sent);
    let elsewhere = crossed(later, Way::Up, sent);
    assert_eq!(u16::from_be_bytes([elsewhere[20], elsewhere[21]]), path::rebound(40_000));
    let length = (elsewhere.len() - 20) as u16;
    let pseudo = [&elsewhere[12..20], &[0, 17], &length.to_be_bytes(), &elsewhere[20..], &[0]].concat();
    assert_eq!(sum(&pseudo), 0xffff);
    let answer = crossed(later, Way::Down, datagram(Way::Down, path::rebound(40_000), b"answer"));
    assert_eq!(u16::from_be_bytes([answer[22], answer[23]]), 40_000);
    let late = datagram(Way::Down, 40_000, b"sent before");
    assert_eq!(crossed(later, Way::Down, late.clone()), late);
}

/// Returns a client's segment with `sent` bytes of a `ClientHello` of 1,475 bytes, starting at `offset`.
fn hello(flags: u8, offset: u32, sent: usize) -> Vec<u8> {
    let mut whole = vec![22, 3, 1];
    whole.extend((1470_u16).to_be_bytes());
    whole.resize(1475, b'.');
    let from = offset as usize;
    let mut ip = packet(Way::Up, flags, 77, &[], &whole[from..from + sent]);
    let first = u32::from(flags & SYN == 0);
    ip[24..28].copy_from_slice(&ISN.wrapping_add(first + offset).to_be_bytes());
    ip
}

fn drops(middlebox: &mut Middlebox, mut ip: Vec<u8>) -> bool {
    middlebox.pass(0, Way::Up, &mut ip) == DROP
}

#[test]
fn segments_of_a_split_hello_are_dropped_and_what_follows_it_is_not() {
    let mut middlebox = middlebox(Behaviour::DropSplitHello);
    let segments = [(0, 1448), (1448, 27), (0, 1448)];
    let dropped = segments.map(|(offset, sent)| drops(&mut middlebox, hello(ACK, offset, sent)));
    assert_eq!(dropped, [true; 3]);
    let mut later = packet(Way::Up, ACK, 77, &[], b"request");
    later[24..28].copy_from_slice(&ISN.wrapping_add(1 + 1475).to_be_bytes());
    assert!(!drops(&mut middlebox, later));
    // A `ClientHello` in one segment passes. The start of a `ClientHello` in a SYN passes, but not its rest.
    assert!(!drops(&mut self::middlebox(Behaviour::DropSplitHello), hello(ACK, 0, 1475)));
    let mut middlebox = self::middlebox(Behaviour::DropSplitHello);
    let dropped = [(SYN, 0, 1420), (ACK, 1420, 55)];
    let dropped = dropped.map(|(flags, offset, sent)| drops(&mut middlebox, hello(flags, offset, sent)));
    assert_eq!(dropped, [false, true]);
}

#[test]
fn the_second_segment_of_a_split_hello_is_dropped_once() {
    let mut middlebox = middlebox(Behaviour::StallSecondSegment);
    let segments = [(0, 1448), (1448, 27), (0, 1448), (1448, 27)];
    let dropped = segments.map(|(offset, sent)| drops(&mut middlebox, hello(ACK, offset, sent)));
    assert_eq!(dropped, [false, true, false, false]);
}

#[test]
fn a_split_hello_is_answered_by_a_reset_that_its_sender_takes() {
    let mut ip = hello(ACK, 0, 1448);
    assert_eq!(middlebox(Behaviour::RstSplitHello).pass(0, Way::Up, &mut ip), Verdict::Answer);
    ip.truncate(40);
    // The sequence number of the reset is the acknowledgement number of the segment (RFC 9293 section
    // 3.10.7.4).
    assert_eq!((ip[33], &ip[24..28]), (RST, &77_u32.to_be_bytes()[..]));
    assert_eq!((&ip[12..16], &ip[16..20]), (&HOST[..], &CLIENT[..]));
    assert_checksums(&ip);
}

#[test]
fn the_second_initial_datagram_of_a_flow_is_dropped_until_the_host_answers() {
    let initial = || datagram(Way::Up, 40_000, &[0xc0, 0, 0, 0, 1, 0, 0, 0, 1, 0]);
    let mut middlebox = middlebox(Behaviour::DropLargeUdp);
    assert_eq!([0, 1].map(|_| drops(&mut middlebox, initial())), [false, true]);
    let mut answer = datagram(Way::Down, 40_000, b"answer");
    assert_eq!(middlebox.pass(0, Way::Down, &mut answer), Verdict::Pass);
    assert!(!drops(&mut middlebox, initial()));
}

#[test]
fn hosts_that_are_not_behind_it_notice_nothing() {
    let elsewhere =
        PathRule { behaviour: Behaviour::DropSynData, hosts: Some([[10, 1, 0, 2].into()].into()) };
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
        mut ip in prop::collection::vec(any::<u8>(), 0..120), cut in 0_usize..120,
        behaviour in prop::sample::select(&BEHAVIOURS), up in any::<bool>(), as_it_is in any::<bool>(),
        like in prop::sample::select(vec![syn(COOKIE, b"data"), datagram(Way::Up, 40_000, b"")]),
    ) {
        if !as_it_is {
            let kept = cut.min(like.len());
            ip.splice(..0, like[..kept].iter().copied());
        }
        let before = ip::length(&ip).map(|bytes| bytes.max(ip.len()));
        let way = if up { Way::Up } else { Way::Down };
        if middlebox(behaviour).pass(0, way, &mut ip) == Verdict::Pass {
            prop_assert!(ip::length(&ip) <= before);
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

/// Converts the IPv4 packet `ip` to IPv6, and corrects its TCP or UDP checksum. The IPv6 addresses end with
/// the IPv4 addresses.
fn over_ipv6(ip: &[u8]) -> Vec<u8> {
    let payload = &ip[20..];
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([ip[9], 64]);
    for address in ip[12..20].chunks(4) {
        packet.extend([&[0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0], address].concat());
    }
    packet.extend(payload);
    let at = 40 + if ip[9] == 6 { 16 } else { 6 };
    packet[at..at + 2].fill(0);
    let length = (payload.len() as u32).to_be_bytes();
    let pseudo = [&packet[8..40], &length, &[0, 0, 0, ip[9]], &packet[40..]].concat();
    let checksum = !sum(&pseudo);
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    packet
}

#[test]
fn every_behaviour_does_the_same_to_ipv6() {
    let down = |flags, ack, options: &[u8], payload: &[u8]| packet(Way::Down, flags, ack, options, payload);
    let mut packets: Vec<_> = syns().map(|syn| (Way::Up, syn)).into();
    packets.push((Way::Down, down(SYN | ACK, 4, COOKIE, b"")));
    packets.push((Way::Down, down(ACK, 4, &[], b"answer")));
    packets.push((Way::Up, datagram(Way::Up, 40_000, &early(true))));
    packets.push((Way::Down, datagram(Way::Down, 40_000, b"answer")));
    packets.push((Way::Up, datagram(Way::Up, 40_000, b"later")));
    packets.extend([(0, 1448), (1448, 27)].map(|(offset, sent)| (Way::Up, hello(ACK, offset, sent))));
    packets.extend([(); 2].map(|()| (Way::Up, datagram(Way::Up, 50_000, &early(true)))));
    for behaviour in BEHAVIOURS.into_iter().filter(|one| *one != Behaviour::BlockIpv6) {
        let (mut four, mut six) = (middlebox(behaviour), middlebox(behaviour));
        for (number, (way, ip)) in packets.iter().enumerate() {
            // Packets are a second apart, so that `Rebind` changes the ports of flows.
            let now = 1_000_000_000 * number as u64;
            let (mut ip, mut ip6) = (ip.clone(), over_ipv6(ip));
            let (passage, passage6) = (four.pass(now, *way, &mut ip), six.pass(now, *way, &mut ip6));
            let shown = format!("{behaviour:?} of packet {number}");
            match (passage, passage6) {
                (Verdict::Pass, Verdict::Pass) | (Verdict::Answer, Verdict::Answer) => {
                    ip.truncate(ip::length(&ip).expect("a header"));
                    ip6.truncate(ip::length(&ip6).expect("a header"));
                    assert_eq!(over_ipv6(&ip), ip6, "{shown}");
                }
                (passage, passage6) => assert_eq!(passage, passage6, "{shown}"),
            }
        }
    }
}
