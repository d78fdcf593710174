//! Applies the behaviours of middleboxes that break QUIC: they drop, hold or change UDP datagrams.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Behaviour, Passage, Way};
use crate::Nanos;
use crate::ip::{self, Header};
use crate::quic::{PacketType, packet_types};

const UDP_HEADER: usize = 8;
/// Long-term limit of the UDP rate in each direction with [`Behaviour::LimitUdp`], in bit/s.
const LIMIT_BIT_PER_S: u64 = 1_000_000;
/// Maximum burst of UDP with [`Behaviour::LimitUdp`]: ten full packets.
const LIMIT_BURST_BYTES: u64 = 15_000;
const NS_PER_S: u64 = 1_000_000_000;
/// Time from a flow's first datagram to the change of the flow's client port ([`Behaviour::Rebind`]).
const REBOUND_AFTER: Nanos = NS_PER_S / 2;
/// Delay of QUIC Initial packets, so that 0-RTT packets overtake them ([`Behaviour::DelayInitial`]).
const INITIAL_HELD: Nanos = NS_PER_S / 100;

/// Maps the client's port to the port that hosts see after [`Behaviour::Rebind`], and back, by toggling the
/// highest bit. Every port in Linux's default range for clients (`net.ipv4.ip_local_port_range`) has this bit
/// set, so the new port is not the port of another flow.
pub fn rebound(port: u16) -> u16 {
    port ^ 0x8000
}

/// A UDP datagram in an unfragmented IP packet (RFC 768).
pub(super) struct UdpDatagram<'a> {
    ip: &'a mut [u8],
    header: Header,
    /// Offset of the UDP header.
    udp: usize,
}

impl<'a> UdpDatagram<'a> {
    pub(super) fn of(ip: &'a mut [u8]) -> Option<Self> {
        let header = Header::of(ip).filter(|header| header.protocol == ip::UDP && !header.fragment)?;
        let udp = header.bytes;
        (udp + UDP_HEADER <= ip.len()).then_some(Self { ip, header, udp })
    }

    pub(super) fn host(&self, way: Way) -> IpAddr {
        if way == Way::Up { self.header.destination } else { self.header.source }
    }

    fn client_port_at(&self, way: Way) -> usize {
        self.udp + if way == Way::Up { 0 } else { 2 }
    }

    fn flow(&self, way: Way) -> (u16, IpAddr) {
        let at = self.client_port_at(way);
        (u16::from_be_bytes([self.ip[at], self.ip[at + 1]]), self.host(way))
    }

    fn change_client_port(&mut self, way: Way) {
        let at = self.client_port_at(way);
        let port = rebound(self.flow(way).0);
        self.ip[at..at + 2].copy_from_slice(&port.to_be_bytes());
        ip::sum_transport(self.ip, ip::UDP, self.udp, self.udp + 6);
    }

    fn payload(&self) -> &[u8] {
        &self.ip[self.udp + UDP_HEADER..]
    }
}

/// The middlebox's state for UDP flows.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    /// Token buckets of [`Behaviour::LimitUdp`]: down, then up.
    limits: [Bucket; 2],
    /// Time of the client's first datagram in each flow. The key is the client's port and the host's address.
    flows: BTreeMap<(u16, IpAddr), Nanos>,
    /// Flows in which the client has sent an Initial packet; true once the host has answered.
    initials: BTreeMap<(u16, IpAddr), bool>,
}

impl Datagrams {
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
            Behaviour::BlockUdp | Behaviour::BlockIpv6 => false,
            Behaviour::LimitUdp => self.limits[usize::from(way == Way::Up)].take(now, bytes.into()),
            Behaviour::DropZeroRtt => !has(datagram, PacketType::ZeroRtt),
            // A datagram that also has a Handshake packet ends the handshake, and is not held.
            Behaviour::DelayInitial
                if way == Way::Up
                    && has(datagram, PacketType::Initial)
                    && !has(datagram, PacketType::Handshake) =>
            {
                return Passage::Hold(now + INITIAL_HELD);
            }
            Behaviour::DropLargeUdp => {
                let begins = way == Way::Up && has(datagram, PacketType::Initial);
                self.passes_as_first(datagram.flow(way), way, begins)
            }
            Behaviour::Rebind => {
                self.rebind(now, way, datagram);
                true
            }
            _ => true,
        };
        if passes { Passage::Forward(bytes) } else { Passage::Drop }
    }

    /// Returns true if [`Behaviour::DropLargeUdp`] forwards a datagram. `begins` is true for a client's
    /// datagram with an Initial packet: only a flow's first such datagram passes until the host answers.
    fn passes_as_first(&mut self, flow: (u16, IpAddr), way: Way, begins: bool) -> bool {
        match self.initials.get_mut(&flow) {
            Some(answered) if way == Way::Down => {
                *answered = true;
                true
            }
            Some(answered) => *answered || !begins,
            None => {
                if begins {
                    self.initials.insert(flow, false);
                }
                true
            }
        }
    }

    fn rebind(&mut self, now: Nanos, way: Way, datagram: &mut UdpDatagram) {
        let (port, host) = datagram.flow(way);
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

/// A token bucket that starts full.
#[derive(Debug, Default)]
struct Bucket {
    /// Time at which the bucket is full again. It fills at [`LIMIT_BIT_PER_S`], up to [`LIMIT_BURST_BYTES`].
    full_at: Nanos,
}

impl Bucket {
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
