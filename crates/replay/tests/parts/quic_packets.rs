//! Tests the counts of QUIC packets in a datagram.

use fastopen_replay::quic::packets::PacketCounts;

/// Returns a long-header packet of type `kind` with a `payload`-byte payload. Only Initial (0) has a token.
fn long(kind: u8, token: &[u8], payload: usize) -> Vec<u8> {
    let mut packet = vec![0xc0 | (kind << 4), 0, 0, 0, 1, 4, 1, 2, 3, 4, 2, 5, 6];
    if kind == 0 {
        packet.push(token.len() as u8);
        packet.extend(token);
    }
    packet.extend((0x4000 | payload as u16).to_be_bytes());
    packet.resize(packet.len() + payload, 0xff);
    packet
}

fn count(datagram: &[u8]) -> PacketCounts {
    let mut counts = PacketCounts::default();
    counts.count(datagram);
    counts
}

#[test]
fn coalesced_packets_are_told_apart_by_their_length_fields() {
    let short = vec![0x41; 30];
    let datagram = [long(0, b"token", 300), long(1, b"", 90), long(2, b"", 70), short].concat();
    let expected = PacketCounts {
        datagrams: 1,
        bytes: datagram.len() as u64,
        initial: 1,
        zero_rtt: 1,
        handshake: 1,
        one_rtt: 1,
        retry: 0,
    };
    assert_eq!(count(&datagram), expected);
}

#[test]
fn a_short_header_and_a_retry_take_the_rest_of_the_datagram() {
    let retry = [long(3, b"", 20), long(2, b"", 20)].concat();
    assert_eq!((count(&retry).retry, count(&retry).handshake), (1, 0));
    let short = [vec![0x40; 9], long(2, b"", 20)].concat();
    assert_eq!((count(&short).one_rtt, count(&short).handshake), (1, 0));
}

#[test]
fn packets_without_the_fixed_bit_are_packets() {
    let cleared = |mut packet: Vec<u8>| {
        packet[0] &= !0x40;
        packet
    };
    let datagram = [long(0, b"token", 300), cleared(long(1, b"", 90)), cleared(vec![0x41; 30])].concat();
    let counts = count(&datagram);
    assert_eq!((counts.initial, counts.zero_rtt, counts.one_rtt), (1, 1, 1));
}

#[test]
fn padding_after_a_packet_is_no_packet() {
    let padded = [long(0, b"", 100), vec![0; 900]].concat();
    assert_eq!((count(&padded).initial, count(&padded).one_rtt), (1, 0));
}

#[test]
fn what_ends_too_soon_is_counted_as_far_as_it_goes() {
    let datagram = [long(0, b"a", 100), long(2, b"", 70)].concat();
    for end in 0..datagram.len() {
        let counts = count(&datagram[..end]);
        assert!(counts.initial <= 1 && counts.handshake <= 1 && counts.one_rtt == 0, "{end}");
    }
    let negotiation = PacketCounts { datagrams: 1, bytes: 9, ..PacketCounts::default() };
    assert_eq!(count(&[0xc0, 0, 0, 0, 0, 1, 1, 1, 1]), negotiation);
}
