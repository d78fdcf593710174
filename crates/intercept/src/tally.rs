//! Counts the connections of a command by their outcome, as `TCP_INFO` shows it.

use fastopen_netns::tcp::TcpInfo;
use serde::Serialize;

// Reasons in `tcpi_fastopen_client_fail` why Fast Open failed (`TFO_*` of include/uapi/linux/tcp.h).
const COOKIE_UNAVAILABLE: u8 = 1;
const DATA_NOT_ACKED: u8 = 2;
const SYN_RETRANSMITTED: u8 = 3;

/// Counts of TCP connections by outcome. `connections` is the sum of `established`, `failed`, `unused` (no
/// packet was sent), `elsewhere` (in another network namespace) and `unknown`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// TCP sockets for which the program called `connect`.
    pub connections: u64,
    /// Connections with a complete handshake.
    pub established: u64,
    /// Connections that were never established: refused, timed out, without a route, or closed before the
    /// handshake was complete. The kernel usually clears their counters.
    pub failed: u64,
    /// Connections that sent no packet, because the program did not write anything.
    pub unused: u64,
    /// Connections in another network namespace, whose outcome the kernel reports only there.
    pub elsewhere: u64,
    /// Connections of unknown outcome: the kernel did not report it, or had cleared the socket's counters.
    pub unknown: u64,
    /// Connections whose SYN requested a cookie, because the kernel had none for the address.
    pub cookie_requested: u64,
    /// Connections whose SYN carried data.
    pub syn_data_sent: u64,
    /// Connections whose SYN data the SYN-ACK acknowledged, which saves a round trip.
    pub syn_data_acked: u64,
    /// Connections whose SYN was acknowledged without its data, such as when the server rejected the cookie.
    pub data_not_acked: u64,
    /// Connections whose SYN with data was lost or dropped, and was retransmitted without data.
    pub syn_retransmitted: u64,
}

impl Tally {
    pub(crate) fn of(info: &TcpInfo) -> Self {
        if info.segments_out == 0 {
            return Self { connections: 1, unused: 1, ..Self::default() };
        }
        let fail = info.fastopen_client_fail;
        let established = info.bytes_acked > 0;
        let unanswered = !established && info.bytes_sent > 0;
        let refused = matches!(fail, DATA_NOT_ACKED | SYN_RETRANSMITTED);
        Self {
            connections: 1,
            established: established.into(),
            failed: (!established).into(),
            cookie_requested: (fail == COOKIE_UNAVAILABLE).into(),
            syn_data_sent: (info.syn_data_acked() || unanswered || refused).into(),
            syn_data_acked: info.syn_data_acked().into(),
            data_not_acked: (fail == DATA_NOT_ACKED).into(),
            syn_retransmitted: (fail == SYN_RETRANSMITTED).into(),
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.established += other.established;
        self.failed += other.failed;
        self.unused += other.unused;
        self.elsewhere += other.elsewhere;
        self.unknown += other.unknown;
        self.cookie_requested += other.cookie_requested;
        self.syn_data_sent += other.syn_data_sent;
        self.syn_data_acked += other.syn_data_acked;
        self.data_not_acked += other.data_not_acked;
        self.syn_retransmitted += other.syn_retransmitted;
    }
}

#[cfg(test)]
#[path = "../tests/unit/tally.rs"]
mod tests;
