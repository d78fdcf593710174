//! Captures the packets of a page load at the interfaces of the client and the origins, as a pcapng file.

pub mod client_tap;
pub mod pcapng;
pub mod tcp_trace;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use fastopen_link::ip::Addresses;
use fastopen_netns::Result;
use fastopen_netns::packet::Tap;
use fastopen_replay::tls::KeyLines;

use crate::capture::client_tap::ClientTap;
use crate::capture::pcapng::Interface;
use crate::contract::{Fault, Job};
use crate::failure::{Blame, Failure};
use crate::network::topology::Topology;

/// Minimum and maximum capacity, in frames, of a packet capture socket's buffer (8 MiB and 128 MiB).
const FRAMES: (u64, u64) = (4096, 65_536);
/// Capacity, in frames, of a packet capture socket's buffer in `fastopen shell` (32 MiB).
pub const SHELL_FRAMES: u32 = 16_384;
const FRAME_BYTES: u64 = 2048;

/// A pcapng file, and the number of packets that were dropped because buffers were full.
pub type Packets = (Vec<u8>, u32);

/// Packet taps at the interfaces of client and origins, and the secrets to decrypt the TLS connections.
pub struct Capture {
    client: RefCell<Tap>,
    origins: RefCell<Tap>,
    /// The collector to which the origins must write the secrets of their TLS connections.
    pub keys: Arc<KeyLines>,
}

impl Capture {
    /// Opens packet capture sockets at the client and the origins, each with a buffer for `frames` frames.
    pub fn start(frames: u32, topology: &Topology) -> Result<Self> {
        let tap = |end| Topology::tap(end, frames).map(RefCell::new);
        Ok(Self { client: tap(&topology.client)?, origins: tap(&topology.origins)?, keys: Arc::default() })
    }

    /// Discards earlier packets and TLS secrets. Call this when a page load begins.
    pub fn begin_load(&self) {
        self.client.borrow_mut().clear();
        self.origins.borrow_mut().clear();
        self.keys.take();
    }

    /// Returns a pcapng file of the packets captured at client and origins up to `unix_ns`, and the number of
    /// dropped packets. The file contains `comment`, and names for the addresses of `hosts` and `client`.
    pub fn end_load(
        &self,
        comment: &str,
        hosts: &BTreeMap<String, Addresses>,
        client: Addresses,
        unix_ns: u64,
    ) -> std::result::Result<Packets, Failure> {
        let interface = |tap: &RefCell<Tap>, name, description| {
            let (packets, dropped) =
                tap.borrow_mut().take(unix_ns).blame(Fault::Machine, "reading the packets of a load")?;
            Ok::<_, Failure>(Interface { name, description, packets, dropped })
        };
        let interfaces = [
            interface(&self.client, "client", "the client's end of the link")?,
            interface(&self.origins, "origins", "the origins' end of the link")?,
        ];
        let ends = hosts.iter().map(|(host, addresses)| (*addresses, host.as_str()));
        let ends = ends.chain([(client, "client")]);
        let names: Vec<_> =
            ends.flat_map(|(addresses, name)| addresses.iter().map(move |one| (one, name))).collect();
        let dropped = interfaces.iter().map(|interface| interface.dropped).sum();
        Ok((pcapng::file(comment, &names, &self.keys.take(), &interfaces, unix_ns), dropped))
    }
}

/// Returns the buffer capacity, in frames, that a tap needs for a page load: about twice the number of data
/// segments and ACKs, assuming one ACK for two segments.
pub fn frames(job: &Job) -> u32 {
    let segment_bytes = u64::from(job.network.mtu_bytes)
        .saturating_sub(job.network.ip.preferred().header_bytes() + 32)
        .max(1);
    let bytes: u64 = job
        .page
        .resources
        .iter()
        .map(|one| one.request_header_bytes + one.response_header_bytes + one.body_bytes)
        .fold(0, u64::saturating_add);
    let segments = bytes / segment_bytes + 16 * job.page.resources.len() as u64;
    (segments.saturating_mul(3)).clamp(FRAMES.0, FRAMES.1).next_multiple_of(32) as u32
}

/// Returns the maximum memory in bytes for a page load's packets. A capture needs the buffers of two sockets,
/// and the same amount for the pcapng file. Counting QUIC packets needs the buffer of one more socket.
pub fn memory_bytes(job: &Job) -> u64 {
    let taps = if job.packets { 4 } else { 0 } + u64::from(ClientTap::is_needed(job));
    taps * u64::from(frames(job)) * FRAME_BYTES
}
