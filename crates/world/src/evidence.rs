//! Whether a load's evidence fits its transport: pure rules over what the kernel said.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use fastopen_page::Page;

use crate::contract::{
    Cached, ConnectionRecord, Cookies, Invalid, InvalidKind, LinkRecord, LoadPlan, RequestRecord,
};

/// Everything that is known of a load when it is judged.
#[derive(Debug)]
pub struct Known<'a> {
    /// What was asked for.
    pub plan: &'a LoadPlan,
    /// The page.
    pub page: &'a Page,
    /// What was requested.
    pub requests: &'a [RequestRecord],
    /// On which connections.
    pub connections: &'a [ConnectionRecord],
    /// Growth of the client's counters.
    pub client: &'a BTreeMap<String, i64>,
    /// Growth of the origins' counters.
    pub origins: &'a BTreeMap<String, i64>,
    /// What crossed the link.
    pub link: &'a LinkRecord,
    /// Hosts of the page, and the address of each.
    pub hosts: &'a BTreeMap<String, Ipv4Addr>,
    /// The hosts that the client held a cookie of when the load began.
    pub cookies_before: &'a [Ipv4Addr],
    /// Why the load did not finish, if it did not.
    pub unfinished: Option<&'a str>,
    /// How late the link may release a packet, in microseconds.
    pub late_us: u64,
}

/// Every reason why the load does not count; none for a valid load.
pub fn judge(known: &Known) -> Vec<Invalid> {
    let mut reasons = Vec::new();
    known.completeness(&mut reasons);
    known.counters(&mut reasons);
    match (known.plan.transport.is_fast_open(), known.plan.cookies) {
        (false, _) => known.without_fastopen(&mut reasons),
        (true, Some(Cookies::Warm)) => known.with_warm_cookies(&mut reasons),
        (true, _) => known.with_cold_cookies(&mut reasons),
    }
    known.link(&mut reasons);
    reasons
}

/// The counters that grow only when Fast Open is at work.
const FASTOPEN_COUNTERS: [&str; 6] = [
    "TCPFastOpenActive",
    "TCPFastOpenActiveFail",
    "TCPFastOpenPassive",
    "TCPFastOpenPassiveFail",
    "TCPFastOpenCookieReqd",
    "TCPFastOpenListenOverflow",
];

