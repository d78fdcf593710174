//! Counts QUIC packets at the client's interface, because external clients do not report such counts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use fastopen_link::ip;
use fastopen_netns::Result;
use fastopen_netns::clock::{monotonic_ns, realtime_ns};
use fastopen_netns::packet::{ETHERNET_HEADER, Tap};
use fastopen_replay::quic::packets::PacketCounts;
use fastopen_replay::sockets::FourTuple;

use crate::capture::frames;
use crate::contract::{Job, QuicEnd};
use crate::network::topology::Topology;

const UDP_HEADER: usize = 8;

/// A packet tap at the client's interface, which counts the packets of each QUIC connection of a page load.
pub struct ClientTap {
    tap: RefCell<Tap>,
    seen: RefCell<BTreeMap<FourTuple, Passed>>,
}

/// Packet counts of one QUIC connection, and the time of its first datagram.
#[derive(Debug, Clone, Copy, Default)]
pub struct Passed {
    /// The time of the connection's first datagram, in nanoseconds of the monotonic clock.
    pub first_ns: u64,
    sent: PacketCounts,
    received: PacketCounts,
}

impl From<Passed> for QuicEnd {
    fn from(Passed { sent, received, .. }: Passed) -> Self {
        Self { sent, received, lost_packets: None, rtt_us: None }
    }
}

impl ClientTap {
    /// Returns true if QUIC packets must be counted: a host uses QUIC, and the client is an external program.
    pub fn is_needed(job: &Job) -> bool {
        job.client.kind.capabilities().is_foreign && job.quic().is_some()
    }

    pub fn start(job: &Job, topology: &Topology) -> Result<Self> {
        Ok(Self {
            tap: RefCell::new(Topology::tap(&topology.client, frames(job))?),
            seen: RefCell::default(),
        })
    }

    /// Discards all packets and counts so far. Call this when a page load begins.
    pub fn begin_load(&self) {
        self.tap.borrow_mut().clear();
        self.seen.borrow_mut().clear();
    }

    /// Returns the packet counts of each connection since the page load began.
    pub fn seen(&self) -> BTreeMap<FourTuple, Passed> {
        let mut seen = self.seen.borrow_mut();
        let offset = monotonic_ns() as i64 - realtime_ns() as i64;
        self.tap.borrow_mut().take_each(|unix_ns, outgoing, frame| {
            let Some((four_tuple, datagram)) = datagram(frame, outgoing) else { return };
            let first_ns = (unix_ns as i64 + offset).max(0) as u64;
            let passed = seen.entry(four_tuple).or_insert(Passed { first_ns, ..Passed::default() });
            let counts = if outgoing { &mut passed.sent } else { &mut passed.received };
            counts.count(datagram);
        });
        seen.clone()
    }
}

/// Returns the four-tuple and the payload of the UDP datagram in a frame; None for other frames.
fn datagram(frame: &[u8], outgoing: bool) -> Option<(FourTuple, &[u8])> {
    let packet = frame.get(ETHERNET_HEADER..)?;
    let header = ip::Header::of(packet).filter(|header| header.protocol == ip::UDP)?;
    let segment = packet.get(header.bytes..)?;
    let two = |at: usize| Some(u16::from_be_bytes(*segment.get(at..)?.first_chunk()?));
    let from = SocketAddr::new(header.source, two(0)?);
    let to = SocketAddr::new(header.destination, two(2)?);
    let (client, origin) = if outgoing { (from, to) } else { (to, from) };
    // Short frames are padded, so the frame may be longer than the datagram.
    let bytes = segment.get(UDP_HEADER..usize::from(two(4)?).min(segment.len()))?;
    Some((FourTuple { client, origin }, bytes))
}

#[cfg(test)]
#[path = "../../tests/unit/client_tap.rs"]
mod tests;
