//! What the driver tells the scheduler, and what the scheduler tells it to do.

use std::fmt;

/// A server of the page: its index in [`crate::Page::origins`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginId(pub usize);

/// A connection: numbered from 0 in the order of opening, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub usize);

impl fmt::Display for ConnectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What happened. A `resource` is an index in [`crate::Page::resources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The load begins.
    Start,
    /// A connection can take a request: its handshake is over, or it sends its first data in the SYN and so need
    /// not wait.
    ConnectionReady {
        /// The connection.
        connection: ConnectionId,
    },
    /// A connection could not be made.
    ConnectionFailed {
        /// The connection.
        connection: ConnectionId,
    },
    /// So many bytes of a response's body have arrived; 0 when only its header has.
    BodyProgress {
        /// What was asked for.
        resource: usize,
        /// Body bytes since the response began.
        bytes_so_far: u64,
    },
    /// A response is complete.
    ResponseEnd {
        /// What was asked for.
        resource: usize,
        /// The connection that it came on.
        connection: ConnectionId,
        /// Whether the connection can take another request in its place.
        reusable: bool,
    },
    /// A request or its response broke off.
    ResponseFailed {
        /// What was asked for.
        resource: usize,
        /// The connection that it was sent on.
        connection: ConnectionId,
        /// Whether any byte of the response had arrived.
        answered: bool,
    },
    /// The server closed a connection that was idle.
    ConnectionClosed {
        /// The connection.
        connection: ConnectionId,
    },
}

/// What to do. A `resource` is an index in [`crate::Page::resources`].
///
/// Every connection opened is later closed by [`Action::Close`], unless the driver said itself that it failed or
/// was closed, or it is idle when the load is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Open a connection.
    Open {
        /// What to call it.
        connection: ConnectionId,
        /// Where to.
        origin: OriginId,
    },
    /// Send a request.
    Send {
        /// The connection to send it on.
        connection: ConnectionId,
        /// What to ask for.
        resource: usize,
    },
    /// Close a connection; nothing will be said of it any more.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
}
