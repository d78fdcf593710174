//! Counts the bytes that are read from and written to streams, and records the times of reads and writes.

use std::sync::{Arc, Mutex};

use fastopen_netns::clock::monotonic_ns;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::{InspectReader, InspectWriter};

use crate::lock;

/// Byte counts of a stream, and times in ns of the monotonic clock. A time is `None` until its event happens.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Traffic {
    pub first_write_ns: Option<u64>,
    pub first_read_ns: Option<u64>,
    pub last_read_ns: Option<u64>,
    pub bytes_read: u64,
    pub last_write_ns: Option<u64>,
    pub bytes_written: u64,
}

/// Counters that a stream updates with each read and write.
pub trait TrafficCounters: Default + Send + 'static {
    /// Counts bytes that were written at `at_ns` of the monotonic clock.
    fn wrote(&mut self, at_ns: u64, bytes: &[u8]);
    /// Counts bytes that were read at `at_ns` of the monotonic clock.
    fn read(&mut self, at_ns: u64, bytes: &[u8]);
}

impl TrafficCounters for Traffic {
    fn wrote(&mut self, at_ns: u64, bytes: &[u8]) {
        self.first_write_ns.get_or_insert(at_ns);
        self.last_write_ns = Some(at_ns);
        self.bytes_written += bytes.len() as u64;
    }

    fn read(&mut self, at_ns: u64, bytes: &[u8]) {
        self.first_read_ns.get_or_insert(at_ns);
        self.last_read_ns = Some(at_ns);
        self.bytes_read += bytes.len() as u64;
    }
}

/// The traffic of each request on a connection that carries one request after another.
#[derive(Debug, Default)]
pub struct SerialTraffic(Vec<Traffic>);

impl SerialTraffic {
    /// Starts to count the traffic of the next request. Returns the request's number, counted from 0.
    pub fn start_request(&mut self) -> usize {
        self.0.push(Traffic::default());
        self.0.len() - 1
    }

    /// Returns the traffic from the start of request `number` until the next request starts.
    pub fn of_request(&self, number: usize) -> Traffic {
        self.0[number]
    }
}

impl TrafficCounters for SerialTraffic {
    fn wrote(&mut self, at_ns: u64, bytes: &[u8]) {
        if let Some(traffic) = self.0.last_mut() {
            traffic.wrote(at_ns, bytes);
        }
    }

    fn read(&mut self, at_ns: u64, bytes: &[u8]) {
        if let Some(traffic) = self.0.last_mut() {
            traffic.read(at_ns, bytes);
        }
    }
}

/// A bidirectional byte stream: TCP or TLS.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Duplex for T {}

/// A handle to the counters of a stream, for code that does not own the stream.
#[derive(Debug)]
pub struct CountersHandle<C = Traffic>(Arc<Mutex<C>>);

impl<C> Clone for CountersHandle<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: TrafficCounters> CountersHandle<C> {
    /// Calls `access` with the locked counters, and returns its result.
    pub fn with<T>(&self, access: impl FnOnce(&mut C) -> T) -> T {
        access(&mut lock(&self.0))
    }
}

/// Wraps `stream` to count its traffic. Returns the wrapped stream and a handle to its counters.
pub fn counted<C: TrafficCounters>(stream: impl Duplex) -> (impl Duplex, CountersHandle<C>) {
    let counters = CountersHandle(Arc::<Mutex<C>>::default());
    let (reads, writes) = (counters.clone(), counters.clone());
    // Box the stream. Otherwise the code of HTTP and TLS would be compiled again for each type of stream.
    let stream: Box<dyn Duplex> = Box::new(stream);
    let stream = InspectReader::new(stream, move |bytes: &[u8]| {
        if !bytes.is_empty() {
            reads.with(|counters| counters.read(monotonic_ns(), bytes));
        }
    });
    let wrote = move |bytes: &[u8]| writes.with(|counters| counters.wrote(monotonic_ns(), bytes));
    (InspectWriter::new(stream, wrote), counters)
}
