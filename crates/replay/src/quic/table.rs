//! Stores the QUIC connections of one end (client or origins) of the emulated network, keyed by four-tuple:
//! handles to open connections, and the packet counts of all connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fastopen_link::path::rebound;
use quinn::{Connection, VarInt};
use serde::{Deserialize, Serialize};

use super::packets::PacketCounts;
use crate::sockets::FourTuple;
use crate::watch_cell::WatchCell;

/// The packets that one end of a QUIC connection sent, received and declared lost, and its RTT.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct QuicEnd {
    pub sent: PacketCounts,
    pub received: PacketCounts,
    /// Packets that this end declared lost (RFC 9002 section 6).
    pub lost_packets: Option<u64>,
    /// Smoothed RTT that this end measured, in microseconds.
    pub rtt_us: Option<u64>,
}

/// The QUIC connections of one end (client or origins) of the emulated network.
#[derive(Debug, Default)]
pub struct QuicTable(WatchCell<Connections>);

#[derive(Debug, Default)]
struct Connections {
    open: BTreeMap<FourTuple, Connection>,
    seen: BTreeMap<FourTuple, QuicEnd>,
}

impl Connections {
    /// Returns the counters of a connection, even if a middlebox has changed the client's port.
    fn of(&mut self, four_tuple: FourTuple) -> &mut QuicEnd {
        let client = four_tuple.client;
        let before = SocketAddr::new(client.ip(), rebound(client.port()));
        let before = FourTuple { client: before, ..four_tuple };
        let known = !self.seen.contains_key(&four_tuple) && self.seen.contains_key(&before);
        let unmeasured = QuicEnd { lost_packets: Some(0), rtt_us: Some(0), ..QuicEnd::default() };
        self.seen.entry(if known { before } else { four_tuple }).or_insert(unmeasured)
    }
}

impl QuicTable {
    /// Adds an open connection. When it is closed, drop the returned value to remove it from the table.
    pub(crate) fn opened(self: &Arc<Self>, four_tuple: FourTuple, connection: Connection) -> Opened {
        self.0.with(|connections| connections.open.insert(four_tuple, connection));
        Opened { table: self.clone(), four_tuple }
    }

    pub(super) fn sent(&self, four_tuple: FourTuple, datagram: &[u8]) {
        self.0.with(|connections| connections.of(four_tuple).sent.count(datagram));
    }

    pub(super) fn received(&self, four_tuple: FourTuple, datagram: &[u8]) {
        self.0.with(|connections| connections.of(four_tuple).received.count(datagram));
    }

    /// Returns the packets and bytes of one connection so far; zeros for an unknown connection.
    pub fn seen(&self, four_tuple: FourTuple) -> QuicEnd {
        self.0.with(|connections| connections.seen.get(&four_tuple).copied().unwrap_or_default())
    }

    /// Returns the packets, bytes and RTT of every connection since the last [`QuicTable::forget`].
    pub fn evidence(&self) -> BTreeMap<FourTuple, QuicEnd> {
        self.0.with(|connections| {
            let mut evidence = connections.seen.clone();
            for (four_tuple, connection) in &connections.open {
                evidence.entry(*four_tuple).or_default().complete(connection);
            }
            evidence
        })
    }

    /// Closes all open connections.
    pub fn close_all(&self) {
        let open: Vec<_> = self.0.with(|connections| connections.open.values().cloned().collect());
        for connection in open {
            connection.close(VarInt::from_u32(0), b"");
        }
    }

    /// Waits until no connection is open or `timeout` has passed. Returns true if no connection is open.
    pub fn wait_until_closed(&self, timeout: Duration) -> bool {
        self.0.wait_until(timeout, |connections| connections.open.is_empty())
    }

    /// Forgets the packets, bytes and RTTs of all connections so far.
    pub fn forget(&self) {
        self.0.with(|connections| connections.seen.clear());
    }
}

/// Removes a connection from the table when dropped, and records its final counts and RTT. A client's socket
/// refers to the table, so a connection that stayed in the table would keep the socket and its port forever.
pub(crate) struct Opened {
    table: Arc<QuicTable>,
    four_tuple: FourTuple,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Drop the connection after the table is unlocked, because its socket may be dropped with it.
        let _connection = self.table.0.update(|connections| {
            let connection = connections.open.remove(&self.four_tuple)?;
            connections.seen.entry(self.four_tuple).or_default().complete(&connection);
            Some(connection)
        });
    }
}

impl QuicEnd {
    fn complete(&mut self, connection: &Connection) {
        let path = connection.stats().path;
        self.lost_packets = Some(path.lost_packets);
        self.rtt_us = Some(path.rtt.as_micros() as u64);
    }
}
