//! The types of the QUIC packets in a datagram, from its bytes alone (RFC 9000 section 17).

/// The high bit of a packet: a long header (RFC 9000 section 17.2).
const LONG_HEADER: u8 = 0x80;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketType {
    /// The first messages of the TLS handshake.
    Initial,
    /// Early data.
    ZeroRtt,
    /// The rest of the TLS handshake.
    Handshake,
    /// The server asks the client to begin anew, with a token.
    Retry,
    /// All that follows the handshake: those with a short header.
    OneRtt,
}

/// The types of the packets in a datagram, in their order. Coalesced packets are told apart by their length
/// fields (RFC 9000 section 12.2).
pub fn packet_types(datagram: &[u8]) -> impl Iterator<Item = PacketType> {
    let mut rest = Some(datagram);
    std::iter::from_fn(move || {
        let (packet_type, after) = packet(rest?)?;
        rest = after;
        Some(packet_type)
    })
}

/// The type of the packet that `bytes` begin with, and what follows it; none behind the last one. The fixed
/// bit tells nothing: to peers that allow it packets are sent without (RFC 9287).
fn packet(bytes: &[u8]) -> Option<(PacketType, Option<&[u8]>)> {
    let (first, rest) = bytes.split_first()?;
    if first & LONG_HEADER == 0 {
        // Zeros pad the datagram (RFC 9000 section 12.2).
        return bytes.iter().any(|byte| *byte != 0).then_some((PacketType::OneRtt, None));
    }
    let (version, rest) = rest.split_at_checked(4)?;
    if version == [0; 4] {
        // A Version Negotiation packet has no length, and none after it.
        return None;
    }
    let (_, rest) = sized(rest)?;
    let (_, rest) = sized(rest)?;
    let packet_type = match (first >> 4) & 3 {
        0 => PacketType::Initial,
        1 => PacketType::ZeroRtt,
        2 => PacketType::Handshake,
        _ => return Some((PacketType::Retry, None)),
    };
    Some((packet_type, behind(packet_type, rest)))
}

/// What follows a packet, of its bytes behind the connection IDs.
fn behind(packet_type: PacketType, mut rest: &[u8]) -> Option<&[u8]> {
    if packet_type == PacketType::Initial {
        let (token, after) = varint(rest)?;
        rest = after.get(usize::try_from(token).ok()?..)?;
    }
    let (length, rest) = varint(rest)?;
    rest.get(usize::try_from(length).ok()?..)
}

/// Splits bytes with a length of one byte before them, as connection IDs have.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked((*length).into())
}

/// A variable-length integer (RFC 9000 section 16), and what follows it.
pub fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (more, rest) = rest.split_at_checked((1 << (first >> 6)) - 1)?;
    let value = more.iter().fold(u64::from(first & 0x3f), |value, byte| (value << 8) | u64::from(*byte));
    Some((value, rest))
}
