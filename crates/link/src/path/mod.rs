//! Models middleboxes that break TCP Fast Open, large `ClientHello`s or QUIC. They are deterministic: their
//! decision on a packet depends only on the time, the packet, its direction and earlier packets.
//!
//! The middlebox stands between the access link and the hosts. Packets from the client pass the link's queue
//! first; packets from the hosts pass the middlebox first. See `docs/paths.md` for the effects on Linux.

mod hello;
mod udp;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::draws::Draws;
use crate::ip::{self, Header};
use crate::stage::{Datagram, Downstream, Packet, Stage, Verdict};
use crate::{DropCause, Nanos};

use hello::Hellos;
use udp::Datagrams;
pub use udp::rebound;

/// The effect of a middlebox on TCP Fast Open (RFC 7413), TLS `ClientHello`s, UDP and QUIC, or IPv6. The Fast
/// Open option has kind 34, or kind 254 with the magic number of RFC 7413's appendix A.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// The middlebox has no effect.
    #[default]
    None,
    /// Drops SYNs with data.
    DropSynData,
    /// Drops SYNs with the Fast Open option.
    DropOption,
    /// Drops SYN-ACKs with the Fast Open option.
    DropSynackOption,
    /// Removes the Fast Open option from SYNs.
    StripOption,
    /// Removes the data from SYNs.
    StripData,
    /// Removes the Fast Open option and the data from SYNs.
    StripBoth,
    /// Removes the Fast Open option from SYN-ACKs.
    StripSynackOption,
    /// Changes the cookies in SYNs, so that servers reject them.
    BreakCookie,
    /// Answers SYNs that have data with a RST.
    RstSynData,
    /// Drops the SYN-ACKs of flows whose SYN had data.
    DropSynack,
    /// Once a server has accepted the data in a SYN, drops the server's packets of the flow, except SYN-ACKs.
    DropAnswers,
    /// Drops each segment of a TLS `ClientHello` that does not fit into one segment. Forwards SYNs.
    DropSplitHello,
    /// Sends a RST for each segment of a TLS `ClientHello` that does not fit into one segment. Forwards SYNs.
    RstSplitHello,
    /// Drops the second segment of a TLS `ClientHello` once, so that the client must retransmit it.
    StallSecondSegment,
    /// Drops all UDP datagrams.
    BlockUdp,
    /// Drops the UDP datagrams that exceed 1 Mbit/s. Each direction has its own limit.
    LimitUdp,
    /// Drops datagrams with QUIC 0-RTT packets.
    #[serde(rename = "drop-0rtt")]
    DropZeroRtt,
    /// Holds a client's datagrams with Initial packets for 10 ms, so that later 0-RTT packets overtake them.
    DelayInitial,
    /// Changes the client's port of a UDP flow after 0.5 s, like a NAT that has lost its mapping.
    Rebind,
    /// Drops a client's QUIC Initial packets, except a flow's first datagram, until the host answers.
    DropLargeUdp,
    /// Drops all TCP segments and UDP datagrams over IPv6.
    BlockIpv6,
}

/// The behaviour of a middlebox, and the hosts behind the middlebox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathRule {
    /// The behaviour of the middlebox.
    pub behaviour: Behaviour,
    /// The addresses of the hosts behind the middlebox; `None` if all hosts are behind it.
    pub hosts: Option<BTreeSet<IpAddr>>,
}

impl PathRule {
    /// Returns true if the middlebox has an effect on packets to and from this address of a host.
    pub fn affects(&self, host: IpAddr) -> bool {
        let effective = match self.behaviour {
            Behaviour::None => false,
            Behaviour::BlockIpv6 => host.is_ipv6(),
            _ => true,
        };
        effective && self.hosts.as_ref().is_none_or(|hosts| hosts.contains(&host))
    }
}

