//! Installs queueing disciplines on an interface: the kernel's own emulation of a link (rtnetlink,
//! `include/uapi/linux/pkt_sched.h`).

use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};

use crate::netlink::{Answer, attribute, number, payloads, text, word, words};
use crate::route::RouteSocket;
use crate::{Doing, Operation, Result};

/// A queueing discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say it")]
pub enum Qdisc {
    /// `tbf` (token bucket filter): sends at `byte_per_s`, in bursts of up to `burst_bytes`, and drops
    /// packets beyond a queue of `limit_bytes`.
    Tbf {
        byte_per_s: u64,
        /// Size of the bucket: bytes that may be sent at once; at least one packet.
        burst_bytes: u32,
        limit_bytes: u32,
    },
    /// `codel`: drops packets that wait too long (with the constants of RFC 8289) or find a full queue.
    Codel { limit_packets: u32 },
    /// `fq_codel` without ECN: serves 1024 flow queues in turn, and applies codel to each (constants of RFC
    /// 8290). If more than `limit_packets` packets wait, it drops from the longest queue.
    FqCodel {
        limit_packets: u32,
        /// Bytes that a flow may send in one turn.
        quantum_bytes: u32,
    },
    /// `netem`: loses packets at random, sends the rest one after another at a rate, and delays them.
    Netem {
        /// Time from the end of a packet's transmission to its delivery.
        delay_ns: u64,
        /// Rate in bytes per second; None for no limit.
        byte_per_s: Option<u64>,
        /// Probability that a packet is lost, in units of 1/(2^32 - 1).
        loss: u32,
        /// Seed of the kernel's random numbers for losses (Linux 6.6 and newer).
        seed: u64,
    },
}

/// Counters of a queueing discipline since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QdiscStats {
    /// Packets that were sent or are waiting.
    pub packets: u64,
    /// Bytes of the packets that were sent or are waiting.
    pub bytes: u64,
    /// Packets dropped for any reason.
    pub dropped: u64,
}

/// Correction of each packet's length in bytes: the emulated link does not count the 14-byte Ethernet header.
const OVERHEAD: i32 = -14;
/// Packet limit of `netem`: more packets than any emulated link holds.
const NETEM_LIMIT: u32 = 10_000_000;

// Constants of include/uapi/linux/pkt_sched.h and rtnetlink.h.
const TC_H_ROOT: u32 = u32::MAX;
const TCA_STAB_BASE: u16 = 1;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_CODEL_LIMIT: u16 = 2;
const TCA_FQ_CODEL_LIMIT: u16 = 2;
const TCA_FQ_CODEL_ECN: u16 = 4;
const TCA_FQ_CODEL_QUANTUM: u16 = 6;
const TCA_FQ_CODEL_DROP_BATCH_SIZE: u16 = 8;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_PRNG_SEED: u16 = 14;
const TC_LINKLAYER_ETHERNET: u8 = 1;
// Constants of gen_stats.h.
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
// Size of `struct tcmsg`, and the offsets of its fields `tcm_ifindex` and `tcm_handle`, in bytes.
const MESSAGE_BYTES: usize = 20;
const INDEX: usize = 4;
const HANDLE: usize = 8;

impl RouteSocket {
    /// Installs queueing disciplines on the output of `interface`, each as the parent of the next. Only
    /// [`Qdisc::Netem`] and [`Qdisc::Tbf`] can be parents. Packet sizes exclude the Ethernet header. Fails
    /// with ENOENT if the kernel lacks a discipline, and with EEXIST if the interface already has one.
    pub fn add_qdiscs(&mut self, interface: &str, chain: &[Qdisc]) -> Result<()> {
        let index = self.index(interface)?;
        for (major, qdisc) in (1..).zip(chain) {
            let parent = if major == 1 { TC_H_ROOT } else { handle(major - 1, 1) };
            let mut message = header(index, handle(major, 0), parent);
            message.extend(text(libc::TCA_KIND, qdisc.kind()));
            message.extend(attribute(libc::TCA_OPTIONS, qdisc.options()));
            if major == 1 {
                message.extend(attribute(libc::TCA_STAB, size_table()));
            }
            self.ask(libc::RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, &[message])
                .operation(|| Operation::AddQdisc { kind: qdisc.kind(), interface: interface.to_owned() })?;
        }
        Ok(())
    }

    /// Removes the queueing disciplines of `interface` and drops all waiting packets. Afterwards the
    /// interface sends packets immediately. Fails with ENOENT if the interface has no disciplines.
    pub fn delete_qdiscs(&mut self, interface: &str) -> Result<()> {
        let message = header(self.index(interface)?, handle(1, 0), TC_H_ROOT);
        self.ask(libc::RTM_DELQDISC, 0, &[message])
            .doing(|| format!("taking the queueing disciplines off {interface}"))
    }

    /// Returns the counters of each queueing discipline of `interface`, from the root to its last child.
    pub fn qdisc_stats(&mut self, interface: &str) -> Result<Vec<QdiscStats>> {
        let index = self.index(interface)?;
        let answers = self
            .netlink
            .exchange(libc::RTM_GETQDISC, NLM_F_DUMP, &[header(index, 0, 0)])
            .doing(|| format!("reading the queueing disciplines of {interface}"))?;
        let mut stats: Vec<_> = answers
            .iter()
            .filter(|answer| answer.kind == libc::RTM_NEWQDISC && word(&answer.payload, INDEX) == Some(index))
            .filter_map(|answer| Some((word(&answer.payload, HANDLE)? >> 16, counted(answer))))
            .filter(|(major, _)| *major > 0)
            .collect();
        stats.sort_by_key(|(major, _)| *major);
        Ok(stats.into_iter().map(|(_, stats)| stats).collect())
    }
}

