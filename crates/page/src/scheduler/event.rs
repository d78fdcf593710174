//! Events that the driver passes to the scheduler, and actions that the scheduler answers.

use std::fmt;

#[cfg(doc)]
use super::Policy;

/// A server of the page: its index in [`crate::Page::origins`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginId(pub usize);

/// A connection: numbered from 0 in the order of opening; no number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub usize);

impl fmt::Display for ConnectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// An event of the driver. A `resource` is an index in [`crate::Page::resources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The load begins.
    Start,
    /// A connection begins its handshake: the name of its host was looked up ([`Policy::lookups`]).
    ConnectionBegins(ConnectionId),
    /// A connection's handshake of TCP is over, and that of TLS begins.
    ConnectionEstablished(ConnectionId),
    /// A connection can take a request: its handshake is over, or TCP Fast Open sends the request in the SYN.
    ConnectionReady(ConnectionId),
    /// A connection's handshake is complete, which may be after its first requests were sent as early data.
    ConnectionSecured(ConnectionId),
    /// A connection could not be made.
    ConnectionFailed(ConnectionId),
    /// Bytes of a response's body have arrived; 0 when only its header has.
    BodyProgress {
        /// The requested resource.
        resource: usize,
        /// Body bytes since the response began.
        bytes_so_far: u64,
    },
    /// A response is complete.
    ResponseEnd {
        /// The requested resource.
        resource: usize,
        /// The connection that it came on.
        connection: ConnectionId,
        /// True if the connection can take another request afterwards.
        reusable: bool,
    },
    /// A request or its response failed.
    ResponseFailed {
        /// The requested resource.
        resource: usize,
        /// The connection that it was sent on.
        connection: ConnectionId,
        /// True if any byte of the response had arrived.
        answered: bool,
    },
    /// The server closed a connection that was idle.
    ConnectionClosed(ConnectionId),
}

/// An action for the driver. A `resource` is an index in [`crate::Page::resources`].
///
/// [`Action::Close`] closes every connection that [`Action::Open`] opened, unless the driver reported that it
/// failed or was closed, or it is idle when the load is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Open a connection.
    Open {
        /// Its number.
        connection: ConnectionId,
        /// The server.
        origin: OriginId,
        /// True to open it to the server's fallback ([`Policy::fallback_after`]).
        fallback: bool,
    },
    /// Send a request.
    Send {
        /// The connection to send it on.
        connection: ConnectionId,
        /// The resource to request.
        resource: usize,
    },
    /// Close a connection; no later action names it.
    Close(ConnectionId),
}
