//! Emulates the link with the kernel: two routers with the access link between them.
//!
//! ```text
//!  client ── near router ───────────── far router ── origins
//!            queue of the uplink  ──►   ◄── queue of the downlink
//!            ◄── wire of the downlink   wire of the uplink ──►
//! ```
//! In each direction, the first router has the queue (`tbf`). It sends one packet early, so that the wire is
//! never idle. The second router emulates the wire (`netem`): it sends packets at the exact rate, then delays
//! them. One queueing discipline cannot do both: the limit of `netem` counts queued and delayed packets
//! together, and `tbf` does not delay a short packet after a pause. Active queue management (AQM) is a child
//! of `tbf`. A packet leaves the AQM earlier than with a real wire, by the time to send at most two packets.

use fastopen_link::{Aqm, DirectionConfig, Rate};
use fastopen_netns::Result;
use fastopen_netns::qdisc::{Qdisc, QdiscStats};
use fastopen_netns::route::RouteSocket;

use crate::contract::{LinkDirectionRecord, LinkRecord};
use crate::network::link_config::LinkConfig;

/// Time in nanoseconds by which the token bucket may send early: its burst is a packet and the bytes that the
/// link sends in this time. The time exceeds the clock's resolution, so the token bucket never sends late.
const AHEAD_NS: u64 = 20_000;

/// The interface through which a router sends, and its queueing disciplines.
pub struct Egress {
    routes: RouteSocket,
    interface: &'static str,
    disciplines: Vec<Qdisc>,
}

impl Egress {
    pub fn new(routes: RouteSocket, interface: &'static str) -> Self {
        Self { routes, interface, disciplines: Vec::new() }
    }

    fn replace(&mut self, new: Vec<Qdisc>) -> Result<()> {
        if !self.disciplines.is_empty() {
            self.routes.delete_qdiscs(self.interface)?;
            self.disciplines.clear();
        }
        self.routes.add_qdiscs(self.interface, &new)?;
        self.disciplines = new;
        Ok(())
    }

    fn stats(&mut self) -> Result<Vec<QdiscStats>> {
        let any = !self.disciplines.is_empty();
        if any { self.routes.qdisc_stats(self.interface) } else { Ok(Vec::new()) }
    }
}

/// The interfaces that emulate one direction of the link: one on each of the two routers.
pub struct RoutedPath {
    /// The first router's interface to the second router. Its disciplines limit or manage the queue.
    pub queue: Egress,
    /// The second router's interface to the receiver (client or origins). It emulates the rate and the delay.
    pub wire: Egress,
}

impl RoutedPath {
    fn configure(&mut self, config: &DirectionConfig, mtu_bytes: u32) -> Result<()> {
        let (queue, wire) = disciplines(config, mtu_bytes);
        self.queue.replace(queue)?;
        self.wire.replace(wire)
    }

    fn report(&mut self) -> Result<LinkDirectionRecord> {
        let (queue, wire) = (self.queue.stats()?, self.wire.stats()?);
        Ok(counted(&self.queue.disciplines, &queue, &wire))
    }
}

/// The two routers with which the kernel emulates the link.
pub struct Routers {
    pub down: RoutedPath,
    pub up: RoutedPath,
    pub mtu_bytes: u32,
}

impl Routers {
    pub fn configure(&mut self, config: &LinkConfig) -> Result<()> {
        self.down.configure(&config.down, self.mtu_bytes)?;
        self.up.configure(&config.up, self.mtu_bytes)
    }

    pub fn report(&mut self) -> Result<LinkRecord> {
        Ok(LinkRecord { down: self.down.report()?, up: self.up.report()? })
    }
}

/// Returns one direction's queueing disciplines at the first router (queue) and the second (rate and delay).
fn disciplines(config: &DirectionConfig, mtu_bytes: u32) -> (Vec<Qdisc>, Vec<Qdisc>) {
    let byte_per_s = match config.rate {
        Rate::BitPerS(rate) => Some(rate / 8),
        Rate::Unlimited | Rate::Trace(_) => None,
    };
    // As in the link model, lost packets take no room in the queue and no time on the wire.
    let loss = (config.loss * f64::from(u32::MAX)) as u32;
    let (seed, delay_ns) = (config.seed, config.delay);
    let limit = config.queue_limit_bytes;
    let mut queue = Vec::new();
    if let Some(byte_per_s) = byte_per_s.filter(|_| limit.is_some() || config.aqm != Aqm::None) {
        let burst_bytes = mtu_bytes + (byte_per_s * AHEAD_NS / 1_000_000_000).max(1) as u32;
        let limit_bytes = limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(u32::MAX);
        if loss > 0 {
            queue.push(Qdisc::Netem { delay_ns: 0, byte_per_s: None, loss, seed });
        }
        queue.push(Qdisc::Tbf { byte_per_s, burst_bytes, limit_bytes });
        // CoDel disciplines have a limit in packets: the number of full-size packets that fit into the queue.
        let limit_packets = (limit_bytes / mtu_bytes).max(1);
        match config.aqm {
            // DRR is available only in the link of this program.
            Aqm::None | Aqm::Drr => {}
            Aqm::CoDel => queue.push(Qdisc::Codel { limit_packets }),
            Aqm::FqCodel => queue.push(Qdisc::FqCodel { limit_packets, quantum_bytes: mtu_bytes }),
        }
    }
    let loss = if queue.is_empty() { loss } else { 0 };
    (queue, vec![Qdisc::Netem { delay_ns, byte_per_s, loss, seed }])
}

/// Returns the packet counts of one direction. `queue` contains the statistics of the first router, whose
/// queueing disciplines are `in_queue`, and `wire` contains those of the second router.
fn counted(in_queue: &[Qdisc], queue: &[QdiscStats], wire: &[QdiscStats]) -> LinkDirectionRecord {
    let entry = queue.last().or(wire.first()).copied().unwrap_or_default();
    let dropped = |stats: &[QdiscStats], number: usize| stats.get(number).map_or(0, |stats| stats.dropped);
    // A discipline's count includes the drops of its child (`qdisc_tree_reduce_backlog`).
    let (dropped_loss, dropped_queue) = match in_queue {
        [] => (dropped(wire, 0), 0),
        [Qdisc::Netem { .. }, ..] => (dropped(queue, 0).saturating_sub(dropped(queue, 1)), dropped(queue, 1)),
        _ => (0, dropped(queue, 0)),
    };
    let QdiscStats { packets, bytes, .. } = entry;
    LinkDirectionRecord { packets, bytes, dropped_queue, dropped_loss, ..LinkDirectionRecord::default() }
}
