//! Keeps the log of the origins and the resolver: connections, requests, responses and DNS queries.

use std::sync::Arc;
use std::time::Duration;

use crate::counters::Traffic;
use crate::http2::frame_counters::DirectionTraffic;
use crate::sockets::FourTuple;
use crate::tls::Handshake;
use crate::watch_cell::WatchCell;

/// A connection that an origin accepted.
#[derive(Debug, Clone)]
pub struct AcceptedConnection {
    /// Addresses and ports of both ends.
    pub four_tuple: FourTuple,
    /// Time at which the origin accepted the connection, in nanoseconds of the monotonic clock. Without data
    /// in the SYN, the kernel accepts a connection when the last ACK of the handshake arrives.
    pub at_ns: u64,
    /// The TLS handshake, if it was completed or early data was read.
    pub tls: Option<TlsHandshake>,
}

/// The last reported state of a TLS handshake at the origin.
#[derive(Debug, Clone)]
pub struct TlsHandshake {
    /// Time when the origin reported the handshake's state, in nanoseconds of the monotonic clock. A complete
    /// handshake is reported when the client's last message arrives.
    pub at_ns: u64,
    /// The negotiated parameters and byte counts; `complete` is true for a finished handshake.
    pub handshake: Handshake,
    /// The traffic of the connection until the handshake's state was reported.
    pub traffic: Traffic,
}

/// A request that has arrived at an origin.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// The four-tuple of the connection.
    pub four_tuple: FourTuple,
    /// Index of the requested resource; `None` if the page does not have it (404 or a permitted preflight).
    pub resource: Option<usize>,
    /// The requested URL; `None` if it is the resource's own URL. If the page does not have the resource, the
    /// method precedes the URL, as in `POST https://a.test/b`.
    pub url: Option<Arc<str>>,
    /// Arrival of the last byte of the request, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// End of the server think time, in nanoseconds of the monotonic clock.
    pub due_ns: u64,
    /// Status code of the response.
    pub status: u16,
}

/// A request and its response.
#[derive(Debug, Clone)]
pub struct ServedRequest {
    /// The request, with the time of its arrival.
    pub request: Arrived,
    /// The traffic of the response so far. Its `ended` is true once the whole response has been written.
    pub written: DirectionTraffic,
}

/// A DNS query that has arrived at the resolver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The queried name, in lower case.
    pub name: String,
    /// Time of arrival, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// True if the resolver sent an answer.
    pub answered: bool,
}

/// The connections, requests and DNS queries that reached the origins and the resolver since [`Self::clear`].
#[derive(Default)]
pub struct OriginLog(WatchCell<Entries>);

#[derive(Default)]
struct Entries {
    accepted: Vec<AcceptedConnection>,
    /// Each request, and a function that returns the traffic of the response so far.
    requests: Vec<(Arrived, Box<dyn Fn() -> DirectionTraffic + Send>)>,
    queries: Vec<Query>,
    number: u64,
}

impl OriginLog {
    /// Clears the log for a new page load.
    pub fn clear(&self) {
        self.0.with(|log| *log = Entries { number: log.number + 1, ..Entries::default() });
    }

    /// Returns the number of times that the log was cleared, which identifies the current load.
    pub(crate) fn number(&self) -> u64 {
        self.0.with(|log| log.number)
    }

    pub(crate) fn queried(&self, query: Query) {
        self.0.with(|log| log.queries.push(query));
    }

    /// Returns the DNS queries since the log was cleared, in the order in which they were logged.
    pub fn queries(&self) -> Vec<Query> {
        self.0.with(|log| log.queries.clone())
    }

    /// Logs a connection that was accepted at `at_ns` of the monotonic clock.
    pub fn accepted(&self, four_tuple: FourTuple, at_ns: u64) {
        self.0.update(|log| log.accepted.push(AcceptedConnection { four_tuple, at_ns, tls: None }));
    }

    /// Logs the state of a TLS handshake, and replaces any earlier state of the same connection.
    pub fn tls_handshake(&self, four_tuple: FourTuple, handshake: TlsHandshake) {
        self.0.with(|log| {
            if let Some(accepted) =
                log.accepted.iter_mut().rfind(|accepted| accepted.four_tuple == four_tuple)
            {
                accepted.tls = Some(handshake);
            }
        });
    }

    /// Waits up to `timeout` until `count` connections have been accepted. Returns false after the timeout.
    pub fn wait_until_accepted(&self, count: usize, timeout: Duration) -> bool {
        self.0.wait_until(timeout, |log| log.accepted.len() >= count)
    }

    /// Logs a request. `written` is a function that returns the traffic of the response so far.
    pub fn arrived(&self, request: Arrived, written: impl Fn() -> DirectionTraffic + Send + 'static) {
        self.0.with(|log| log.requests.push((request, Box::new(written))));
    }

    /// Returns the connections since the log was cleared, in the order in which they were accepted.
    pub fn connections(&self) -> Vec<AcceptedConnection> {
        self.0.with(|log| log.accepted.clone())
    }

    /// Returns the requests since the log was cleared, in the order in which they were logged.
    pub fn requests(&self) -> Vec<ServedRequest> {
        self.0.with(|log| {
            let requests = log.requests.iter();
            requests
                .map(|(request, written)| ServedRequest { request: request.clone(), written: written() })
                .collect()
        })
    }
}
