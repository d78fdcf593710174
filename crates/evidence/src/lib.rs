//! Decides if a load is valid: compares the observations of client, origins and both kernels with the load's
//! expectation. The rules are pure functions.

/// Adds a reason why a load is invalid to a list: its kind, and a formatted text for people.
macro_rules! invalid {
    ($reasons:expr, $kind:ident, $($detail:tt)+) => {
        $reasons.push(fastopen_contract::Invalid {
            kind: fastopen_contract::InvalidKind::$kind,
            detail: format!($($detail)+),
        })
    };
}

mod expectation;
mod first_bytes;
mod lookups;
mod path;
mod quic;
mod server;
pub mod transactions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use fastopen_link::ip::{Addresses, Version};
use fastopen_link::path::PathRule;
use fastopen_page::Schemes;

use self::lookups::is_resolver;

pub use self::expectation::{EarlyData, Expectation, FastOpen, SynData};
use fastopen_contract::{
    Bodies, BothEnds, Cached, ConnectionRecord, Cookies, EndEvidence, GivenUpRecord, Invalid, InvalidKind,
    Job, LinkRecord, LookupRecord, RequestRecord, SeenAt, ServerRecord, TlsRecord,
};

/// The job of a load, and everything that was observed during the load, to compare with its [`Expectation`].
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Observations<'a> {
    pub job: &'a Job,
    /// The hosts of the page with their addresses.
    pub hosts: &'a BTreeMap<String, Addresses>,
    /// The addresses of hosts whose TFO cookies the client had when the load began.
    pub cookies_before: &'a [IpAddr],
    pub requests: &'a [RequestRecord],
    pub connections: &'a [ConnectionRecord],
    pub lookups: &'a [LookupRecord],
    /// The reason why the load did not finish; `None` if the load finished.
    pub unfinished: Option<&'a str>,
    /// Growth of the kernels' counters during the load.
    pub counters: &'a BothEnds<BTreeMap<String, i64>>,
    pub link: &'a LinkRecord,
    /// The middlebox and the hosts behind it.
    pub path: &'a PathRule,
    /// The kernel's data on the external server; `None` without such a server.
    pub server: Option<&'a ServerRecord>,
    /// The reason why the external server no longer serves; `None` if the server serves.
    pub server_failure: Option<&'a str>,
    pub seen_at: SeenAt,
    /// The schemes of the page's URLs in this load.
    pub schemes: Schemes,
}

/// Linux's first timeout for a SYN, `TCP_TIMEOUT_INIT`, in microseconds.
const SYN_TIMEOUT_US: u64 = 1_000_000;

/// Returns all reasons why the load is invalid. The list is empty for a valid load.
pub fn judge(observed: &Observations, expected: Expectation) -> Vec<Invalid> {
    let mut reasons = Vec::new();
    observed.server(expected, &mut reasons);
    observed.completeness(&mut reasons);
    observed.black_holes(expected, &mut reasons);
    observed.counters(expected, &mut reasons);
    let without_queue = reasons.iter().any(|one| one.kind == InvalidKind::NoListenerQueue);
    match expected.fast_open {
        None => observed.no_fast_open(&mut reasons),
        // A listener without a queue sends no cookies and accepts no SYN data.
        Some(_) if without_queue => {}
        Some(FastOpen { cookies_before, syn_data }) => {
            match cookies_before {
                Cookies::Cold => observed.no_cookies(&mut reasons),
                Cookies::Warm => observed.cookies_of_all_hosts(&mut reasons),
            }
            observed.path_effects(syn_data, &mut reasons);
            match syn_data {
                SynData::EveryConnection => observed.syn_data_everywhere(&mut reasons),
                SynData::AfterCookie => observed.syn_data_after_cookie(&mut reasons),
            }
        }
    }
    observed.blocked_packets(&mut reasons);
    observed.quic_packets(&mut reasons);
    observed.sessions(expected, &mut reasons);
    observed.first_bytes(&mut reasons);
    observed.link_delays(&mut reasons);
    observed.name_lookups(&mut reasons);
    reasons
}