/// Returns an endless iterator with a value for each host: true if it is behind the middlebox. Each value is
/// independently true with probability `share` (0 to 1). With the same seed, a larger share only adds hosts.
pub fn drawn_hosts(share: f64, seed: u64) -> impl Iterator<Item = bool> {
    let mut draws = Draws::new(share, seed);
    std::iter::repeat_with(move || draws.draw())
}

/// A direction of the access link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From the hosts to the client.
    Down,
    /// From the client to the hosts.
    Up,
}

const DROP: Verdict = Verdict::Drop(DropCause::Path);

/// The addresses and ports of a flow: the client's, then the host's.
type FlowKey = (SocketAddr, SocketAddr);

/// The state of a flow whose SYN had data.
#[derive(Debug, Default)]
struct Flow {
    /// Acknowledgement number of a SYN-ACK that acknowledges only the SYN, not its data.
    after_syn: u32,
    accepted: bool,
}

/// The middlebox: its rule, and the state of flows that the rule needs.
#[derive(Debug, Default)]
pub struct Middlebox {
    rule: PathRule,
    flows: BTreeMap<FlowKey, Flow>,
    hellos: Hellos,
    datagrams: Datagrams,
}

impl Middlebox {
    /// Creates a middlebox that has seen no packets.
    pub fn new(rule: PathRule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Applies the middlebox's [`Behaviour`] to an IP packet, and returns the decision on the packet. Updates
    /// the checksums of a changed packet, and the length in the header of a shortened packet. `now` must not
    /// decrease between calls.
    pub fn pass(&mut self, now: Nanos, way: Way, ip: &mut [u8]) -> Verdict {
        let Some(mut segment) = Segment::of(ip) else { return Verdict::Pass };
        let flow = segment.flow(way);
        if !self.rule.affects(flow.1.ip()) {
            return Verdict::Pass;
        }
        match self.rule.behaviour {
            Behaviour::BlockIpv6 => DROP,
            behaviour if segment.header.protocol == ip::UDP => {
                self.datagrams.pass(now, behaviour, way, flow, &mut segment)
            }
            _ if way == Way::Down => self.pass_down(flow, &mut segment),
            behaviour @ (Behaviour::DropSplitHello
            | Behaviour::RstSplitHello
            | Behaviour::StallSecondSegment) => self.hellos.pass(behaviour, flow, &mut segment),
            _ if segment.flags() & (SYN | ACK) == SYN => self.pass_syn(flow, &mut segment),
            _ => Verdict::Pass,
        }
    }

    fn pass_syn(&mut self, flow: FlowKey, syn: &mut Segment) -> Verdict {
        let with_data = syn.payload_bytes() > 0;
        match self.rule.behaviour {
            Behaviour::DropSynData if with_data => return DROP,
            Behaviour::DropOption if syn.fast_open_option().is_some() => return DROP,
            Behaviour::RstSynData if with_data => {
                syn.reset();
                return Verdict::Answer;
            }
            Behaviour::StripOption => syn.strip_option(),
            Behaviour::StripData => syn.strip_payload(),
            Behaviour::StripBoth => {
                syn.strip_option();
                syn.strip_payload();
            }
            Behaviour::BreakCookie => syn.break_cookie(),
            Behaviour::DropSynack | Behaviour::DropAnswers if with_data => {
                let after_syn = syn.sequence_number().wrapping_add(1);
                self.flows.insert(flow, Flow { after_syn, accepted: false });
            }
            _ => {}
        }
        syn.finish();
        Verdict::Pass
    }

    fn pass_down(&mut self, flow: FlowKey, segment: &mut Segment) -> Verdict {
        let synack = segment.flags() & (SYN | ACK) == SYN | ACK;
        match (self.rule.behaviour, self.flows.get_mut(&flow)) {
            (Behaviour::StripSynackOption, _) if synack => segment.strip_option(),
            (Behaviour::DropSynackOption, _) if synack && segment.fast_open_option().is_some() => {
                return DROP;
            }
            (Behaviour::DropSynack, Some(_)) if synack => return DROP,
            (Behaviour::DropAnswers, Some(flow)) if synack => {
                flow.accepted |= segment.acknowledgement_number() != flow.after_syn;
            }
            (Behaviour::DropAnswers, Some(flow)) if flow.accepted => return DROP,
            _ => {}
        }
        segment.finish();
        Verdict::Pass
    }
}

const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
// Kinds of the Fast Open option and of the experimental option, and the latter's magic number (RFC 7413).
const OPTION_FAST_OPEN: u8 = 34;
const OPTION_EXPERIMENT: u8 = 254;
const EXPERIMENT_FAST_OPEN: [u8; 2] = [0xf9, 0x89];

/// A TCP segment (RFC 9293 section 3.1) or a UDP datagram (RFC 768) in an unfragmented IP packet.
struct Segment<'a> {
    ip: &'a mut [u8],
    header: Header,
    /// Offset of the TCP or UDP header.
    start: usize,
    /// Offset of the payload.
    payload: usize,
    /// True if [`Segment::finish`] must update the length and the checksums.
    changed: bool,
}

