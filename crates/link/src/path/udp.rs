//! Applies the behaviours of middleboxes that break QUIC: they drop, hold or change UDP datagrams.

use std::collections::BTreeMap;

use super::{Behaviour, DROP, FlowKey, Segment, Way};
use crate::Nanos;
use crate::ip;
use crate::quic::{PacketType, packet_types};
use crate::stage::Verdict;

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

fn has(datagram: &Segment, wanted: PacketType) -> bool {
    packet_types(&datagram.ip[datagram.payload..]).any(|packet| packet == wanted)
}

fn change_client_port(datagram: &mut Segment, way: Way) {
    let start = datagram.start;
    let at = start + if way == Way::Up { 0 } else { 2 };
    let port = rebound(datagram.word(at));
    datagram.ip[at..at + 2].copy_from_slice(&port.to_be_bytes());
    ip::sum_transport(datagram.ip, ip::UDP, start, start + 6);
}

/// The middlebox's state for UDP flows.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    /// Token buckets of [`Behaviour::LimitUdp`]: down, then up.
    limits: [Bucket; 2],
    /// Time of the client's first datagram in each flow.
    flows: BTreeMap<FlowKey, Nanos>,
    /// Flows in which the client has sent an Initial packet; true once the host has answered.
    initials: BTreeMap<FlowKey, bool>,
}

impl Datagrams {
    pub(super) fn pass(
        &mut self,
        now: Nanos,
        behaviour: Behaviour,
        way: Way,
        flow: FlowKey,
        datagram: &mut Segment,
    ) -> Verdict {
        let passes = match behaviour {
            Behaviour::BlockUdp => false,
            Behaviour::LimitUdp => {
                self.limits[usize::from(way == Way::Up)].take(now, datagram.ip.len() as u64)
            }
            Behaviour::DropZeroRtt => !has(datagram, PacketType::ZeroRtt),
            // A datagram that also has a Handshake packet ends the handshake, and is not held.
            Behaviour::DelayInitial
                if way == Way::Up
                    && has(datagram, PacketType::Initial)
                    && !has(datagram, PacketType::Handshake) =>
            {
                return Verdict::Hold(now + INITIAL_HELD);
            }
            Behaviour::DropLargeUdp => {
                let begins = way == Way::Up && has(datagram, PacketType::Initial);
                self.passes_as_first(flow, way, begins)
            }
            Behaviour::Rebind => {
                self.rebind(now, way, flow, datagram);
                true
            }
            _ => true,
        };
        if passes { Verdict::Pass } else { DROP }
    }

    /// Returns true if [`Behaviour::DropLargeUdp`] forwards a datagram. `begins` is true for a client's
    /// datagram with an Initial packet: only a flow's first such datagram passes until the host answers.
    fn passes_as_first(&mut self, flow: FlowKey, way: Way, begins: bool) -> bool {
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

    fn rebind(&mut self, now: Nanos, way: Way, (mut client, host): FlowKey, datagram: &mut Segment) {
        let changes = match way {
            Way::Up => {
                let since = *self.flows.entry((client, host)).or_insert(now);
                now.saturating_sub(since) >= REBOUND_AFTER
            }
            Way::Down => {
                client.set_port(rebound(client.port()));
                self.flows.contains_key(&(client, host))
            }
        };
        if changes {
            change_client_port(datagram, way);
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