/// Counts the connections that the client aborted in `SYN_SENT`. The client's kernel deleted them before the
/// SYN-ACK arrived, so only the origin's evidence shows if their SYN data was accepted.
pub fn given_up(connections: &[ConnectionRecord]) -> GivenUpRecord {
    let given_up = || connections.iter().filter(|one| is_given_up(one));
    let with_data = given_up().filter(|one| one.origin.is_some_and(|end| end.syn_data_acked));
    GivenUpRecord { connections: given_up().count(), syn_data: with_data.count() }
}

fn is_given_up(connection: &ConnectionRecord) -> bool {
    let unanswered = connection.client.is_some_and(|end| end.segments_out > 0 && end.segments_in == 0);
    unanswered && connection.requests == 0
}

/// The counters that grow only if Fast Open is used.
pub const FASTOPEN_COUNTERS: [&str; 6] = [
    "TCPFastOpenActive",
    "TCPFastOpenActiveFail",
    "TCPFastOpenPassive",
    "TCPFastOpenPassiveFail",
    "TCPFastOpenCookieReqd",
    "TCPFastOpenListenOverflow",
];

/// Bytes of the TCP header, and of the space that the kernel reserves for TCP options in a SYN with data
/// (`tcp_send_syn_data`, `MAX_TCP_OPTION_SPACE`).
const HEADER_AND_SYN_OPTIONS: u64 = 20 + 40;

/// Bytes of a TCP header with time stamps.
const HEADER_AND_TIME_STAMPS: u64 = 32;

/// Bytes between a client's `ClientHello` and the end of its early data, without the early data itself: a
/// `change_cipher_spec` record, and the header, content type and AEAD tag of the record with the early data
/// (RFC 8446 sections 5.1, 5.2 and D.4).
const BESIDE_EARLY_DATA: u64 = 6 + 5 + 1 + 16;