impl<'a> Segment<'a> {
    fn of(ip: &'a mut [u8]) -> Option<Self> {
        let header = Header::of(ip).filter(|header| !header.fragment)?;
        let start = header.bytes;
        let (least, bytes) = match header.protocol {
            ip::TCP => (TCP_HEADER, usize::from(*ip.get(start + 12)? >> 4) * 4),
            ip::UDP => (UDP_HEADER, UDP_HEADER),
            _ => return None,
        };
        let payload = start + bytes;
        let whole = bytes >= least && payload <= ip.len();
        whole.then_some(Self { ip, header, start, payload, changed: false })
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.ip[at], self.ip[at + 1]])
    }

    fn number(&self, at: usize) -> u32 {
        (u32::from(self.word(at)) << 16) | u32::from(self.word(at + 2))
    }

    fn flow(&self, way: Way) -> FlowKey {
        let source = SocketAddr::new(self.header.source, self.word(self.start));
        let destination = SocketAddr::new(self.header.destination, self.word(self.start + 2));
        if way == Way::Up { (source, destination) } else { (destination, source) }
    }

    fn flags(&self) -> u8 {
        self.ip[self.start + 13]
    }

    fn sequence_number(&self) -> u32 {
        self.number(self.start + 4)
    }

    fn acknowledgement_number(&self) -> u32 {
        self.number(self.start + 8)
    }

    fn payload_bytes(&self) -> usize {
        self.ip.len() - self.payload
    }

    /// Returns the offsets of the Fast Open option's start, end and cookie; `None` without the option.
    fn fast_open_option(&self) -> Option<(usize, usize, usize)> {
        let mut at = self.start + TCP_HEADER;
        while at + 1 < self.payload && self.ip[at] != OPTION_END {
            if self.ip[at] == OPTION_NOP {
                at += 1;
                continue;
            }
            let end = at + usize::from(self.ip[at + 1]);
            if end < at + 2 || end > self.payload {
                return None;
            }
            match self.ip[at] {
                OPTION_FAST_OPEN => return Some((at, end, at + 2)),
                OPTION_EXPERIMENT if self.ip[at + 2..end].starts_with(&EXPERIMENT_FAST_OPEN) => {
                    return Some((at, end, at + 4));
                }
                _ => at = end,
            }
        }
        None
    }

    fn strip_option(&mut self) {
        if let Some((start, end, _)) = self.fast_open_option() {
            self.rewrite(start, end, |_| OPTION_NOP);
        }
    }

    fn break_cookie(&mut self) {
        if let Some((_, end, cookie)) = self.fast_open_option() {
            self.rewrite(cookie, end, |byte| !byte);
        }
    }

    /// Applies `change` to the TCP header's bytes `start..end`. Updates the checksum (RFC 1624, equation 3).
    fn rewrite(&mut self, start: usize, end: usize, change: impl Fn(u8) -> u8) {
        let mut grown = 0;
        for (at, byte) in (start..).zip(&mut self.ip[start..end]) {
            let new = change(*byte);
            let by = i32::from(new) - i32::from(*byte);
            // The header starts at an even offset, so even offsets are high bytes.
            grown += if at % 2 == 0 { by << 8 } else { by };
            *byte = new;
        }
        let at = self.start + 16;
        let sum = i32::from(!self.word(at)) + grown;
        self.ip[at..at + 2].copy_from_slice(&(!(sum.rem_euclid(0xffff) as u16)).to_be_bytes());
    }

    fn strip_payload(&mut self) {
        if self.payload_bytes() > 0 {
            self.shorten(self.payload);
        }
    }

    fn shorten(&mut self, bytes: usize) {
        let ip = std::mem::take(&mut self.ip);
        self.ip = &mut ip[..bytes];
        self.changed = true;
    }

    /// Turns this segment into the RST that a closed port would send in reply (RFC 9293 section 3.10.7.1).
    fn reset(&mut self) {
        let (sequence, acknowledged, flags) = match self.flags() & ACK {
            0 => (0, self.sequence_number().wrapping_add(1), RST | ACK),
            _ => (self.acknowledgement_number(), 0, RST),
        };
        ip::swap_addresses(self.ip);
        for byte in 0..2 {
            self.ip.swap(self.start + byte, self.start + 2 + byte);
        }
        let header = &mut self.ip[self.start + 4..self.start + TCP_HEADER];
        header.fill(0);
        header[..4].copy_from_slice(&sequence.to_be_bytes());
        header[4..8].copy_from_slice(&acknowledged.to_be_bytes());
        header[8] = (TCP_HEADER as u8 / 4) << 4;
        header[9] = flags;
        self.payload = self.start + TCP_HEADER;
        self.shorten(self.payload);
        self.finish();
    }

    /// Updates the length and checksums if the length changed.
    fn finish(&mut self) {
        if self.changed {
            ip::set_length(self.ip);
            ip::sum_transport(self.ip, ip::TCP, self.start, self.start + 16);
        }
    }
}

