//! What the origins saw of a load: connections as they were accepted, requests as they arrived, answers as they were written.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::awaited::Awaited;
use crate::http2::frames::{Frames, Stream};
use crate::stream::{Ends, Traffic, Watch};
use crate::tls::Session;

/// A connection that an origin accepted.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Its addresses.
    pub ends: Ends,
    /// When, in nanoseconds of the monotonic clock: without data in the SYN, once the handshake's last packet was there.
    pub at_ns: u64,
    /// Its handshake of TLS, if it came to one.
    pub secured: Option<Secured>,
}

/// A handshake of TLS as its origin saw it.
#[derive(Debug, Clone)]
pub struct Secured {
    /// When the client's last message of it was there, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// What it came to.
    pub session: Session,
    /// What crossed the connection until then.
    pub traffic: Traffic,
}

/// A request that reached an origin.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The connection that it came on.
    pub ends: Ends,
    /// Index of the resource; none where the page has no such thing (answered with 404).
    pub resource: Option<usize>,
    /// When its last byte was there, in nanoseconds of the monotonic clock.
    pub arrived_ns: u64,
    /// When the first byte of the answer was written.
    pub first_byte_ns: Option<u64>,
    /// When the last byte was written, if all of them were.
    pub last_byte_ns: Option<u64>,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of the answer's head that were written.
    pub header_bytes: u64,
    /// Bytes of the answer's body that were written.
    pub body_bytes: u64,
}

/// Everything since a load began.
#[derive(Debug, Default)]
pub struct Log(Awaited<Inner>);

#[derive(Debug, Default)]
struct Inner {
    accepted: Vec<Accepted>,
    entries: Vec<Entry>,
    /// The last entry of each connection.
    last: BTreeMap<Ends, usize>,
}

#[derive(Debug)]
struct Entry {
    ends: Ends,
    resource: Option<usize>,
    arrived_ns: u64,
    answer: AnswerSize,
    traffic: Account,
}

/// How long an answer is.
#[derive(Debug, Clone, Copy)]
pub struct AnswerSize {
    /// Status code.
    pub status: u16,
    /// Bytes of the head.
    pub header_bytes: u64,
    /// Bytes of the body.
    pub body_bytes: u64,
}

/// What crossed a connection for one request.
#[derive(Debug)]
enum Account {
    /// Still growing.
    Open(Watch),
    /// As it was when the next request came.
    Closed(Traffic),
    /// One stream of a connection with several.
    Stream(Watch<Frames>, u32),
}

impl Log {
    /// Forgets everything.
    pub fn begin(&self) {
        self.0.with(|inner| *inner = Inner::default());
    }

    /// Takes note of a connection.
    pub fn accepted(&self, ends: Ends, at_ns: u64) {
        self.0.change(|inner| inner.accepted.push(Accepted { ends, at_ns, secured: None }));
    }

    /// Takes note that a connection is secure.
    pub fn secured(&self, ends: Ends, secured: Secured) {
        self.0.with(|inner| {
            if let Some(accepted) = inner.accepted.iter_mut().rfind(|accepted| accepted.ends == ends) {
                accepted.secured = Some(secured);
            }
        });
    }

    /// Waits until so many connections were accepted, or `patience` is over. Says whether they were.
    pub fn wait_until_accepted(&self, count: usize, patience: Duration) -> bool {
        self.0.wait_until(patience, |inner| inner.accepted.len() >= count)
    }

    /// Takes note of a request that has arrived; what is written on its connection from now on, `watch` tells.
    pub fn arrived(
        &self,
        ends: Ends,
        resource: Option<usize>,
        arrived_ns: u64,
        answer: AnswerSize,
        watch: &Watch,
    ) {
        self.0.with(|inner| {
            let number = inner.entries.len();
            if let Some(before) = inner.last.insert(ends, number) {
                inner.entries[before].traffic = Account::Closed(watch.traffic());
            }
            watch.restart();
            let traffic = Account::Open(watch.clone());
            inner.entries.push(Entry { ends, resource, arrived_ns, answer, traffic });
        });
    }

    /// Takes note of a request that has arrived on the stream of that number; what is written on it, `watch` tells.
    pub fn arrived_on_stream(
        &self,
        ends: Ends,
        resource: Option<usize>,
        arrived_ns: u64,
        answer: AnswerSize,
        (watch, stream): (&Watch<Frames>, u32),
    ) {
        let traffic = Account::Stream(watch.clone(), stream);
        self.0.with(|inner| inner.entries.push(Entry { ends, resource, arrived_ns, answer, traffic }));
    }

    /// The connections so far, in the order in which they were accepted.
    pub fn connections(&self) -> Vec<Accepted> {
        self.0.with(|inner| inner.accepted.clone())
    }

    /// The requests so far, in the order in which they arrived.
    pub fn requests(&self) -> Vec<Seen> {
        self.0.with(|inner| inner.entries.iter().map(Entry::seen).collect())
    }
}

impl Entry {
    fn seen(&self) -> Seen {
        match &self.traffic {
            Account::Open(watch) => self.seen_alone(&watch.traffic()),
            Account::Closed(traffic) => self.seen_alone(traffic),
            Account::Stream(watch, stream) => self.seen_on_stream(watch.ask(|frames| frames.stream(*stream))),
        }
    }

    fn seen_on_stream(&self, Stream { written, .. }: Stream) -> Seen {
        Seen {
            ends: self.ends,
            resource: self.resource,
            arrived_ns: self.arrived_ns,
            first_byte_ns: written.first_ns,
            last_byte_ns: written.last_ns.filter(|_| written.ended),
            status: self.answer.status,
            header_bytes: written.head_bytes,
            body_bytes: written.body_bytes,
        }
    }

    /// With HTTP/1, all that is written until the next request is its answer.
    fn seen_alone(&self, traffic: &Traffic) -> Seen {
        let AnswerSize { status, header_bytes, body_bytes } = self.answer;
        let whole = traffic.bytes_written >= header_bytes + body_bytes;
        Seen {
            ends: self.ends,
            resource: self.resource,
            arrived_ns: self.arrived_ns,
            first_byte_ns: traffic.first_write_ns,
            last_byte_ns: traffic.last_write_ns.filter(|_| whole),
            status,
            header_bytes: traffic.bytes_written.min(header_bytes),
            body_bytes: traffic.bytes_written.saturating_sub(header_bytes).min(body_bytes),
        }
    }
}
