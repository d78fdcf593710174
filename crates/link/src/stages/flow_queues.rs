//! Queues for flows, served by deficit round-robin: FQ-CoDel (RFC 8290), or plain DRR (Shreedhar and
//! Varghese, SIGCOMM 1995) with a tail-drop limit for each queue.
//!
//! Terms and steps follow section 4 of RFC 8290. Constants follow its section 5.2: 1024 queues, and a quantum
//! of a full packet. A seeded hash of protocol, addresses and ports selects the queue of a flow. Instead of
//! an address, the hash uses a number: 0 for the first address seen, 1 for the next one, and so on. So the
//! client's address, which differs between page loads, does not decide which flows share a queue. DRR has
//! neither `CoDel` nor priority for new flows.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use super::aqm::ManagedQueue;
use super::codel::{CodelQueue, MAXPACKET};
use crate::ip::{self, Header};
use crate::stage::{Datagram, Packet};
use crate::{DropCause, Nanos, Stats};

const QUEUES: u64 = 1024;
/// Number of bytes that a queue may send in one turn.
const QUANTUM: i64 = MAXPACKET as i64;

/// The queue of all flows with the same hash.
struct FlowQueue<P> {
    queue: CodelQueue<P>,
    /// Number of bytes that the queue may still send in this turn.
    credits: i64,
    /// True while the queue is on the list `new` or `old`.
    active: bool,
}

pub(super) struct FlowQueues<P> {
    /// True for FQ-CoDel, which manages the queues with `CoDel`; false for DRR.
    managed: bool,
    flows: BTreeMap<u64, FlowQueue<P>>,
    /// Indices of queues that have just become non-empty, served before those in `old`. DRR uses only `old`.
    new: VecDeque<u64>,
    old: VecDeque<u64>,
    bytes: u64,
    hash: FlowHash,
}

impl<P> FlowQueues<P> {
    pub(super) fn new(managed: bool, seed: u64) -> Self {
        let (new, old) = (VecDeque::new(), VecDeque::new());
        let hash = FlowHash { seed, addresses: BTreeMap::new() };
        Self { managed, flows: BTreeMap::new(), new, old, bytes: 0, hash }
    }
}

impl<P: Datagram> ManagedQueue<P> for FlowQueues<P> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn enqueue(&mut self, now: Nanos, mut packet: Packet<P>, limit_bytes: u64, stats: &mut Stats) {
        let number = self.hash.of(packet.payload.ip()) % QUEUES;
        let flow = self.flows.entry(number).or_insert_with(|| FlowQueue {
            queue: CodelQueue::default(),
            credits: 0,
            active: false,
        });
        if !self.managed && flow.queue.bytes() + u64::from(packet.bytes) > limit_bytes {
            stats.count_drop(DropCause::Queue, packet.bytes);
            return;
        }
        self.bytes += u64::from(packet.bytes);
        flow.queue.push(now, packet);
        if !flow.active {
            (flow.active, flow.credits) = (true, QUANTUM);
            if self.managed { &mut self.new } else { &mut self.old }.push_back(number);
        }
        while self.managed && self.bytes > limit_bytes {
            let longest = self.flows.values_mut().max_by_key(|flow| flow.queue.bytes());
            let (_, dropped) = longest.and_then(|flow| flow.queue.pop()).expect("a queue has bytes");
            self.bytes -= u64::from(dropped.bytes);
            stats.count_drop(DropCause::Queue, dropped.bytes);
        }
    }

    fn dequeue(&mut self, now: Nanos, stats: &mut Stats) -> Option<Packet<P>> {
        loop {
            let of_new = !self.new.is_empty();
            let list = if of_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let flow = self.flows.get_mut(&number).expect("a list has numbers of queues");
            if flow.credits <= 0 {
                flow.credits += QUANTUM;
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let before = flow.queue.bytes();
            let packet = if self.managed {
                flow.queue.dequeue(now, self.bytes - before, stats)
            } else {
                flow.queue.pop().map(|(_, packet)| packet)
            };
            self.bytes -= before - flow.queue.bytes();
            if let Some(packet) = packet {
                flow.credits -= i64::from(packet.bytes);
                return Some(packet);
            }
            list.pop_front();
            // Move an empty new queue to the old queues. Otherwise a flow that sends a packet now and then
            // would always go first and starve the old queues (RFC 8290 section 4.2).
            if of_new {
                self.old.push_back(number);
            } else {
                flow.active = false;
            }
        }
    }
}

/// Computes the hash that selects a packet's queue. Two flows with the same hash share a queue.
struct FlowHash {
    seed: u64,
    /// The number of each address: 0 for the first address seen, 1 for the next one, and so on.
    addresses: BTreeMap<IpAddr, u32>,
}