/// A middlebox as a stage of one direction. Both directions of a link share the middlebox.
pub(crate) struct Crossing<P> {
    middlebox: Arc<Mutex<Middlebox>>,
    pub(crate) way: Way,
    /// Release time of the packet that `offer` last decided to delay. The next call of `keep` reads it.
    until: Nanos,
    /// Delayed packets with their release times, in the order of release.
    held: VecDeque<(Nanos, Packet<P>)>,
}

impl<P> Crossing<P> {
    pub(crate) fn new(middlebox: &Arc<Mutex<Middlebox>>, way: Way) -> Self {
        Self { middlebox: middlebox.clone(), way, until: 0, held: VecDeque::new() }
    }
}

impl<P: Datagram> Stage<P> for Crossing<P> {
    fn offer(&mut self, now: Nanos, packet: &mut Packet<P>, _: &mut Downstream<P>) -> Verdict {
        let mut middlebox = self.middlebox.lock().unwrap_or_else(PoisonError::into_inner);
        let ip = packet.payload.ip();
        let verdict = middlebox.pass(now, self.way, ip);
        match verdict {
            // The middlebox may have shortened the packet.
            Verdict::Pass => {
                let length = ip::length(ip).map_or(packet.bytes, |bytes| bytes as u32);
                packet.bytes = packet.bytes.min(length);
            }
            Verdict::Hold(until) => {
                self.until = until;
                return Verdict::Keep;
            }
            _ => {}
        }
        verdict
    }

    fn keep(&mut self, _: Nanos, packet: Packet<P>, _: &mut Downstream<P>) {
        self.held.push_back((self.until, packet));
    }

    fn next_due(&mut self, _: &mut Downstream<P>) -> Option<Nanos> {
        self.held.front().map(|(until, _)| *until)
    }

    fn release(&mut self, _: Nanos, _: &mut Downstream<P>) -> Option<Packet<P>> {
        self.held.pop_front().map(|(_, packet)| packet)
    }
}
