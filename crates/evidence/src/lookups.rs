//! Checks DNS lookups: compares the observations of client, resolver and both kernels.

use fastopen_link::ip::Version;
use fastopen_page::{alias_host, is_name};

use super::first_bytes::round_trips;
use super::{Observations, grown};
use fastopen_contract::{
    ConnectionRecord, Invalid, LOOKUP_TIMEOUT, LookupRecord, NameLookup, resolver_address,
};

impl Observations<'_> {
    /// Checks that each connection began after the lookup of its host, that the resolver received each query
    /// that was not lost, and that no answer came before the round trip to the resolver was over.
    pub(super) fn name_lookups(&self, reasons: &mut Vec<Invalid>) {
        if self.job.network.names == NameLookup::None {
            if let Some(lookup) = self.lookups.first() {
                invalid!(
                    reasons,
                    LookupsDisagree,
                    "{} was looked up, but clients know all addresses",
                    lookup.host
                );
            }
            return;
        }
        if let Some(host) = self.connected_without_lookup() {
            invalid!(reasons, LookupsDisagree, "{host} was not looked up before its first connection");
        }
        // Browsers also look up names that the page does not have.
        let of_page = |lookup: &&LookupRecord| self.hosts.keys().any(|host| is_lookup_of(lookup, host));
        let mut of_page = self.lookups.iter().filter(of_page);
        let contradiction = of_page.find_map(|lookup| self.contradiction(lookup));
        for detail in contradiction.into_iter().chain(self.wrong_connection()) {
            invalid!(reasons, LookupsDisagree, "{detail}");
        }
        self.query_packets(reasons);
    }

    /// Describes the fault if lookups over TCP did not use exactly one connection with the expected protocol.
    fn wrong_connection(&self) -> Option<String> {
        let answered = self.lookups.iter().any(|lookup| lookup.answered_ns.is_some());
        if self.job.is_foreign() || !answered || !self.job.network.names.is_over_tcp() {
            return None;
        }
        let [connection] = self.connections.iter().filter(|one| is_resolver(one)).collect::<Vec<_>>()[..]
        else {
            return Some("names were not looked up over one connection".into());
        };
        let both_ends = connection.tls.as_ref().filter(|tls| tls.origin.is_some());
        let spoken = both_ends.and_then(|tls| tls.alpn.as_deref());
        let wanted = self.job.network.names.alpn();
        (spoken.map(str::as_bytes) != wanted || connection.tls.is_some() != wanted.is_some()).then(|| {
            let wanted = wanted.map_or("cleartext".into(), String::from_utf8_lossy);
            format!("the resolver was asked over {} instead of {wanted}", spoken.unwrap_or("cleartext"))
        })
    }

    fn connected_without_lookup(&self) -> Option<&str> {
        let mut own = self.connections.iter().filter(|one| is_name(&one.host) && one.host != "localhost");
        let known = |host: &str, opened_ns: u64| {
            self.lookups.iter().any(|lookup| {
                is_lookup_of(lookup, host) && lookup.answered_ns.is_some_and(|at| at <= opened_ns)
            })
        };
        // The times of an external client's lookups were measured at the resolver.
        let slack_ns = if self.job.is_foreign() { self.job.tolerance.rtt_us * 1000 } else { 0 };
        let without =
            own.find(|one| one.connected_ns.is_some() && !known(&one.host, one.opened_ns + slack_ns));
        without.map(|one| one.host.as_str())
    }

    fn contradiction(&self, lookup: &LookupRecord) -> Option<String> {
        let LookupRecord { host, queries, resolver, .. } = lookup;
        // A query without an answer may still be in flight, or was aborted with its connection.
        let lost = self.lost_packets() > 0 || lookup.answered_ns.is_none();
        let fits = if lost { resolver.queries <= *queries } else { resolver.queries == *queries };
        if !fits && (lookup.answered_ns.is_some() || lookup.error.is_some()) {
            return Some(format!("{host}: {queries} queries sent and {} arrived", resolver.queries));
        }
        if lookup.answered_ns.is_some() && resolver.answers == 0 {
            return Some(format!("{host}: has an answer that the resolver did not send"));
        }
        // A queue may delay an answer until the query is repeated.
        let repeated = LOOKUP_TIMEOUT.as_nanos() as u64 * queries.saturating_sub(1) as u64;
        let early = lookup.answered_ns.is_some_and(|at| at < lookup.asked_ns + repeated);
        if early && !self.job.is_foreign() && resolver.answers == *queries && !lost {
            return Some(format!("{host}: was looked up {queries} times"));
        }
        if self.job.is_foreign() {
            return None;
        }
        let rtt_us = self.job.network.resolver_rtt_us.unwrap_or(self.job.network.rtt_us);
        let answered_ns = lookup.answered_ns?;
        let after = |since_ns: u64, rtts: u64| {
            since_ns + rtts * rtt_us.saturating_sub(self.job.tolerance.rtt_us) * 1000
        };
        // Over a connection, a query is sent after the handshakes, or as SYN data or early data.
        let connection = self.connections.iter().find(|one| is_resolver(one));
        let earliest_ns =
            connection.map_or(0, |one| after(one.opened_ns, round_trips(one))).max(after(lookup.asked_ns, 1));
        // With jitter, the delay may be shorter than requested.
        let too_soon = answered_ns < earliest_ns && !self.job.network.varies();
        too_soon.then(|| {
            let ms = answered_ns.saturating_sub(lookup.asked_ns) as f64 / 1e6;
            format!("{host}: answered in {ms:.3} ms, less than the round trips to the resolver take")
        })
    }

    /// Adds a reason to `reasons` if the number of DNS queries contradicts the kernels' UDP counters.
    fn query_packets(&self, reasons: &mut Vec<Invalid>) {
        if self.job.is_foreign() || self.hosts.keys().any(|host| self.job.origins.http_of(host).is_quic()) {
            return;
        }
        let over_udp = || self.lookups.iter().filter(|_| self.job.network.names == NameLookup::Do53);
        let sent: usize = over_udp().map(|lookup| lookup.queries).sum();
        let arrived: usize = over_udp().map(|lookup| lookup.resolver.queries).sum();
        let out = grown(&self.counters.client, "UdpOutDatagrams");
        let received = grown(&self.counters.origins, "UdpInDatagrams");
        let unfinished = self.lookups.iter().any(|one| one.answered_ns.is_none() && one.error.is_none());
        if !unfinished && (out != sent as i64 || received != arrived as i64) {
            invalid!(
                reasons,
                LookupsDisagree,
                "{sent} queries sent and {arrived} arrived, but {out} datagrams by UdpOutDatagrams and \
                 {received} by UdpInDatagrams"
            );
        }
    }
}

pub(super) fn is_resolver(connection: &ConnectionRecord) -> bool {
    connection.host.parse().is_ok_and(|host| host == resolver_address(Version::of(host)))
}

fn is_lookup_of(lookup: &LookupRecord, host: &str) -> bool {
    lookup.host.eq_ignore_ascii_case(host) || lookup.host.eq_ignore_ascii_case(&alias_host(host))
}
