//! Decides for `fastopen-world` if a page load is a valid sample: compares the observations of client, origin
//! servers and both kernels with the evidence that the page load must show. The rules are pure functions.

macro_rules! invalid {
    ($reasons:expr, $kind:ident, $($detail:tt)+) => {
        $reasons.push(fastopen_contract::Invalid {
            kind: fastopen_contract::InvalidKind::$kind,
            detail: format!($($detail)+),
        })
    };
}

mod counters;
mod expectation;
mod first_bytes;
mod lookups;
mod path;
mod quic;
mod server;
mod sessions;
mod syn_data;
pub mod transactions;

use std::collections::BTreeMap;
use std::net::IpAddr;

use fastopen_contract::{
    Bodies, BothEnds, Cached, ConnectionRecord, Cookies, EndEvidence, Invalid, InvalidKind, Job, LinkRecord,
    LookupRecord, RequestRecord, SeenAt, ServerRecord,
};
use fastopen_link::ip::Addresses;
use fastopen_link::path::PathRule;
use fastopen_page::Schemes;

pub use self::counters::{FASTOPEN_COUNTERS, given_up};
pub use self::expectation::{EarlyData, Expectation, FastOpen, SynData};

/// The job of a page load, and everything that was observed, to compare with an [`Expectation`].
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Observations<'a> {
    pub job: &'a Job,
    pub hosts: &'a BTreeMap<String, Addresses>,
    /// The addresses of hosts whose TFO cookies the client had when the load began.
    pub cookies_before: &'a [IpAddr],
    pub requests: &'a [RequestRecord],
    pub connections: &'a [ConnectionRecord],
    pub lookups: &'a [LookupRecord],
    /// The reason why the load did not finish; `None` if the load finished.
    pub unfinished: Option<&'a str>,
    /// Growth of the counters of the client's and the origins' network namespaces during the page load.
    pub counters: &'a BothEnds<BTreeMap<String, i64>>,
    pub link: &'a LinkRecord,
    /// The rule of the network path: the behaviour of its middlebox, and the hosts behind this middlebox.
    pub path: &'a PathRule,
    /// Listeners of an external server (such as nginx), and its connections to origins; `None` without one.
    pub server: Option<&'a ServerRecord>,
    /// The reason why the external server no longer serves; `None` if the server serves.
    pub server_failure: Option<&'a str>,
    pub seen_at: SeenAt,
    /// The schemes (http or https) that the page's URLs have in this page load.
    pub schemes: Schemes,
}

/// Returns all reasons why the page load is not a valid sample. The list is empty for a valid page load.
pub fn judge(observed: &Observations, expected: Expectation) -> Vec<Invalid> {
    let mut reasons = Vec::new();
    observed.external_server(expected, &mut reasons);
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

impl Observations<'_> {
    /// Checks that no request failed, and that all responses have the status and size listed in the page. If
    /// the servers replay recorded responses, requests other than the one for the HTML document may fail.
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
            invalid!(reasons, Incomplete, "the client requested no resource of the page");
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

    fn count(&self, is_of_kind: impl Fn(&ConnectionRecord) -> bool) -> i64 {
        self.connections.iter().filter(|one| is_of_kind(one)).count() as i64
    }

    fn with_syn_data(&self, end: impl Fn(&ConnectionRecord) -> Option<EndEvidence>) -> i64 {
        self.count(|one| end(one).is_some_and(|end| end.syn_data_acked))
    }

    fn lost_packets(&self) -> u64 {
        let LinkRecord { down, up } = self.link;
        [down, up].iter().map(|way| way.dropped_loss + way.dropped_queue + u64::from(way.overruns)).sum()
    }

    /// Returns the address of a connection's server; `None` if the connection's host is not on the page.
    fn address(&self, connection: &ConnectionRecord) -> Option<IpAddr> {
        self.hosts.get(&connection.host).map(|one| connection.address.unwrap_or(one.preferred))
    }

    fn connections_by_opening(&self) -> Vec<&ConnectionRecord> {
        let mut connections: Vec<_> = self.connections.iter().collect();
        connections.sort_by_key(|connection| connection.opened_ns);
        connections
    }

    /// Returns the first request on a connection; `None` if no request of the connection is recorded.
    fn first_request(&self, connection: &ConnectionRecord) -> Option<&RequestRecord> {
        let of_connection = self.requests.iter().filter(|one| one.connection == Some(connection.id));
        of_connection.min_by_key(|one| (one.sent_ns.is_none(), one.sent_ns, one.connect_start_ns.is_none()))
    }

    /// Returns true if the connection may have lost a packet. If an end of a QUIC connection does not report
    /// its losses, any packet loss on the link counts.
    fn lost_something(&self, connection: &ConnectionRecord) -> bool {
        retransmitted(connection) || connection.quic.is_some_and(|quic| quic.lost(self.lost_packets() > 0))
    }

    fn link_delays(&self, reasons: &mut Vec<Invalid>) {
        for (way, record) in [("down", &self.link.down), ("up", &self.link.up)] {
            if record.late_us_max > self.job.late_us() {
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

fn retransmitted(connection: &ConnectionRecord) -> bool {
    [connection.client, connection.origin].iter().flatten().any(|end| end.retransmits > 0)
}

/// Returns how much the kernel's counter `name` grew during the load; 0 if the kernel has no such counter.
fn grown(counters: &BTreeMap<String, i64>, name: &str) -> i64 {
    counters.get(name).copied().unwrap_or(0)
}
