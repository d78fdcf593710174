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
#[path = "../../tests/unit/flow_queues.rs"]
mod tests;
