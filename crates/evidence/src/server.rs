//! Checks loads with an external server.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Expectation, Observations, invalid};
use fastopen_contract::{Invalid, InvalidKind, ListenerRecord, UpstreamRecord};

impl Observations<'_> {
    /// Checks that the external server served until the load ended, and that the listeners in use have a Fast
    /// Open queue in loads with Fast Open. Without a queue, they send no cookies and accept no SYN data.
    pub(super) fn server(&self, expected: Expectation, reasons: &mut Vec<Invalid>) {
        if let Some(failure) = self.server_failure {
            reasons.push(invalid(InvalidKind::ServerFailed, failure.into()));
        }
        self.upstream(reasons);
        let listeners = self.server.iter().flat_map(|server| &server.listeners);
        let listeners = listeners.filter(|_| expected.fast_open.is_some());
        let without = listeners.filter(|one| one.connections > 0 && one.fastopen_queue == Some(0));
        for ListenerRecord { address, port, .. } in without {
            let place = SocketAddr::new(*address, *port);
            let detail = format!(
                "the server's listener on {place} has no Fast Open queue: nginx has listen {port} \
                 fastopen=256, HAProxy bind :{port} tfo; --server-listen gives others one"
            );
            reasons.push(invalid(InvalidKind::NoListenerQueue, detail));
        }
    }

    /// Checks the SYN data of the external server's own connections, and the kernel's counter of this data.
    fn upstream(&self, reasons: &mut Vec<Invalid>) {
        let Some(UpstreamRecord { connections, syn_data }) = self.server.map(|server| server.upstream) else {
            return;
        };
        let active = self.counters.origins.get("TCPFastOpenActive").copied().unwrap_or(0);
        if active != syn_data as i64 {
            let detail = format!(
                "data in SYNs of the server's own connections: {syn_data} by the origins' sockets, {active} \
                 by TCPFastOpenActive"
            );
            reasons.push(invalid(InvalidKind::CountersDisagree, detail));
        }
        if self.origins.upstream_tfo && syn_data < connections {
            let detail = format!(
                "{} of the server's {connections} connections to the origins carried no data in their SYN",
                connections - syn_data
            );
            reasons.push(invalid(InvalidKind::NoSynData, detail));
        }
    }

    /// Returns the growth of the origins' counters. `TCPFastOpenActive` and `TCPFastOpenPassive` exclude the
    /// external server's own connections with data in their SYN.
    pub(super) fn without_upstream(&self) -> BTreeMap<String, i64> {
        let mut counters = self.counters.origins.clone();
        let syn_data = self.server.map_or(0, |server| server.upstream.syn_data as i64);
        for name in ["TCPFastOpenActive", "TCPFastOpenPassive"] {
            counters.entry(name.into()).and_modify(|count| *count -= syn_data);
        }
        counters
    }
}