impl Observations<'_> {
    /// Returns the longest time in microseconds by which the link may release a packet late.
    fn late_us(&self) -> u64 {
        self.job.tolerance.late_us_at(self.job.network.rtt_us)
    }

    fn completeness(&self, reasons: &mut Vec<Invalid>) {
        let name = |request: &RequestRecord| self.job.page.resources[request.resource].url.as_str();
        // The scripts of a recorded page decide on requests themselves, and may cancel them.
        let recorded = self.job.origins.bodies == Bodies::Recorded;
        let needed = self.requests.iter().filter(|request| !recorded || request.resource == 0);
        let mut failed = needed.filter_map(|request| Some((request, request.error.as_ref()?)));
        if let Some((request, error)) = failed.next() {
            let more = failed.count();
            let others = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            invalid!(reasons, Incomplete, "{}: {error}{others}", name(request));
        } else if let Some(why) = self.unfinished {
            match self.connections.iter().find(|one| self.kept_from_ipv4(one)) {
                None => invalid!(reasons, Incomplete, "{why}"),
                Some(one) => invalid!(
                    reasons,
                    Incomplete,
                    "{why}; {} did not answer over IPv6, and the client did not try IPv4: with a TFO cookie, \
                     connect(2) succeeds at once",
                    one.host
                ),
            }
        } else if self.requests.is_empty() {
            invalid!(reasons, Incomplete, "the client requested nothing of the page");
        }
        for request in self.requests.iter().filter(|one| one.error.is_none() && one.end_ns.is_some()) {
            let resource = &self.job.page.resources[request.resource];
            let bodiless = resource.method == "HEAD" || matches!(resource.status, 204 | 304);
            let (status, wanted) = match request.cache {
                Some(Cached::Revalidated) => (304, 0),
                // The response came from the cache, and no byte over the network.
                Some(Cached::Fresh) => (resource.status, 0),
                Some(Cached::Shared) => (resource.status, request.body_bytes.min(resource.body_bytes)),
                None if bodiless => (resource.status, 0),
                None => (resource.status, resource.body_bytes),
            };
            if request.body_bytes != wanted || request.status != Some(status) {
                let (name, came) = (name(request), request.status.unwrap_or(0));
                let bytes = request.body_bytes;
                invalid!(
                    reasons,
                    WrongBytes,
                    "{name}: status {came} and {bytes} bytes instead of {status} and {wanted}"
                );
            }
        }
    }

    /// Compares each kernel's counters with its sockets, and both ends with each other. The SYN data of
    /// aborted connections is an exception: only the origin's kernel counts it.
    fn counters(&self, expected: Expectation, reasons: &mut Vec<Invalid>) {
        let (client, origins) = (&self.counters.client, &self.without_upstream());
        let overflows =
            grown(origins, "TCPFastOpenListenOverflow") + grown(client, "TCPFastOpenListenOverflow");
        if overflows != 0 {
            invalid!(
                reasons,
                ListenOverflow,
                "{overflows} connections found the origins' Fast Open queue full (TCPFastOpenListenOverflow)"
            );
        }
        let refused = grown(origins, "TCPFastOpenPassiveFail") + grown(client, "TCPFastOpenPassiveFail");
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

    /// Counts the connections for which `is_of_kind` returns true.
    fn count(&self, is_of_kind: impl Fn(&ConnectionRecord) -> bool) -> i64 {
        self.connections.iter().filter(|one| is_of_kind(one)).count() as i64
    }

    /// Counts the connections whose SYN data was acknowledged, according to the evidence that `end` selects.
    fn with_syn_data(&self, end: impl Fn(&ConnectionRecord) -> Option<EndEvidence>) -> i64 {
        self.count(|one| end(one).is_some_and(|end| end.syn_data_acked))
    }

    fn lost_packets(&self) -> u64 {
        let LinkRecord { down, up } = self.link;
        [down, up].iter().map(|way| way.dropped_loss + way.dropped_queue + u64::from(way.overruns)).sum()
    }

    /// Returns the number of TCP connections that may have retransmitted a SYN after a timeout; 0 if a SYN
    /// and its SYN-ACK cannot take as long as the timeout. Linux retransmits the SYN without data and counts
    /// a failure. Both ends may then disagree on whether the SYN carried data.
    fn timed_out_syns(&self) -> i64 {
        let queued = [(&self.job.network.down, &self.link.down), (&self.job.network.up, &self.link.up)]
            .map(|(way, seen)| way.longest_queue_us(seen.queue_bytes_max));
        let furthest = self.job.network.host_extra_rtt_us.values().max().copied().unwrap_or(0);
        let explained = match queued {
            [Some(down), Some(up)] => {
                let rtt_us =
                    (self.job.network.rtt_us + furthest).max(self.job.network.resolver_rtt_us.unwrap_or(0));
                rtt_us + down + up >= SYN_TIMEOUT_US
            }
            _ => true,
        };
        if explained { self.count(|one| one.quic.is_none() && retransmitted(one)) } else { 0 }
    }

    fn no_fast_open(&self, reasons: &mut Vec<Invalid>) {
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

    fn no_cookies(&self, reasons: &mut Vec<Invalid>) {
        if !self.cookies_before.is_empty() {
            let held = self.cookies_before.len();
            invalid!(reasons, CookieBeforeCold, "the client held {held} cookies before its first connection");
        }
    }

    fn cookies_of_all_hosts(&self, reasons: &mut Vec<Invalid>) {
        let lacks = |addresses: &Addresses| addresses.iter().any(|one| !self.cookies_before.contains(&one));
        let missing: Vec<_> = self.hosts.iter().filter(|(_, addresses)| lacks(addresses)).collect();
        if let Some((first, _)) = missing.first() {
            let (missing, all) = (missing.len(), self.hosts.len());
            invalid!(reasons, NoCookieWhenWarm, "no cookie of {first} ({missing} of {all} hosts)");
        }
    }

    fn syn_data_everywhere(&self, reasons: &mut Vec<Invalid>) {
        let missing = self.connections.iter().filter(|one| is_missing_syn_data(one));
        let missing: Vec<_> = missing.filter(|one| !self.is_broken(one, SynData::EveryConnection)).collect();
        if let Some(ConnectionRecord { host, .. }) = missing.first() {
            let (missing, all) = (missing.len(), self.connections.len());
            invalid!(
                reasons,
                NoSynData,
                "{missing} of {all} connections carried no data in their SYN though nothing was lost, first \
                 the one to {host}"
            );
        }
    }

    /// Checks that connections to an address carry no SYN data before the first complete handshake, which may
    /// bring a cookie. Connections that open after a handshake without retransmissions must carry SYN data. A
    /// retransmitted SYN requests no cookie, and a retransmitted SYN-ACK contains no cookie.
    fn syn_data_after_cookie(&self, reasons: &mut Vec<Invalid>) {
        // A cookie belongs to an address, and hosts may share an address.
        let mut asked: BTreeSet<Option<IpAddr>> = BTreeSet::new();
        let mut cookie_at: BTreeMap<Option<IpAddr>, u64> = BTreeMap::new();
        for connection in self.connections_by_opening() {
            let host = connection.host.as_str();
            let address = self.address(connection);
            if connection.client.is_some_and(|end| end.syn_data_acked) && !asked.contains(&address) {
                invalid!(reasons, CookieBeforeCold, "the first connection to {host} carried data in its SYN");
            }
            if self.is_broken(connection, SynData::AfterCookie) {
                continue;
            }
            let cookie_held = cookie_at.get(&address).is_some_and(|at| connection.opened_ns > *at);
            if cookie_held && is_missing_syn_data(connection) {
                invalid!(
                    reasons,
                    NoSynData,
                    "a connection to {host} carried none although the cookie was there"
                );
            }
            let Some(connected) = connection.connected_ns.filter(|_| connection.handshake_us.is_some())
            else {
                continue;
            };
            asked.insert(address);
            if !retransmitted(connection) {
                let earliest = cookie_at.entry(address).or_insert(connected);
                *earliest = (*earliest).min(connected);
            }
        }
    }

    /// Checks the TLS sessions of the connections to each host. Both ends must agree on resumption, and at
    /// least as many connections must resume a session as the client had tickets. If early data is expected,
    /// resumed connections with a safe first request must send it. Resumption and early data must not happen
    /// if they are not expected.
    fn sessions(&self, expected: Expectation, reasons: &mut Vec<Invalid>) {
        let mut of_host: BTreeMap<&str, Vec<(&ConnectionRecord, &TlsRecord)>> = BTreeMap::new();
        for connection in &self.connections_by_opening() {
            // Leave out connections that fell back to TCP: the earlier visit left tickets for QUIC.
            if let Some(tls) = connection.tls.as_ref().filter(|_| !self.fell_back(connection)) {
                of_host.entry(&connection.host).or_default().push((connection, tls));
            }
        }
        for (host, connections) in of_host {
            if let Some((_, tls)) = connections.iter().find(|(_, tls)| tls.disagrees()) {
                let who = if tls.resumed { "client" } else { "origin" };
                invalid!(
                    reasons,
                    NotResumed,
                    "only the {who} reports that a connection to {host} resumed a session"
                );
            }
            // If the first connection lost its SYN, a later connection may get tickets earlier.
            let first = connections.iter().min_by_key(|(_, tls)| tls.secured_ns);
            let resumed_first = first.is_some_and(|(_, tls)| tls.resumed);
            if expected.tickets_before == 0 && resumed_first {
                invalid!(reasons, SessionBeforeFirst, "the first connection to {host} resumed a session");
            }
            // A connection that the client closed during its handshake may have used a ticket.
            let of_it = self.connections.iter().filter(|one| one.host == host);
            let unfinished = of_it.filter(|one| one.tls.is_none() && one.requests == 0);
            let due = usize::from(expected.tickets_before).saturating_sub(unfinished.count());
            let resumed = connections.iter().filter(|(_, tls)| tls.resumed).count();
            if resumed < due.min(connections.len()) {
                let all = connections.len();
                invalid!(
                    reasons,
                    NotResumed,
                    "{resumed} of {all} connections to {host} resumed a session, for which the client had \
                     {due} tickets"
                );
            }
            if expected.early_data != EarlyData::Accepted {
                let rejected = expected.early_data != EarlyData::None;
                let unasked = |connection: &ConnectionRecord, tls: &TlsRecord| {
                    let packets = if rejected { 0 } else { zero_rtt_packets(connection) };
                    (tls.early_bytes > 0 || tls.seen_early() > 0 || packets > 0).then_some(packets)
                };
                // Later connections may use tickets that the first connection received.
                let of_load = expected.early_data == EarlyData::OfThisLoad;
                let mut judged = connections
                    .iter()
                    .filter(|one| !of_load || first.is_some_and(|first| one.0.id == first.0.id));
                let found = judged.find_map(|(one, tls)| Some((tls, unasked(one, tls)?)));
                if let Some((tls, packets)) = found {
                    let bytes = tls.early_bytes.max(tls.seen_early());
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
                continue;
            }
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
                    "of {able} connections to {host} {started} began with early data that the origin read \
                     before the handshake was complete, of {with_ticket} with a ticket"
                );
            }
            let late_ns = self.late_us() * 1000;
            let held = able.iter().filter(|(_, tls)| tls.seen_early() > 0);
            let held = held.filter_map(|(_, tls)| tls.origin.as_ref()).map(|origin| origin.answer_held_ns);
            if let Some(held_ns) = held.max().filter(|held_ns| *held_ns > late_ns) {
                let held_ms = held_ns as f64 / 1e6;
                invalid!(
                    reasons,
                    AnswerHeld,
                    "{host} held the answer to early data for {held_ms:.1} ms, until the handshake was \
                     complete"
                );
            }
        }
    }

    /// Returns the address of the connection's host; `None` if the page does not have the host.
    fn address(&self, connection: &ConnectionRecord) -> Option<IpAddr> {
        self.hosts.get(&connection.host).map(|one| connection.address.unwrap_or(one.preferred))
    }

    fn connections_by_opening(&self) -> Vec<&ConnectionRecord> {
        let mut connections: Vec<_> = self.connections.iter().collect();
        connections.sort_by_key(|connection| connection.opened_ns);
        connections
    }

    /// Returns the first recorded request of a connection; `None` if none of its requests is recorded.
    fn first_request(&self, connection: &ConnectionRecord) -> Option<&RequestRecord> {
        let of_connection = self.requests.iter().filter(|one| one.connection == Some(connection.id));
        of_connection.min_by_key(|one| (one.sent_ns.is_none(), one.sent_ns, one.connect_start_ns.is_none()))
    }

    /// Returns true if a connection lost a packet, or may have lost one: external clients do not report
    /// losses of QUIC, so any loss on the link counts as a loss of their connections.
    fn lost_something(&self, connection: &ConnectionRecord) -> bool {
        retransmitted(connection) || connection.quic.is_some_and(|quic| quic.lost(self.lost_packets() > 0))
    }

    /// Returns true if the first request of a connection is known to be safe (RFC 9110 section 9.2.1). DNS
    /// queries are safe. If the connection carried a request that is not in the records, such as a CORS
    /// preflight, the first request is unknown and the result is false.
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

    /// Returns true if the first request was sent only after the handshake, so that there was no early data.
    /// This happens if a browser sends the request for which it opened the connection on another connection.
    fn begins_after_handshake(&self, connection: &ConnectionRecord, tls: &TlsRecord) -> bool {
        let sent_ns = self.first_request(connection).and_then(|first| first.sent_ns);
        sent_ns.is_some_and(|sent_ns| sent_ns > tls.secured_ns + self.late_us() * 1000)
    }

    /// Returns the largest number of bytes that an IP packet of the connection carries after its IP header.
    fn ip_payload(&self, connection: &ConnectionRecord) -> u64 {
        let version = self.address(connection).map_or(self.job.network.ip.preferred(), Version::of);
        u64::from(self.job.network.mtu_bytes) - version.header_bytes()
    }

    /// Returns the number of bytes of data that fit into the connection's SYN.
    fn syn_room(&self, connection: &ConnectionRecord) -> u64 {
        self.ip_payload(connection) - HEADER_AND_SYN_OPTIONS
    }

    /// Returns true if the early data ends in a later flight than the `ClientHello`. The origin then answers
    /// the `ClientHello` at once, and the rest arrives together with the client's Finished.
    fn early_data_comes_later(&self, connection: &ConnectionRecord, tls: &TlsRecord) -> bool {
        let end = tls.hello_bytes + BESIDE_EARLY_DATA + tls.early_bytes;
        tls.early_bytes > 0 && self.flight_of(connection, end) > self.flight_of(connection, tls.hello_bytes)
    }

    /// Returns the number of the flight that completes the client's first `bytes` bytes. The SYN is flight 0.
    fn flight_of(&self, connection: &ConnectionRecord, bytes: u64) -> u64 {
        let segment = self.ip_payload(connection) - HEADER_AND_TIME_STAMPS;
        let in_syn = connection.client.is_some_and(|client| client.syn_data_acked);
        let after_syn = bytes.saturating_sub(if in_syn { self.syn_room(connection) } else { 0 });
        if after_syn == 0 { 0 } else { 1 + self.more_windows(after_syn, segment) }
    }

    /// Returns how many round trips `bytes` need after the initial window. The window doubles each time, but
    /// the receiver may delay the acknowledgment of the first flight's last segment (RFC 5681 section 4.2).
    fn more_windows(&self, bytes: u64, segment: u64) -> u64 {
        let mut sent = u64::from(self.job.tcp.initial_window_segments) * segment;
        let (mut window, mut more) = (2 * sent.saturating_sub(segment).max(segment), 0);
        while sent < bytes {
            sent += window;
            window *= 2;
            more += 1;
        }
        more
    }

    fn link_delays(&self, reasons: &mut Vec<Invalid>) {
        for (way, record) in [("down", &self.link.down), ("up", &self.link.up)] {
            if record.late_us_max > self.late_us() {
                let late_ms = record.late_us_max as f64 / 1000.0;
                invalid!(reasons, LinkLate, "a packet left the link {way} {late_ms:.1} ms later than due");
            }
            if record.overruns > 0 {
                let lost = record.overruns;
                invalid!(reasons, LinkLate, "{lost} packets {way} were lost before the link saw them");
            }
        }
    }
}