impl Known<'_> {
    fn completeness(&self, reasons: &mut Vec<Invalid>) {
        let name = |request: &RequestRecord| self.page.resources[request.resource].url.as_str().to_owned();
        let mut failed = self.requests.iter().filter_map(|request| Some((request, request.error.as_ref()?)));
        if let Some((request, error)) = failed.next() {
            let more = failed.count();
            let others = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            reasons.push(invalid(InvalidKind::Incomplete, format!("{}: {error}{others}", name(request))));
        }
        if let Some(why) = self.unfinished.filter(|_| reasons.is_empty()) {
            reasons.push(invalid(InvalidKind::Incomplete, why.into()));
        }
        for request in
            self.requests.iter().filter(|request| request.error.is_none() && request.end_ns.is_some())
        {
            let resource = &self.page.resources[request.resource];
            let bodiless = resource.method == "HEAD" || matches!(resource.status, 204 | 304);
            let (status, wanted) = match request.cache {
                Some(Cached::Revalidated) => (304, 0),
                // No byte crossed the network.
                Some(Cached::Fresh) => (resource.status, 0),
                None if bodiless => (resource.status, 0),
                None => (resource.status, resource.body_bytes),
            };
            if request.body_bytes != wanted || request.status != Some(status) {
                reasons.push(invalid(
                    InvalidKind::WrongBytes,
                    format!(
                        "{}: status {} and {} bytes instead of {status} and {wanted}",
                        name(request),
                        request.status.unwrap_or(0),
                        request.body_bytes,
                    ),
                ));
            }
        }
    }

    /// The kernel's counters must tell the same story as its sockets.
    fn counters(&self, reasons: &mut Vec<Invalid>) {
        let grown = |counters: &BTreeMap<String, i64>, name: &str| counters.get(name).copied().unwrap_or(0);
        for (counter, kind, what) in [
            (
                "TCPFastOpenListenOverflow",
                InvalidKind::ListenOverflow,
                "connections found the origins' Fast Open queue full",
            ),
            (
                "TCPFastOpenBlackhole",
                InvalidKind::Blackhole,
                "times the kernel suspected a black hole and turned Fast Open off",
            ),
            (
                "TCPFastOpenPassiveFail",
                InvalidKind::FastopenFailed,
                "connections came with data in the SYN that was refused",
            ),
        ] {
            let count = grown(self.origins, counter) + grown(self.client, counter);
            if count > 0 {
                reasons.push(invalid(kind, format!("{count} {what} ({counter})")));
            }
        }
        let lossy = self.lost_packets() > 0;
        let failed = grown(self.client, "TCPFastOpenActiveFail");
        if failed > 0 && !lossy {
            let detail =
                format!("{failed} connections lost the data in their SYN on a link that lost nothing");
            reasons.push(invalid(InvalidKind::FastopenFailed, format!("{detail} (TCPFastOpenActiveFail)")));
        }
        let sockets = self.with_syn_data(|connection| connection.client);
        let origins = self.with_syn_data(|connection| connection.origin);
        let active = grown(self.client, "TCPFastOpenActive");
        let passive = grown(self.origins, "TCPFastOpenPassive");
        if sockets != active || origins != passive || (sockets != origins && !lossy) {
            reasons.push(invalid(
                InvalidKind::CountersDisagree,
                format!(
                    "data in the SYN: {sockets} client sockets, {origins} origin sockets, {active} by TCPFastOpenActive, \
                     {passive} by TCPFastOpenPassive"
                ),
            ));
        }
    }

    fn with_syn_data(&self, end: impl Fn(&ConnectionRecord) -> Option<crate::contract::EndEvidence>) -> i64 {
        self.connections
            .iter()
            .filter(|connection| end(connection).is_some_and(|end| end.syn_data_acked))
            .count() as i64
    }

    fn lost_packets(&self) -> u64 {
        let LinkRecord { down, up } = self.link;
        [down, up].iter().map(|way| way.dropped_loss + way.dropped_queue + u64::from(way.overruns)).sum()
    }

    fn without_fastopen(&self, reasons: &mut Vec<Invalid>) {
        for (end, counters) in [("client", self.client), ("origins", self.origins)] {
            for name in FASTOPEN_COUNTERS {
                if let Some(count) = counters.get(name).filter(|count| **count > 0) {
                    reasons.push(invalid(
                        InvalidKind::SynDataWithoutTfo,
                        format!("{name} of the {end} grew by {count}"),
                    ));
                }
            }
        }
        let with_data = self.with_syn_data(|connection| connection.client);
        if with_data > 0 {
            reasons.push(invalid(
                InvalidKind::SynDataWithoutTfo,
                format!("{with_data} connections carried data in their SYN"),
            ));
        }
    }

    fn with_warm_cookies(&self, reasons: &mut Vec<Invalid>) {
        let missing: Vec<_> = self
            .hosts
            .iter()
            .filter(|(_, address)| !self.cookies_before.contains(address))
            .map(|(host, _)| host.as_str())
            .collect();
        if let Some(first) = missing.first() {
            let detail = format!("no cookie of {first} ({} of {} hosts)", missing.len(), self.hosts.len());
            reasons.push(invalid(InvalidKind::NoCookieWhenWarm, detail));
        }
        let bare: Vec<_> = self.connections.iter().filter(|connection| Self::went_bare(connection)).collect();
        if let Some(first) = bare.first() {
            let detail = format!(
                "{} of {} connections carried no data in their SYN though nothing was lost, first the one to {}",
                bare.len(),
                self.connections.len(),
                first.host
            );
            reasons.push(invalid(InvalidKind::NoSynData, detail));
        }
    }

    /// A connection that was used, lost nothing, and yet had no data in its SYN.
    fn went_bare(connection: &ConnectionRecord) -> bool {
        connection.requests > 0
            && !connection.client.is_some_and(|end| end.syn_data_acked)
            && !Self::lost_something(connection)
    }

    fn lost_something(connection: &ConnectionRecord) -> bool {
        [connection.client, connection.origin].iter().flatten().any(|end| end.retransmits > 0)
    }

    fn with_cold_cookies(&self, reasons: &mut Vec<Invalid>) {
        if !self.cookies_before.is_empty() {
            let detail =
                format!("the client held {} cookies before its first connection", self.cookies_before.len());
            reasons.push(invalid(InvalidKind::CookieBeforeCold, detail));
        }
        // The first connection to each host asks for the cookie that later ones use. It surely has come when a handshake that
        // lost nothing is over: a SYN that is sent again asks for no cookie, and a SYN's answer that is sent again brings none.
        let mut asked: BTreeSet<&str> = BTreeSet::new();
        let mut cookie_at: BTreeMap<&str, u64> = BTreeMap::new();
        let mut by_opening: Vec<_> = self.connections.iter().collect();
        by_opening.sort_by_key(|connection| connection.opened_ns);
        for connection in by_opening {
            let host = connection.host.as_str();
            if connection.client.is_some_and(|end| end.syn_data_acked) && !asked.contains(host) {
                let detail = format!("the first connection to {host} carried data in its SYN");
                reasons.push(invalid(InvalidKind::CookieBeforeCold, detail));
            }
            let cookie_was_there = cookie_at.get(host).is_some_and(|at| connection.opened_ns > *at);
            if cookie_was_there && Self::went_bare(connection) {
                let detail = format!("a connection to {host} carried none although the cookie was there");
                reasons.push(invalid(InvalidKind::NoSynData, detail));
            }
            let Some(connected) = connection.connected_ns.filter(|_| connection.handshake_us.is_some())
            else {
                continue;
            };
            asked.insert(host);
            if !Self::lost_something(connection) {
                let earliest = cookie_at.entry(host).or_insert(connected);
                *earliest = (*earliest).min(connected);
            }
        }
    }

    fn link(&self, reasons: &mut Vec<Invalid>) {
        for (way, record) in [("down", &self.link.down), ("up", &self.link.up)] {
            if record.late_us_max > self.late_us {
                let detail = format!("a packet left the link {way} {} us later than due", record.late_us_max);
                reasons.push(invalid(InvalidKind::LinkLate, detail));
            }
            if record.overruns > 0 {
                let detail = format!("{} packets {way} were lost before the link saw them", record.overruns);
                reasons.push(invalid(InvalidKind::LinkLate, detail));
            }
        }
    }
}

fn invalid(kind: InvalidKind, detail: String) -> Invalid {
    Invalid { kind, detail }
}

#[cfg(test)]
mod tests;
