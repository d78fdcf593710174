//! Checks that the client had the expected TFO cookies, and sent data in the SYN if it had the host's cookie.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fastopen_contract::{ConnectionRecord, Invalid};
use fastopen_link::ip::Addresses;

use super::{Observations, SynData, retransmitted};

impl Observations<'_> {
    pub(super) fn no_cookies(&self, reasons: &mut Vec<Invalid>) {
        if !self.cookies_before.is_empty() {
            let held = self.cookies_before.len();
            invalid!(reasons, CookieBeforeCold, "the client held {held} cookies before its first connection");
        }
    }

    pub(super) fn cookies_of_all_hosts(&self, reasons: &mut Vec<Invalid>) {
        let lacks = |addresses: &Addresses| addresses.iter().any(|one| !self.cookies_before.contains(&one));
        let missing: Vec<_> = self.hosts.iter().filter(|(_, addresses)| lacks(addresses)).collect();
        if let Some((first, _)) = missing.first() {
            let (missing, all) = (missing.len(), self.hosts.len());
            invalid!(reasons, NoCookieWhenWarm, "no cookie of {first} ({missing} of {all} hosts)");
        }
    }

    pub(super) fn syn_data_everywhere(&self, reasons: &mut Vec<Invalid>) {
        let missing = self.connections.iter().filter(|one| is_missing_syn_data(one));
        let missing: Vec<_> = missing.filter(|one| !self.is_broken(one, SynData::EveryConnection)).collect();
        if let Some(ConnectionRecord { host, .. }) = missing.first() {
            let (missing, all) = (missing.len(), self.connections.len());
            invalid!(
                reasons,
                NoSynData,
                "{missing} of {all} connections carried no data in their SYN although nothing was lost; the \
                 first is to {host}"
            );
        }
    }

    /// Checks a load that begins without cookies. No SYN may carry data before the first handshake with its
    /// server's address. Once a handshake without retransmissions is over, later SYNs must carry data.
    pub(super) fn syn_data_after_cookie(&self, reasons: &mut Vec<Invalid>) {
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
                    "a connection to {host} carried no data in its SYN, although the client had a cookie"
                );
            }
            let Some(connected) = connection.connected_ns.filter(|_| connection.handshake_us.is_some())
            else {
                continue;
            };
            asked.insert(address);
            if !retransmitted(connection) {
                let earliest = cookie_at.entry(address).or_insert(connected);
                *earliest = connected.min(*earliest);
            }
        }
    }
}

fn is_missing_syn_data(connection: &ConnectionRecord) -> bool {
    connection.requests > 0
        && connection.quic.is_none()
        && !connection.client.is_some_and(|end| end.syn_data_acked)
        && !retransmitted(connection)
}