impl FlowHash {
    /// Hashes the protocol, addresses and ports of an IP packet, with 0 for missing ports. All packets
    /// without a valid IP header have the same hash.
    fn of(&mut self, ip: &[u8]) -> u64 {
        let Some(header) = Header::of(ip) else { return mix(0, self.seed) };
        let has_ports = matches!(header.protocol, ip::TCP | ip::UDP) && !header.later_fragment;
        let ports = ip.get(header.bytes..).and_then(<[u8]>::first_chunk::<4>).filter(|_| has_ports);
        let mut key = [0; 16];
        key[0] = header.protocol;
        key[4..8].copy_from_slice(ports.unwrap_or(&[0; 4]));
        key[8..12].copy_from_slice(&self.number(header.source).to_be_bytes());
        key[12..].copy_from_slice(&self.number(header.destination).to_be_bytes());
        mix(u128::from_be_bytes(key), self.seed)
    }

    fn number(&mut self, address: IpAddr) -> u32 {
        let next = self.addresses.len() as u32;
        *self.addresses.entry(address).or_insert(next)
    }
}

/// Hashes `key` with two rounds of `SplitMix64`'s finaliser (Steele, Lea, Flood, OOPSLA 2014).
fn mix(key: u128, seed: u64) -> u64 {
    let round = |mut bits: u64| {
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    };
    round(round((key >> 64) as u64 ^ seed) ^ key as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, source_port: u16, fragment: u16) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1];
        ip[6..8].copy_from_slice(&fragment.to_be_bytes());
        ip.extend(source_port.to_be_bytes());
        ip.extend([0, 80, 1, 2, 3, 4]);
        ip
    }

    fn hash(seed: u64) -> FlowHash {
        FlowHash { seed, addresses: BTreeMap::new() }
    }

    #[test]
    fn a_flow_is_told_by_protocol_addresses_and_ports() {
        let mut hash = hash(1);
        let mut key = |protocol, port| hash.of(&packet(protocol, port, 0));
        assert_eq!(key(6, 1000), key(6, 1000));
        assert_ne!(key(6, 1000), key(6, 1001));
        assert_ne!(key(6, 1000), key(17, 1000));
        let mut other_host = packet(6, 1000, 0);
        other_host[19] = 2;
        assert_ne!(hash.of(&packet(6, 1000, 0)), hash.of(&other_host));
    }

    #[test]
    fn the_clients_address_does_not_decide_which_flows_share_a_queue() {
        let hashes = |client: u8| {
            let mut hash = hash(1);
            let hosts = (1..=3).map(|host| {
                let mut packet = packet(6, 1000, 0);
                (packet[15], packet[19]) = (client, host);
                hash.of(&packet)
            });
            hosts.collect::<Vec<_>>()
        };
        assert_eq!(hashes(7), hashes(8));
    }

    #[test]
    fn a_flow_of_ipv6_is_told_by_the_same_fields() {
        let mut hash = hash(1);
        let mut packet = |host: u8, port: u16, label: u8| {
            let mut ip = vec![0x60, 0, 0, label, 0, 20, 6, 64];
            ip.extend([[0; 15].as_slice(), &[1], &[0; 15], &[host]].concat());
            ip.extend(port.to_be_bytes());
            ip.extend([0, 80]);
            hash.of(&ip)
        };
        assert_eq!(packet(1, 1000, 0), packet(1, 1000, 7), "a flow label identifies no flow");
        assert_ne!(packet(1, 1000, 0), packet(2, 1000, 0));
        assert_ne!(packet(1, 1000, 0), packet(1, 1001, 0));
    }

    #[test]
    fn what_has_no_ports_is_a_flow_by_its_addresses() {
        let mut hash = hash(1);
        let mut of = |ip: &[u8]| hash.of(ip);
        assert_eq!(of(&packet(1, 1000, 0)), of(&packet(1, 2000, 0)));
        assert_eq!(of(&packet(6, 1000, 20)), of(&packet(6, 2000, 20)));
        assert_eq!(of(&packet(6, 1000, 0)[..20]), of(&packet(6, 2000, 0)[..20]));
        assert_eq!((of(&[]), of(&[0x60; 39])), (mix(0, 1), mix(0, 1)));
    }

    #[test]
    fn flows_are_spread_over_the_queues_and_a_seed_spreads_them_otherwise() {
        let queues = |seed| -> Vec<_> {
            let mut hash = hash(seed);
            (0..200).map(|port| hash.of(&packet(6, 1000 + port, 0)) % 1024).collect()
        };
        let different: std::collections::BTreeSet<_> = queues(1).into_iter().collect();
        // With 200 flows in 1024 queues, about 18 fewer queues than flows are expected.
        assert!((165..200).contains(&different.len()), "{}", different.len());
        assert_ne!(queues(1), queues(2));
    }
}