/// Returns the handle of a discipline (`minor` 0), or of one of its classes (`TC_H_MAKE`).
fn handle(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

/// Encodes the header (`struct tcmsg`) of a request about a queueing discipline of interface number `index`.
fn header(index: u32, handle: u32, parent: u32) -> Vec<u8> {
    // One word for tcm_family and padding, then tcm_ifindex, tcm_handle, tcm_parent and tcm_info.
    words([0, index, handle, parent, 0])
}

fn counted(answer: &Answer) -> QdiscStats {
    let mut stats = QdiscStats::default();
    let attributes = answer.payload.get(MESSAGE_BYTES..).unwrap_or_default();
    for all in payloads(attributes, libc::TCA_STATS2) {
        // `struct gnet_stats_basic`: bytes, packets.
        for basic in payloads(all, TCA_STATS_BASIC) {
            stats.bytes += basic.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            stats.packets += u64::from(word(basic, 8).unwrap_or(0));
        }
        // `struct gnet_stats_queue`: qlen, backlog, drops.
        for queue in payloads(all, TCA_STATS_QUEUE) {
            let [waiting, backlog, drops] =
                [0, 4, 8].map(|offset| u64::from(word(queue, offset).unwrap_or(0)));
            stats.packets += waiting;
            stats.bytes += backlog;
            stats.dropped += drops;
        }
    }
    stats
}

impl Qdisc {
    fn kind(&self) -> &'static str {
        match self {
            Self::Tbf { .. } => "tbf",
            Self::Codel { .. } => "codel",
            Self::FqCodel { .. } => "fq_codel",
            Self::Netem { .. } => "netem",
        }
    }

    /// Encodes the parameters of this queueing discipline as a netlink payload (`TCA_OPTIONS`).
    fn options(&self) -> Vec<u8> {
        match *self {
            Self::Tbf { byte_per_s, burst_bytes, limit_bytes } => {
                // `struct tc_tbf_qopt`: rate, peak rate (none), limit, and buffer and MTU (0, because
                // `TCA_TBF_BURST` replaces the buffer and only a peak rate needs the MTU).
                let parameters = [rate_spec(byte_per_s), rate_spec(0), words([limit_bytes, 0, 0])].concat();
                let mut options = attribute(TCA_TBF_PARMS, parameters);
                options.extend(attribute(TCA_TBF_RATE64, byte_per_s.to_ne_bytes()));
                options.extend(number(TCA_TBF_BURST, burst_bytes));
                options
            }
            Self::Codel { limit_packets } => number(TCA_CODEL_LIMIT, limit_packets),
            Self::FqCodel { limit_packets, quantum_bytes } => [
                number(TCA_FQ_CODEL_LIMIT, limit_packets),
                number(TCA_FQ_CODEL_ECN, 0),
                number(TCA_FQ_CODEL_QUANTUM, quantum_bytes),
                // A full queue drops one packet for each new packet, instead of up to 64 at once.
                number(TCA_FQ_CODEL_DROP_BATCH_SIZE, 1),
            ]
            .concat(),
            Self::Netem { delay_ns, byte_per_s, loss, seed } => {
                // `struct tc_netem_qopt`: latency (0, because an attribute sets it), limit, loss, gap,
                // duplicate, jitter.
                let mut options = words([0, NETEM_LIMIT, loss, 0, 0, 0]);
                options.extend(attribute(TCA_NETEM_LATENCY64, delay_ns.to_ne_bytes()));
                if let Some(rate) = byte_per_s {
                    options.extend(attribute(TCA_NETEM_RATE64, rate.to_ne_bytes()));
                    // `struct tc_netem_rate`: `rate`, `packet_overhead` (0, because the size table already
                    // subtracts the Ethernet header), `cell_size`, `cell_overhead`.
                    options.extend(attribute(TCA_NETEM_RATE, words([rate_32(rate), 0, 0, 0])));
                }
                options.extend(attribute(TCA_NETEM_PRNG_SEED, seed.to_ne_bytes()));
                options
            }
        }
    }
}

/// Returns a `struct tc_ratespec`: `cell_log`, `linklayer`, `overhead`, `cell_align`, `mpu`, `rate`.
fn rate_spec(byte_per_s: u64) -> Vec<u8> {
    let layer = if byte_per_s > 0 { TC_LINKLAYER_ETHERNET } else { 0 };
    [vec![0, layer, 0, 0, 0, 0, 0, 0], words([rate_32(byte_per_s)])].concat()
}

/// Returns a rate in 32 bits, capped at `u32::MAX`. The kernel also gets the 64-bit rate, and prefers it.
fn rate_32(byte_per_s: u64) -> u32 {
    u32::try_from(byte_per_s).unwrap_or(u32::MAX)
}

/// Returns the payload of `TCA_STAB`: a `struct tc_sizespec` without a table, which only subtracts the
/// Ethernet header from each packet's length.
fn size_table() -> Vec<u8> {
    // One word for cell_log, size_log and cell_align, then overhead, linklayer, mpu, mtu and tsize.
    attribute(TCA_STAB_BASE, words([0, OVERHEAD as u32, TC_LINKLAYER_ETHERNET.into(), 0, 0, 0]))
}