/// Returns the number of 0-RTT packets that the client sent or the origin received, whichever is larger.
fn zero_rtt_packets(connection: &ConnectionRecord) -> u64 {
    connection.quic.map_or(0, |quic| {
        quic.client.sent.zero_rtt.max(quic.origin.map_or(0, |origin| origin.received.zero_rtt))
    })
}

/// Returns true if both ends report early data, and over QUIC also 0-RTT packets. The origin must have read
/// the early data before the handshake was complete.
fn began_early(connection: &ConnectionRecord, tls: &TlsRecord) -> bool {
    let in_packets = connection.quic.is_none_or(|quic| {
        quic.client.sent.zero_rtt > 0 && quic.origin.is_some_and(|origin| origin.received.zero_rtt > 0)
    });
    tls.early_bytes > 0 && tls.seen_early() > 0 && in_packets
}

/// Returns true if a TCP connection with requests lost nothing, but no SYN data was acknowledged.
fn is_missing_syn_data(connection: &ConnectionRecord) -> bool {
    connection.requests > 0
        && connection.quic.is_none()
        && !connection.client.is_some_and(|end| end.syn_data_acked)
        && !retransmitted(connection)
}

fn retransmitted(connection: &ConnectionRecord) -> bool {
    [connection.client, connection.origin].iter().flatten().any(|end| end.retransmits > 0)
}

/// Returns the growth of a counter; 0 if the kernel has no such counter.
fn grown(counters: &BTreeMap<String, i64>, name: &str) -> i64 {
    counters.get(name).copied().unwrap_or(0)
}

/// Formats the number of events that the path explains, for the text of a reason; empty if the number is 0.
fn by_path(expected: &RangeInclusive<i64>) -> String {
    match (expected.start(), expected.end()) {
        (_, 0) => String::new(),
        (least, most) => format!(", {least} to {most} by the path"),
    }
}
