//! Compares Fast Open counters of each kernel with `TCP_INFO` of its sockets, and SYN data of both ends.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use fastopen_contract::{ConnectionCounts, ConnectionRecord, Invalid};

use super::{Expectation, Observations, grown, retransmitted};

/// Time in microseconds after which Linux first retransmits an unanswered SYN (`TCP_TIMEOUT_INIT`).
const SYN_TIMEOUT_US: u64 = 1_000_000;

/// The kernel's counters that grow only if Fast Open is used.
pub const FASTOPEN_COUNTERS: [&str; 6] = [
    "TCPFastOpenActive",
    "TCPFastOpenActiveFail",
    "TCPFastOpenPassive",
    "TCPFastOpenPassiveFail",
    "TCPFastOpenCookieReqd",
    "TCPFastOpenListenOverflow",
];

impl Observations<'_> {
    /// Adds a reason if Fast Open failed unexpectedly, if a kernel's counters contradict its sockets'
    /// `TCP_INFO`, or if client and origins disagree on SYN data. `expected` contains the planned use of TFO.
    pub(super) fn counters(&self, expected: Expectation, reasons: &mut Vec<Invalid>) {
        let (client, origins) = (&self.counters.client, &self.without_upstream());
        let at_both = |name| grown(origins, name) + grown(client, name);
        let overflows = at_both("TCPFastOpenListenOverflow");
        if overflows != 0 {
            invalid!(
                reasons,
                ListenOverflow,
                "{overflows} connections found the origins' Fast Open queue full (TCPFastOpenListenOverflow)"
            );
        }
        let refused = at_both("TCPFastOpenPassiveFail");
        let by_rule = self.refused_as_expected();
        if !by_rule.contains(&refused) {
            invalid!(
                reasons,
                FastopenFailed,
                "{refused} connections came with data in the SYN that was refused (TCPFastOpenPassiveFail{})",
                by_path(&by_rule)
            );
        }
        let timed_out = self.timed_out_syns();
        let lossy = self.lost_packets() > 0 || timed_out > 0;
        let failed = grown(client, "TCPFastOpenActiveFail");
        let by_rule = self.failed_as_expected(expected);
        if !(*by_rule.start()..=by_rule.end() + timed_out).contains(&failed) && self.lost_packets() == 0 {
            invalid!(
                reasons,
                FastopenFailed,
                "{failed} connections lost the data in their SYN on a link that lost nothing \
                 (TCPFastOpenActiveFail{})",
                by_path(&by_rule)
            );
        }
        let sockets = self.with_syn_data(|connection| connection.client);
        let origin_sockets = self.with_syn_data(|connection| connection.origin);
        let active = grown(client, "TCPFastOpenActive");
        let passive = grown(origins, "TCPFastOpenPassive");
        let (least, most) = self.accepted_without_data().into_inner();
        let given_up = given_up(self.connections).syn_data as i64;
        let ends_agree = sockets == origin_sockets - given_up - self.accepted_unanswered() || lossy;
        let passive_agree = (origin_sockets + least..=origin_sockets + most).contains(&passive);
        if sockets != active || !passive_agree || !ends_agree {
            let mut detail = format!(
                "data in the SYN: {sockets} client sockets, {origin_sockets} origin sockets, \
                 {active} by TCPFastOpenActive, {passive} by TCPFastOpenPassive"
            );
            if most > 0 {
                let _ = write!(detail, "; {least} to {most} accepted without their data");
            }
            if given_up > 0 {
                let _ = write!(detail, "; {given_up} of connections that were given up");
            }
            invalid!(reasons, CountersDisagree, "{detail}");
        }
    }

    /// Counts TCP connections that may have retransmitted a SYN; 0 if RTT plus queueing cannot reach 1 s.
    /// Linux retransmits a SYN without its data, so both ends may disagree on whether the SYN carried data.
    pub(super) fn timed_out_syns(&self) -> i64 {
        let queued = [(&self.job.network.down, &self.link.down), (&self.job.network.up, &self.link.up)]
            .map(|(way, seen)| way.longest_queue_us(seen.queue_bytes_max));
        let furthest = self.job.network.host_extra_rtt_us.values().max().copied().unwrap_or(0);
        let rtt_us = (self.job.network.rtt_us + furthest).max(self.job.network.resolver_rtt_us.unwrap_or(0));
        let explained = match queued {
            [Some(down), Some(up)] => rtt_us + down + up >= SYN_TIMEOUT_US,
            _ => true,
        };
        if explained { self.count(|one| one.quic.is_none() && retransmitted(one)) } else { 0 }
    }

    pub(super) fn no_fast_open(&self, reasons: &mut Vec<Invalid>) {
        let (client, origins) = (&self.counters.client, &self.without_upstream());
        for (end, counters) in [("client", client), ("origins", origins)] {
            for name in FASTOPEN_COUNTERS {
                if let Some(count) = counters.get(name).filter(|count| **count > 0) {
                    invalid!(reasons, SynDataWithoutTfo, "{name} of the {end} grew by {count}");
                }
            }
        }
        let with_data = self.with_syn_data(|connection| connection.client);
        if with_data > 0 {
            invalid!(reasons, SynDataWithoutTfo, "{with_data} connections carried data in their SYN");
        }
    }
}

/// Counts the unused connections that the client aborted before the SYN-ACK arrived, as browsers do with
/// surplus connections. Only `TCP_INFO` of the origin's socket shows if SYN data was accepted.
pub fn given_up(connections: &[ConnectionRecord]) -> ConnectionCounts {
    let given_up = || connections.iter().filter(|one| is_given_up(one));
    let with_data = given_up().filter(|one| one.origin.is_some_and(|end| end.syn_data_acked));
    ConnectionCounts { connections: given_up().count(), syn_data: with_data.count() }
}

pub(super) fn is_given_up(connection: &ConnectionRecord) -> bool {
    let unanswered = connection.client.is_some_and(|end| end.segments_out > 0 && end.segments_in == 0);
    unanswered && connection.requests == 0
}

pub(super) fn by_path(expected: &RangeInclusive<i64>) -> String {
    match (expected.start(), expected.end()) {
        (_, 0) => String::new(),
        (least, most) => format!(", {least} to {most} by the path"),
    }
}
