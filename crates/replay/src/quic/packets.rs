//! The types of the QUIC packets in a datagram, from its bytes alone (RFC 9000 section 17).

use serde::{Deserialize, Serialize};

/// The high bit of a packet: a long header (RFC 9000 section 17.2).
const LONG_HEADER: u8 = 0x80;
/// The fixed bit. What lacks it is no QUIC packet, but padding of the datagram (RFC 9000 section 12.2).
const FIXED: u8 = 0x40;

/// Numbers of datagrams and of the packets in them, by their type, in one direction of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketCounts {
    /// UDP datagrams.
    pub datagrams: u64,
    /// Bytes in them, without the headers of UDP and IP.
    pub bytes: u64,
    /// Initial packets: the first messages of the TLS handshake.
    pub initial: u64,
    /// 0-RTT packets: early data.
    pub zero_rtt: u64,
    /// Handshake packets.
    pub handshake: u64,
    /// 1-RTT packets, those with a short header.
    pub one_rtt: u64,
    /// Retry packets.
    pub retry: u64,
}

impl PacketCounts {
    /// Counts a datagram. Coalesced packets are told apart by their length fields (RFC 9000 section 12.2).
    pub fn count(&mut self, datagram: &[u8]) {
        self.datagrams += 1;
        self.bytes += datagram.len() as u64;
        let mut rest = datagram;
        while let Some(after) = self.count_packet(rest) {
            rest = after;
        }
    }

    /// Counts the packet that `bytes` begin with, and returns what follows it.
    fn count_packet<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (first, rest) = bytes.split_first()?;
        if first & FIXED == 0 {
            return None;
        }
        if first & LONG_HEADER == 0 {
            self.one_rtt += 1;
            return None;
        }
        let (version, rest) = rest.split_at_checked(4)?;
        if version == [0; 4] {
            // A Version Negotiation packet has no length, and none after it.
            return None;
        }
        let (_, rest) = sized(rest)?;
        let (_, rest) = sized(rest)?;
        let rest = match (first >> 4) & 3 {
            0 => {
                self.initial += 1;
                let (token, rest) = varint(rest)?;
                rest.get(usize::try_from(token).ok()?..)?
            }
            1 => {
                self.zero_rtt += 1;
                rest
            }
            2 => {
                self.handshake += 1;
                rest
            }
            _ => {
                self.retry += 1;
                return None;
            }
        };
        let (length, rest) = varint(rest)?;
        rest.get(usize::try_from(length).ok()?..)
    }
}

/// Splits bytes with a length of one byte before them, as connection IDs have.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked((*length).into())
}

/// A variable-length integer (RFC 9000 section 16), and what follows it.
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (more, rest) = rest.split_at_checked((1 << (first >> 6)) - 1)?;
    let value = more.iter().fold(u64::from(first & 0x3f), |value, byte| (value << 8) | u64::from(*byte));
    Some((value, rest))
}
