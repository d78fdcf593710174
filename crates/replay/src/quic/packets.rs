//! Counts the QUIC packets that cross a socket, by type.

use fastopen_link::quic::{PacketType, packet_types};
use serde::{Deserialize, Serialize};

/// Counts of datagrams, and of their packets by type, in one direction of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it, or docs/dev/contract.md")]
pub struct PacketCounts {
    pub datagrams: u64,
    pub bytes: u64,
    pub initial: u64,
    pub zero_rtt: u64,
    pub handshake: u64,
    pub one_rtt: u64,
    pub retry: u64,
}

impl PacketCounts {
    /// Counts a datagram, and its packets by type.
    pub fn count(&mut self, datagram: &[u8]) {
        self.datagrams += 1;
        self.bytes += datagram.len() as u64;
        for packet_type in packet_types(datagram) {
            *match packet_type {
                PacketType::Initial => &mut self.initial,
                PacketType::ZeroRtt => &mut self.zero_rtt,
                PacketType::Handshake => &mut self.handshake,
                PacketType::Retry => &mut self.retry,
                PacketType::OneRtt => &mut self.one_rtt,
            } += 1;
        }
    }
}
