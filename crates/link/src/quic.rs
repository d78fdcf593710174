//! Parses the types of the QUIC packets in a datagram, from cleartext header fields (RFC 9000 section 17).

/// Header form bit, set in long headers (RFC 9000 section 17.2).
const LONG_HEADER: u8 = 0x80;

/// The type of a QUIC packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketType {
    /// A packet with the first messages of the TLS handshake.
    Initial,
    /// A packet with early data.
    ZeroRtt,
    /// A packet with the rest of the TLS handshake.
    Handshake,
    /// The server's request to the client to start again with a token.
    Retry,
    /// A packet with a short header, protected with 1-RTT keys.
    OneRtt,
}

/// Returns the types of the coalesced packets in a datagram, in order (RFC 9000 section 12.2). Stops before a
/// Version Negotiation packet, and at an incomplete packet.
pub fn packet_types(datagram: &[u8]) -> impl Iterator<Item = PacketType> {
    let mut rest = Some(datagram);
    std::iter::from_fn(move || {
        let (packet_type, after) = packet(rest?)?;
        rest = after;
        Some(packet_type)
    })
}

/// Returns the first packet's type, and the bytes after the packet if another packet can follow; `None` for
/// padding, Version Negotiation and incomplete headers. The fixed bit may be clear (RFC 9287).
fn packet(bytes: &[u8]) -> Option<(PacketType, Option<&[u8]>)> {
    let (first, rest) = bytes.split_first()?;
    if first & LONG_HEADER == 0 {
        // Zeros are padding (RFC 9000 section 12.2).
        return bytes.iter().any(|byte| *byte != 0).then_some((PacketType::OneRtt, None));
    }
    let (version, rest) = rest.split_at_checked(4)?;
    if version == [0; 4] {
        // A Version Negotiation packet has no length and is the last in its datagram.
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
    Some((packet_type, after_packet(packet_type, rest)))
}

/// Returns the bytes after a packet; `None` if the packet is cut off. `rest` begins after its connection IDs.
fn after_packet(packet_type: PacketType, mut rest: &[u8]) -> Option<&[u8]> {
    if packet_type == PacketType::Initial {
        let (token, after) = varint(rest)?;
        rest = after.get(usize::try_from(token).ok()?..)?;
    }
    let (length, rest) = varint(rest)?;
    rest.get(usize::try_from(length).ok()?..)
}

/// Splits off a field with a one-byte length prefix, such as a connection ID; `None` if it is cut off.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked((*length).into())
}

/// Parses a variable-length integer (RFC 9000 section 16). Returns it and the rest; `None` if it is cut off.
pub fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (more, rest) = rest.split_at_checked((1 << (first >> 6)) - 1)?;
    let value = more.iter().fold(u64::from(first & 0x3f), |value, byte| (value << 8) | u64::from(*byte));
    Some((value, rest))
}
