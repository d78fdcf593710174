//! Defines the events that the driver passes to the scheduler, and the actions that the scheduler returns.

use std::fmt;

#[cfg(doc)]
use super::Policy;

/// A server of the page, as an index in [`crate::Page::origins`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginId(pub usize);

/// The number of a connection, counted from 0 in the order of opening. No number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub usize);

impl fmt::Display for ConnectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// An event that the driver reports. A `resource` is an index in [`crate::Page::resources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Event {
    Start,
    /// A connection's name lookup is over ([`Policy::lookups`]), and the connection begins its handshake.
    ConnectionBegins(ConnectionId),
    /// A connection's TCP handshake is over, and a TLS handshake may begin.
    ConnectionEstablished(ConnectionId),
    /// A connection can take a request: its handshake is over, or TCP Fast Open sends the request in the SYN.
    ConnectionReady(ConnectionId),
    /// A connection's handshake is complete. Its first requests may have been sent earlier, as early data.
    ConnectionSecured(ConnectionId),
    ConnectionFailed(ConnectionId),
    /// The header of a response or a further part of its body has arrived.
    BodyProgress {
        resource: usize,
        /// Number of body bytes that have arrived so far; 0 if only the header has arrived.
        bytes_so_far: u64,
    },
    ResponseEnd {
        resource: usize,
        connection: ConnectionId,
        /// True if the connection can take another request afterwards.
        reusable: bool,
    },
    ResponseFailed {
        resource: usize,
        connection: ConnectionId,
        /// True if any byte of the response had arrived.
        answered: bool,
    },
    /// The server closed an established connection, which may have requests in flight.
    ConnectionClosed(ConnectionId),
}

/// An action that the driver performs. A `resource` is an index in [`crate::Page::resources`].
///
/// Not every opened connection gets an [`Action::Close`]. Connections get none if the driver has reported
/// that they failed or were closed, or if they are idle when the load is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Action {
    Open {
        connection: ConnectionId,
        origin: OriginId,
        /// True to use TCP instead of QUIC, the fallback for an HTTP/3 server ([`Policy::fallback_after`]).
        fallback: bool,
    },
    /// Send a request.
    Send { connection: ConnectionId, resource: usize },
    /// Close a connection; no later action names it.
    Close(ConnectionId),
}
