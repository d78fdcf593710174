//! Counts the QUIC packets that cross a socket, by type.

use fastopen_link::quic::{PacketType, packet_types};
use serde::{Deserialize, Serialize};

/// Counts of datagrams, and of their packets by type, in one direction of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketCounts {
    /// UDP datagrams.
    pub datagrams: u64,
    /// Bytes of the datagrams, without the headers of UDP and IP.
    pub bytes: u64,
    /// Initial packets: the first messages of the TLS handshake.
    pub initial: u64,
    /// 0-RTT packets: early data.
    pub zero_rtt: u64,
    /// Handshake packets: the rest of the TLS handshake.
    pub handshake: u64,
    /// 1-RTT packets, which have a short header.
    pub one_rtt: u64,
    /// Retry packets, with which an origin validates the client's address.
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
