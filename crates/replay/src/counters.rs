//! Streams that count their traffic, and when it crossed them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use fastopen_netns::clock::monotonic_ns;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Times (in nanoseconds of the monotonic clock) and numbers of the bytes on a byte stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traffic {
    /// First write.
    pub first_write_ns: Option<u64>,
    /// First read.
    pub first_read_ns: Option<u64>,
    /// Latest read.
    pub last_read_ns: Option<u64>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Latest write.
    pub last_write_ns: Option<u64>,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes written before the first read.
    pub bytes_written_first: u64,
    /// Bytes read before the first write.
    pub bytes_read_first: u64,
}

/// Counters of the bytes on a stream.
pub trait TrafficCounters: Default + Send + 'static {
    /// Counts written bytes.
    fn wrote(&mut self, at_ns: u64, bytes: &[u8]);
    /// Counts read bytes.
    fn read(&mut self, at_ns: u64, bytes: &[u8]);
}

impl TrafficCounters for Traffic {
    fn wrote(&mut self, at_ns: u64, bytes: &[u8]) {
        self.first_write_ns.get_or_insert(at_ns);
        self.last_write_ns = Some(at_ns);
        self.bytes_written += bytes.len() as u64;
        if self.bytes_read == 0 {
            self.bytes_written_first += bytes.len() as u64;
        }
    }

    fn read(&mut self, at_ns: u64, bytes: &[u8]) {
        self.first_read_ns.get_or_insert(at_ns);
        self.last_read_ns = Some(at_ns);
        self.bytes_read += bytes.len() as u64;
        if self.bytes_written == 0 {
            self.bytes_read_first += bytes.len() as u64;
        }
    }
}

/// Traffic of a connection that carries requests one after another, apart for each request.
#[derive(Debug, Default)]
pub struct SerialTraffic(Vec<Traffic>);

impl SerialTraffic {
    /// Starts to count for the next request, and returns its number.
    pub fn start_request(&mut self) -> usize {
        self.0.push(Traffic::default());
        self.0.len() - 1
    }

    /// The traffic since that request, until the next one.
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

/// A stream that a [`CountedStream`] can wrap: TCP or TLS.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A stream that counts its traffic. A [`CountersHandle`] reads the counters while another owner has the
/// stream.
pub struct CountedStream<C = Traffic> {
    stream: Box<dyn Duplex>,
    counters: Arc<Mutex<C>>,
}

/// A handle on the counters of a stream.
#[derive(Debug)]
pub struct CountersHandle<C = Traffic>(Arc<Mutex<C>>);

impl<C> Clone for CountersHandle<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: TrafficCounters> CountersHandle<C> {
    /// Calls `access` with the counters.
    pub fn with<T>(&self, access: impl FnOnce(&mut C) -> T) -> T {
        access(&mut lock(&self.0))
    }
}

fn lock<C>(counters: &Mutex<C>) -> MutexGuard<'_, C> {
    counters.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl<C: TrafficCounters> CountedStream<C> {
    /// Counts the traffic of `stream` from now on.
    pub fn new(stream: impl Duplex + 'static) -> Self {
        Self { stream: Box::new(stream), counters: Arc::default() }
    }

    /// A handle on the counters.
    pub fn counters(&self) -> CountersHandle<C> {
        CountersHandle(self.counters.clone())
    }

    /// Counts the bytes of a write, which took the beginning of `slices`.
    fn count_write<'a>(
        &self,
        written: Poll<io::Result<usize>>,
        slices: impl IntoIterator<Item = &'a [u8]>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = written {
            let (now, mut left) = (monotonic_ns(), count);
            let mut counters = lock(&self.counters);
            for slice in slices {
                let part = &slice[..left.min(slice.len())];
                left -= part.len();
                counters.wrote(now, part);
            }
        }
        written
    }
}

impl<C: TrafficCounters> AsyncRead for CountedStream<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        if !read.is_empty() {
            lock(&self.counters).read(monotonic_ns(), read);
        }
        Poll::Ready(Ok(()))
    }
}

impl<C: TrafficCounters> AsyncWrite for CountedStream<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count_write(written, [bytes])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count_write(written, slices.iter().map(|slice| &**slice))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
