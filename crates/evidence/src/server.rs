//! Checks an external server: its process, the Fast Open queues of its listeners, and its own connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Expectation, Observations, grown};
use fastopen_contract::{ConnectionCounts, Invalid, ListenerRecord};

impl Observations<'_> {
    /// Checks that the external server served until the load ended, and that the listeners in use have a Fast
    /// Open queue in loads with Fast Open. Without a queue, they send no cookies and accept no SYN data.
    pub(super) fn external_server(&self, expected: Expectation, reasons: &mut Vec<Invalid>) {
        if let Some(failure) = self.server_failure {
            invalid!(reasons, ServerFailed, "{failure}");
        }
        self.upstream(reasons);
        let listeners = self.server.iter().flat_map(|server| &server.listeners);
        let listeners = listeners.filter(|_| expected.fast_open.is_some());
        let without = listeners.filter(|one| one.connections > 0 && one.fastopen_queue == Some(0));
        for ListenerRecord { address, port, .. } in without {
            let place = SocketAddr::new(*address, *port);
            invalid!(
                reasons,
                NoListenerQueue,
                "the server's listener on {place} has no Fast Open queue: nginx has listen {port} \
                 fastopen=256, HAProxy bind :{port} tfo; --server-listen gives others one"
            );
        }
    }

    fn upstream(&self, reasons: &mut Vec<Invalid>) {
        let Some(ConnectionCounts { connections, syn_data }) = self.server.map(|server| server.upstream)
        else {
            return;
        };
        let active = grown(&self.counters.origins, "TCPFastOpenActive");
        if active != syn_data as i64 {
            invalid!(
                reasons,
                CountersDisagree,
                "data in SYNs of the server's own connections: {syn_data} by the origins' sockets, {active} \
                 by TCPFastOpenActive"
            );
        }
        if self.job.origins.upstream_tfo && syn_data < connections {
            let without = connections - syn_data;
            invalid!(
                reasons,
                NoSynData,
                "{without} of the server's {connections} connections to the origins carried no data in their \
                 SYN"
            );
        }
    }

    /// Returns the origins' counters minus the Fast Open connections of the external server to origins.
    pub(super) fn without_upstream(&self) -> BTreeMap<String, i64> {
        let mut counters = self.counters.origins.clone();
        let syn_data = self.server.map_or(0, |server| server.upstream.syn_data as i64);
        for name in ["TCPFastOpenActive", "TCPFastOpenPassive"] {
            counters.entry(name.into()).and_modify(|count| *count -= syn_data);
        }
        counters
    }
}
