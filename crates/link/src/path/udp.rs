//! Middleboxes that break QUIC: what becomes of UDP datagrams.

use std::collections::BTreeMap;

use super::{Behaviour, Passage, Way, sum_transport};
use crate::Nanos;
use crate::quic::{PacketType, packet_types};

const PROTOCOL_UDP: u8 = 17;
const UDP_HEADER: usize = 8;
/// What a limited path lets through of UDP in each direction, in the long run.
const LIMIT_BIT_PER_S: u64 = 1_000_000;
/// What it lets through at once: ten full packets.
const LIMIT_BURST_BYTES: u64 = 15_000;
const NS_PER_S: u64 = 1_000_000_000;
/// After its first datagram a flow keeps its port for so long.
const REBOUND_AFTER: Nanos = NS_PER_S / 2;
/// For so long Initial packets are held: what follows at once overtakes them, and no timer ends.
const INITIAL_HELD: Nanos = NS_PER_S / 100;

/// The client's port as hosts see it after [`Behaviour::Rebind`], and the other way round. Ports that Linux
/// gives to clients (`net.ipv4.ip_local_port_range`) have the bit, so none is given twice.
pub fn rebound(port: u16) -> u16 {
    port ^ 0x8000
}

/// A UDP datagram in an IPv4 packet that is no fragment (RFC 791 section 3.1, RFC 768).
pub(super) struct UdpDatagram<'a> {
    ip: &'a mut [u8],
    /// Where the UDP header begins.
    udp: usize,
}

impl<'a> UdpDatagram<'a> {
    pub(super) fn of(ip: &'a mut [u8]) -> Option<Self> {
        let udp = usize::from(ip.first()? & 0x0f) * 4;
        let fragment = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3fff;
        let whole = udp >= 20 && udp + UDP_HEADER <= ip.len();
        (whole && ip[0] >> 4 == 4 && ip[9] == PROTOCOL_UDP && fragment == 0).then_some(Self { ip, udp })
    }

    /// The host that sends or receives it.
    pub(super) fn host(&self, way: Way) -> [u8; 4] {
        self.address(if way == Way::Up { 16 } else { 12 })
    }

    fn address(&self, at: usize) -> [u8; 4] {
        [0, 1, 2, 3].map(|byte| self.ip[at + byte])
    }

    /// Where the client's port is; the host's is beside it.
    fn client_port_at(&self, way: Way) -> usize {
        self.udp + if way == Way::Up { 0 } else { 2 }
    }

    fn port(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.ip[at], self.ip[at + 1]])
    }

    fn change_client_port(&mut self, way: Way) {
        let at = self.client_port_at(way);
        let port = rebound(self.port(at));
        self.ip[at..at + 2].copy_from_slice(&port.to_be_bytes());
        sum_transport(self.ip, self.udp, self.udp + 6);
    }

    fn payload(&self) -> &[u8] {
        &self.ip[self.udp + UDP_HEADER..]
    }
}

/// The state that a middlebox has of UDP.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    /// Downwards and upwards.
    limits: [Bucket; 2],
    /// Client's port and host of a flow to when it began.
    flows: BTreeMap<(u16, [u8; 4]), Nanos>,
}

impl Datagrams {
    /// What becomes of a datagram, which is changed where the behaviour says so.
    pub(super) fn pass(
        &mut self,
        now: Nanos,
        behaviour: Behaviour,
        way: Way,
        datagram: &mut UdpDatagram,
    ) -> Passage {
        let bytes = datagram.ip.len() as u32;
        let has =
            |datagram: &UdpDatagram, wanted| packet_types(datagram.payload()).any(|packet| packet == wanted);
        let passes = match behaviour {
            Behaviour::BlockUdp => false,
            Behaviour::LimitUdp => self.limits[usize::from(way == Way::Up)].take(now, bytes.into()),
            Behaviour::DropZeroRtt => !has(datagram, PacketType::ZeroRtt),
            // With the end of the handshake in it, it is no first one.
            Behaviour::DelayInitial
                if way == Way::Up
                    && has(datagram, PacketType::Initial)
                    && !has(datagram, PacketType::Handshake) =>
            {
                return Passage::Hold(now + INITIAL_HELD);
            }
            Behaviour::Rebind => {
                self.rebind(now, way, datagram);
                true
            }
            _ => true,
        };
        if passes { Passage::Forward(bytes) } else { Passage::Drop }
    }

    fn rebind(&mut self, now: Nanos, way: Way, datagram: &mut UdpDatagram) {
        let port = datagram.port(datagram.client_port_at(way));
        let host = datagram.host(way);
        match way {
            Way::Up => {
                let since = *self.flows.entry((port, host)).or_insert(now);
                if now.saturating_sub(since) >= REBOUND_AFTER {
                    datagram.change_client_port(way);
                }
            }
            Way::Down if self.flows.contains_key(&(rebound(port), host)) => datagram.change_client_port(way),
            Way::Down => {}
        }
    }
}

/// A token bucket, full at first.
#[derive(Debug, Default)]
struct Bucket {
    /// When it would be full again, had it no bottom: this far from now it is empty.
    full_at: Nanos,
}

impl Bucket {
    /// Whether there are so many bytes in it, which are then taken out.
    fn take(&mut self, now: Nanos, bytes: u64) -> bool {
        let lasts = |bytes: u64| bytes * 8 * NS_PER_S / LIMIT_BIT_PER_S;
        let full_at = self.full_at.max(now) + lasts(bytes);
        let fits = full_at - now <= lasts(LIMIT_BURST_BYTES);
        if fits {
            self.full_at = full_at;
        }
        fits
    }
}
