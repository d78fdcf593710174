//! Checks that resumed TLS sessions and early data are consistent with the session tickets of the client.

use std::collections::BTreeMap;

use fastopen_contract::{ConnectionRecord, Invalid, TlsRecord};

use super::lookups::is_resolver;
use super::{EarlyData, Expectation, Observations};

/// A connection with a complete TLS handshake, and the record of the handshake.
type Secured<'a> = (&'a ConnectionRecord, &'a TlsRecord);

impl Observations<'_> {
    pub(super) fn sessions(&self, expected: Expectation, reasons: &mut Vec<Invalid>) {
        let mut of_host: BTreeMap<&str, Vec<Secured>> = BTreeMap::new();
        for connection in &self.connections_by_opening() {
            // Leave out connections that fell back to TCP: the earlier visit left tickets for QUIC.
            if let Some(tls) = connection.tls.as_ref().filter(|_| !self.fell_back(connection)) {
                of_host.entry(&connection.host).or_default().push((connection, tls));
            }
        }
        for (host, connections) in of_host {
            // A connection that the client closed during its handshake may have used a ticket.
            let of_it = self.connections.iter().filter(|one| one.host == host);
            let unfinished = of_it.filter(|one| one.tls.is_none() && one.requests == 0);
            let due = usize::from(expected.tickets_before).saturating_sub(unfinished.count());
            resumption(host, &connections, expected, due, reasons);
            match expected.early_data {
                EarlyData::Accepted => self.early_data(host, &connections, due, reasons),
                other => no_early_data(host, &connections, other, reasons),
            }
        }
    }

    /// Checks that connections with a session ticket and a safe first request sent early data, and that the
    /// host answered before the handshake was complete. `due` is the number of tickets for the host.
    fn early_data(&self, host: &str, connections: &[Secured], due: usize, reasons: &mut Vec<Invalid>) {
        // After a packet loss, early data may arrive only at the end of the handshake.
        let (able, others): (Vec<_>, Vec<_>) = connections.iter().partition(|(connection, tls)| {
            !self.lost_something(connection)
                && self.begins_safely(connection)
                && !self.begins_after_handshake(connection, tls)
                && !self.early_data_comes_later(connection, tls)
        });
        let used = others.iter().filter(|(_, tls)| tls.resumed).count();
        let started = able.iter().filter(|(one, tls)| began_early(one, tls)).count();
        let with_ticket = able.iter().filter(|(_, tls)| tls.resumed).count();
        let with_ticket = due.saturating_sub(used).min(able.len()).max(with_ticket);
        if started < with_ticket {
            let able = able.len();
            invalid!(
                reasons,
                NoEarlyData,
                "{started} of {able} connections to {host} began with early data that the origin read before \
                 the handshake was complete, but {with_ticket} had a ticket"
            );
        }
        let late_ns = self.job.late_us() * 1000;
        let held = able.iter().filter(|(_, tls)| tls.seen_early() > 0);
        let held = held.filter_map(|(_, tls)| tls.origin.as_ref()).map(|origin| origin.answer_held_ns);
        if let Some(held_ns) = held.max().filter(|held_ns| *held_ns > late_ns) {
            let held_ms = held_ns as f64 / 1e6;
            invalid!(
                reasons,
                AnswerHeld,
                "{host} held the answer to early data for {held_ms:.1} ms, until the handshake was complete"
            );
        }
    }

    /// Returns true if a connection's first request is known to be safe (RFC 9110 section 9.2.1). The first
    /// request is unknown if the records lack a request of the connection, such as a CORS preflight.
    fn begins_safely(&self, connection: &ConnectionRecord) -> bool {
        if is_resolver(connection) {
            return true;
        }
        let recorded = self.requests.iter().filter(|one| one.connection == Some(connection.id));
        if recorded.count() < connection.requests {
            return false;
        }
        let first =
            self.first_request(connection).map(|first| &self.job.page.resources[first.resource].method);
        first.is_some_and(|method| matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE"))
    }

    fn begins_after_handshake(&self, connection: &ConnectionRecord, tls: &TlsRecord) -> bool {
        // A browser may open a connection for a request that it then sends on another connection.
        let sent_ns = self.first_request(connection).and_then(|first| first.sent_ns);
        sent_ns.is_some_and(|sent_ns| sent_ns > tls.secured_ns + self.job.late_us() * 1000)
    }
}

/// Checks that client and origin agree on which connections resumed a session. With `due` tickets for `host`,
/// at least `due` connections, or all if fewer, must resume a session. Without tickets, the first must not.
fn resumption(host: &str, all: &[Secured], expected: Expectation, due: usize, reasons: &mut Vec<Invalid>) {
    let disagrees = |tls: &TlsRecord| tls.origin.as_ref().is_some_and(|origin| origin.resumed != tls.resumed);
    if let Some((_, tls)) = all.iter().find(|(_, tls)| disagrees(tls)) {
        let who = if tls.resumed { "client" } else { "origin" };
        invalid!(reasons, NotResumed, "only the {who} reports that a connection to {host} resumed a session");
    }
    if expected.tickets_before == 0 && first_secured(all).is_some_and(|(_, tls)| tls.resumed) {
        invalid!(reasons, SessionBeforeFirst, "the first connection to {host} resumed a session");
    }
    let resumed = all.iter().filter(|(_, tls)| tls.resumed).count();
    if resumed < due.min(all.len()) {
        let number = all.len();
        invalid!(
            reasons,
            NotResumed,
            "{resumed} of {number} connections to {host} resumed a session, for which the client had {due} \
             tickets"
        );
    }
}

/// Checks that `host` accepted no early data. With [`EarlyData::None`], the client must not even have sent
/// any. With [`EarlyData::OfThisLoad`], this checks only the first connection.
fn no_early_data(host: &str, connections: &[Secured], expected: EarlyData, reasons: &mut Vec<Invalid>) {
    // Later connections may use tickets that the first connection received.
    let first = first_secured(connections).filter(|_| expected == EarlyData::OfThisLoad);
    let judged = first.as_ref().map_or(connections, std::slice::from_ref);
    let found = judged.iter().find_map(|(connection, tls)| {
        let packets = if expected == EarlyData::None { zero_rtt_packets(connection) } else { 0 };
        let bytes = tls.early_bytes.max(tls.seen_early());
        (bytes > 0 || packets > 0).then_some((bytes, packets))
    });
    if let Some((bytes, packets)) = found {
        let packets = match packets {
            0 => String::new(),
            some => format!(" in {some} 0-RTT packets"),
        };
        invalid!(
            reasons,
            EarlyDataUnasked,
            "a connection to {host} carried {bytes} bytes of early data{packets}"
        );
    }
}

/// Returns the connection whose TLS handshake ended first, which may not be the one that was opened first.
fn first_secured<'a>(connections: &[Secured<'a>]) -> Option<Secured<'a>> {
    connections.iter().min_by_key(|(_, tls)| tls.secured_ns).copied()
}

fn zero_rtt_packets(connection: &ConnectionRecord) -> u64 {
    connection.quic.map_or(0, |quic| {
        quic.client.sent.zero_rtt.max(quic.origin.map_or(0, |origin| origin.received.zero_rtt))
    })
}

fn began_early(connection: &ConnectionRecord, tls: &TlsRecord) -> bool {
    let in_packets = connection.quic.is_none_or(|quic| {
        quic.client.sent.zero_rtt > 0 && quic.origin.is_some_and(|origin| origin.received.zero_rtt > 0)
    });
    tls.early_bytes > 0 && tls.seen_early() > 0 && in_packets
}
