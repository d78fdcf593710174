//! What a load must show of its QUIC connections: the packets of both ends' sockets.

use fastopen_replay::quic::packets::PacketCounts;

use super::{Observations, invalid};
use crate::contract::{Invalid, InvalidKind, QuicRecord};

/// The counter of datagrams for which a socket had no room.
const BUFFER_FULL: &str = "UdpRcvbufErrors";

impl Observations<'_> {
    /// Connections to hosts with HTTP/3 are QUIC's and no others are, and no end received what the other has
    /// not sent. What an end sent last may be on its way when the load ends.
    pub(super) fn quic_packets(&self, reasons: &mut Vec<Invalid>) {
        let dropped =
            [&self.counters.client, &self.counters.origins].map(|end| end.get(BUFFER_FULL).copied());
        let dropped: i64 = dropped.iter().flatten().sum();
        if dropped > 0 {
            let detail = format!("{dropped} datagrams found a socket's buffer full ({BUFFER_FULL})");
            reasons.push(invalid(InvalidKind::DatagramsDropped, detail));
        }
        for connection in self.connections.iter().filter(|one| one.requests > 0) {
            let host = &connection.host;
            let wanted = self.origins.http_of(host).is_quic();
            let Some(quic) = connection.quic.filter(|_| wanted) else {
                if wanted || connection.quic.is_some() {
                    let what = if wanted { "is not QUIC's" } else { "is QUIC's" };
                    reasons.push(invalid(InvalidKind::NoQuic, format!("a connection to {host} {what}")));
                }
                continue;
            };
            if let Some(detail) = disagreement(&connection.host, &quic) {
                reasons.push(invalid(InvalidKind::PacketsDisagree, detail));
            }
        }
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

/// Numbers of packets by the names of their types.
fn by_type(packets: PacketCounts) -> [(&'static str, u64); 5] {
    [
        ("Initial", packets.initial),
        ("0-RTT", packets.zero_rtt),
        ("Handshake", packets.handshake),
        ("1-RTT", packets.one_rtt),
        ("Retry", packets.retry),
    ]
}
