//! Checks that the expected connections used QUIC, and that the packet counts of both ends are consistent.

use fastopen_replay::quic::packets::PacketCounts;

use fastopen_page::Schemes;

use super::lookups::is_resolver;
use super::{Observations, grown};
use fastopen_contract::{ConnectionRecord, Invalid, QuicRecord};

const BUFFER_FULL: &str = "UdpRcvbufErrors";

impl Observations<'_> {
    /// Checks which connections use QUIC, and that no end received more packets than the other sent. An end
    /// may have received fewer, because packets may be in flight when the load ends.
    pub(super) fn quic_packets(&self, reasons: &mut Vec<Invalid>) {
        let dropped = grown(&self.counters.client, BUFFER_FULL) + grown(&self.counters.origins, BUFFER_FULL);
        if dropped > 0 {
            invalid!(
                reasons,
                DatagramsDropped,
                "{dropped} datagrams found a socket's buffer full ({BUFFER_FULL})"
            );
        }
        let with_requests = self.connections.iter().filter(|one| one.requests > 0 && !is_resolver(one));
        for connection in with_requests.filter(|one| !self.gave_up_quic(one)) {
            let wrong = match connection.quic {
                Some(quic) if self.speaks_quic(connection) => {
                    if let Some(detail) = disagreement(&connection.host, &quic) {
                        invalid!(reasons, PacketsDisagree, "{detail}");
                    }
                    continue;
                }
                Some(_) => "QUIC instead of TCP",
                None if !self.speaks_quic(connection) || self.had_to_fall_back(connection) => continue,
                None if self.fell_back(connection) => "TCP before the fallback delay was over",
                None => "TCP instead of QUIC",
            };
            invalid!(reasons, NoQuic, "a connection to {} used {wrong}", connection.host);
        }
    }

    pub(super) fn fell_back(&self, connection: &ConnectionRecord) -> bool {
        self.job.client.h3_fallback_us.is_some() && self.speaks_quic(connection) && connection.quic.is_none()
    }

    /// Returns true if QUIC is expected: the host uses HTTP/3, and the port is not a cleartext port.
    fn speaks_quic(&self, connection: &ConnectionRecord) -> bool {
        let ConnectionRecord { host, port, .. } = connection;
        let mut urls = self.job.page.resources.iter().map(|one| &one.url);
        let in_the_clear = self.schemes == Schemes::Recorded && *port == 80
            || urls.any(|url| url.host() == host && url.port() == *port && !url.is_encrypted(self.schemes));
        self.job.origins.http_of(host).is_quic() && !in_the_clear
    }

    /// Returns true if the client gave up this QUIC connection because its handshake took too long.
    fn gave_up_quic(&self, connection: &ConnectionRecord) -> bool {
        self.job.client.h3_fallback_us.is_some() && connection.quic.is_some() && connection.tls.is_none()
    }

    fn had_to_fall_back(&self, connection: &ConnectionRecord) -> bool {
        let after_ns = self.job.client.h3_fallback_us.unwrap_or(0) * 1000;
        self.connections.iter().any(|one| {
            one.host == connection.host
                && self.gave_up_quic(one)
                && one.opened_ns + after_ns <= connection.opened_ns
        })
    }
}

fn disagreement(host: &str, quic: &QuicRecord) -> Option<String> {
    let Some(origin) = quic.origin else {
        return Some(format!("the origin's socket saw nothing of a connection to {host}"));
    };
    let up = ("client", by_type(quic.client.sent), by_type(origin.received));
    let down = ("origin", by_type(origin.sent), by_type(quic.client.received));
    [up, down].into_iter().find_map(|(end, sent, received)| {
        let mut types = sent.into_iter().zip(received);
        let ((name, sent), (_, received)) = types.find(|((_, sent), (_, received))| received > sent)?;
        Some(format!(
            "the {end} sent {sent} {name} packets on a connection to {host}, and {received} were received"
        ))
    })
}

fn by_type(packets: PacketCounts) -> [(&'static str, u64); 5] {
    [
        ("Initial", packets.initial),
        ("0-RTT", packets.zero_rtt),
        ("Handshake", packets.handshake),
        ("1-RTT", packets.one_rtt),
        ("Retry", packets.retry),
    ]
}
