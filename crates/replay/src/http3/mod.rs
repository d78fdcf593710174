//! Implements HTTP/3 for the origin servers and the page loader: adapts quinn's connections and streams to
//! the traits of the `h3` crate, counts the bytes of request streams, and implements RFC 9218's priorities.

mod frames;

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use fastopen_netns::clock::monotonic_ns;
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use quinn::{ConnectionError, ReadError, VarInt, WriteError};
use tokio::sync::watch;

use self::frames::Frames;
use crate::http2::frame_counters::StreamTraffic;
use crate::lock;
use crate::priority::Priority;

const READ_BYTES: usize = 65_536;

/// The traffic and priority of each request stream of a connection, as recorded at one end of the connection.
#[derive(Clone, Default)]
pub struct StreamTable(Arc<Mutex<Streams>>);

type OnRead = Arc<dyn Fn(u64) + Send + Sync>;

#[derive(Default)]
struct Streams {
    by_id: BTreeMap<u64, StreamState>,
    on_read: Option<OnRead>,
}

#[derive(Default)]
struct StreamState {
    written: Frames,
    read: Frames,
    priority: i32,
}

impl StreamTable {
    /// Creates an empty table. It calls `on_read` with the size of each read from a request stream, in bytes.
    pub fn with_read_callback(on_read: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Mutex::new(Streams { on_read: Some(Arc::new(on_read)), ..Streams::default() })))
    }

    /// Returns the traffic so far on a stream; zeros for an unknown stream.
    pub fn stream(&self, id: StreamId) -> StreamTraffic {
        let streams = lock(&self.0);
        let stream = streams.by_id.get(&id.into_inner());
        stream.map_or_else(StreamTraffic::default, |stream| StreamTraffic {
            written: stream.written.traffic,
            read: stream.read.traffic,
        })
    }

    /// Returns the number of bytes written to all request streams, without the headers of DATA frames.
    pub fn bytes_written(&self) -> u64 {
        let streams = lock(&self.0);
        let written = streams.by_id.values().map(|stream| stream.written.traffic);
        written.map(|traffic| traffic.header_bytes + traffic.body_bytes).sum()
    }

    /// Sets the priority of a stream (RFC 9218 section 10). The most urgent stream sends first. Among streams
    /// of equal urgency, the non-incremental ones send one after another, then the incremental ones in turn,
    /// packet by packet.
    pub fn prioritise(&self, id: StreamId, priority: Priority) {
        // Identifiers of request streams are multiples of four (RFC 9000 section 2.1).
        let order = (id.into_inner() / 4).min((1 << 23) - 1) as i32;
        let behind = if priority.incremental { 1 << 23 } else { order };
        lock(&self.0).by_id.entry(id.into_inner()).or_default().priority =
            -(i32::from(priority.urgency) << 24) - behind;
    }

    fn priority(&self, id: u64) -> Option<i32> {
        lock(&self.0).by_id.get(&id).map(|stream| stream.priority)
    }

    fn wrote(&self, id: u64, bytes: &[u8]) {
        lock(&self.0).by_id.entry(id).or_default().written.count(monotonic_ns(), bytes);
    }

    fn read(&self, id: u64, bytes: &[u8]) {
        let on_read = {
            let mut streams = lock(&self.0);
            streams.by_id.entry(id).or_default().read.count(monotonic_ns(), bytes);
            streams.on_read.clone()
        };
        if let Some(on_read) = on_read {
            on_read(bytes.len() as u64);
        }
    }
}

type Pending<T> = Option<Pin<Box<dyn Future<Output = Result<T, ConnectionError>> + Send>>>;

/// Polls the pending call. If no call is pending, starts `call` first.
fn poll_pending<T>(
    pending: &mut Pending<T>,
    call: impl Future<Output = Result<T, ConnectionError>> + Send + 'static,
    context: &mut Context<'_>,
) -> Poll<Result<T, ConnectionError>> {
    let future = pending.get_or_insert_with(|| Box::pin(call));
    let result = ready!(future.as_mut().poll(context));
    *pending = None;
    Poll::Ready(result)
}

type Bidirectional = (quinn::SendStream, quinn::RecvStream);

/// The state of a client's early data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Early {
    /// The handshake is not complete.
    Pending,
    /// The server accepted the early data, or there was none.
    Taken,
    /// The server rejected the early data.
    Rejected,
}

/// The pending calls that open or accept streams of a connection. A clone starts without pending calls.
#[derive(Default)]
struct Calls {
    accepting_bi: Pending<Bidirectional>,
    accepting_uni: Pending<quinn::RecvStream>,
    opening_bi: Pending<Bidirectional>,
    opening_uni: Pending<quinn::SendStream>,
}

impl Clone for Calls {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A QUIC connection that implements h3's traits.
#[derive(Clone)]
pub struct Quic {
    connection: quinn::Connection,
    table: StreamTable,
    early: watch::Receiver<Early>,
    /// True if h3 may close the connection (see [`Quic::new`]).
    closes: bool,
    calls: Calls,
}

impl Quic {
    /// Wraps a connection. `table` counts the traffic of requests, and `early` holds the state of early data.
    ///
    /// If `early` is [`Early::Pending`], the server may still reject early data. The client then drops this
    /// wrapper and creates another for the same connection. So this wrapper never closes the connection, and
    /// accepts no streams from the server before early data is accepted: dropping the server's control stream
    /// would end the connection (RFC 9114 section 6.2.1).
    pub fn new(connection: quinn::Connection, table: StreamTable, early: watch::Receiver<Early>) -> Self {
        let closes = *early.borrow() != Early::Pending;
        Self { connection, table, early, closes, calls: Calls::default() }
    }

    /// Wraps a connection without pending early data: a server's, or a client's after the handshake.
    pub fn without_early_data(connection: quinn::Connection, table: StreamTable) -> Self {
        Self::new(connection, table, watch::Sender::new(Early::Taken).subscribe())
    }
}

/// Waits until the server has accepted early data, if there is any. Never returns if the server rejects it.
async fn early_data_taken(mut early: watch::Receiver<Early>) {
    if early.wait_for(|early| *early == Early::Taken).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl<B: Buf> quic::Connection<B> for Quic {
    type RecvStream = RecvStream;
    type OpenStreams = Self;

    fn poll_accept_recv(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let (connection, early) = (self.connection.clone(), self.early.clone());
        let call = async move {
            early_data_taken(early).await;
            connection.accept_uni().await
        };
        let receive = ready!(poll_pending(&mut self.calls.accepting_uni, call, context)).map_err(lost)?;
        Poll::Ready(Ok(Stream { send: (), receive, table: None }))
    }

    fn poll_accept_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, ConnectionErrorIncoming>> {
        let (connection, early) = (self.connection.clone(), self.early.clone());
        let call = async move {
            early_data_taken(early).await;
            connection.accept_bi().await
        };
        let streams = ready!(poll_pending(&mut self.calls.accepting_bi, call, context)).map_err(lost)?;
        Poll::Ready(Ok(BidiStream::new(streams, &self.table)))
    }

    fn opener(&self) -> Self {
        self.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Quic {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        let connection = self.connection.clone();
        let call = async move { connection.open_bi().await };
        let streams = ready!(poll_pending(&mut self.calls.opening_bi, call, context)).map_err(stream_lost)?;
        Poll::Ready(Ok(BidiStream::new(streams, &self.table)))
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        let connection = self.connection.clone();
        let call = async move { connection.open_uni().await };
        let stream = ready!(poll_pending(&mut self.calls.opening_uni, call, context)).map_err(stream_lost)?;
        // Send h3's control streams before all requests.
        let _ = stream.set_priority(1);
        Poll::Ready(Ok(Stream { send: Sending { stream, writing: None }, receive: (), table: None }))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        if self.closes {
            self.connection.close(VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX), reason);
        }
    }
}

/// A QUIC stream with h3's traits: `S` is the sending side, `R` the receiving side. A missing side is `()`.
pub struct Stream<S, R> {
    send: S,
    receive: R,
    /// Stores the priority and traffic of a request's stream; `None` for HTTP/3's unidirectional streams.
    table: Option<StreamTable>,
}

/// The sending side of a stream, and the data that it is writing.
pub struct Sending<B: Buf> {
    stream: quinn::SendStream,
    writing: Option<WriteBuf<B>>,
}

/// A stream on which this end only sends, or the sending side of a request's stream.
pub type SendStream<B> = Stream<Sending<B>, ()>;
/// A stream on which this end only receives, or the receiving side of a request's stream.
pub type RecvStream = Stream<(), quinn::RecvStream>;
/// The bidirectional stream of a request.
pub type BidiStream<B> = Stream<Sending<B>, quinn::RecvStream>;

impl<B: Buf, R> quic::SendStream<B> for Stream<Sending<B>, R> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let Some(data) = &mut self.send.writing else { return Poll::Ready(Ok(())) };
        let id = u64::from(VarInt::from(self.send.stream.id()));
        if let Some(priority) = self.table.as_ref().and_then(|table| table.priority(id)) {
            let _ = self.send.stream.set_priority(priority);
        }
        while data.has_remaining() {
            let written = Pin::new(&mut self.send.stream).poll_write(context, data.chunk());
            let written = ready!(written).map_err(write_failed)?;
            if let Some(table) = &self.table {
                table.wrote(id, &data.chunk()[..written]);
            }
            data.advance(written);
        }
        self.send.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        Poll::Ready(self.send.stream.finish().map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))))
    }

    fn reset(&mut self, code: u64) {
        let _ = self.send.stream.reset(VarInt::from_u64(code).unwrap_or(VarInt::MAX));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.send.stream.id())
    }
}

impl<S> quic::RecvStream for Stream<S, quinn::RecvStream> {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let chunk = {
            // Dropping the future before it is ready is safe, because quinn keeps the waker.
            let reading = pin!(self.receive.read_chunk(READ_BYTES, true));
            ready!(reading.poll(context)).map_err(read_failed)?
        };
        let bytes = chunk.map(|chunk| chunk.bytes);
        if let (Some(table), Some(bytes)) = (&self.table, &bytes) {
            table.read(u64::from(VarInt::from(self.receive.id())), bytes);
        }
        Poll::Ready(Ok(bytes))
    }

    fn stop_sending(&mut self, code: u64) {
        let _ = self.receive.stop(VarInt::from_u64(code).unwrap_or(VarInt::MAX));
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.receive.id())
    }
}

impl<B: Buf> BidiStream<B> {
    fn new((stream, receive): Bidirectional, table: &StreamTable) -> Self {
        Self { send: Sending { stream, writing: None }, receive, table: Some(table.clone()) }
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream<B>, RecvStream) {
        let Self { send, receive, table } = self;
        (Stream { send, receive: (), table: table.clone() }, Stream { send: (), receive, table })
    }
}

fn stream_id(id: quinn::StreamId) -> StreamId {
    StreamId::try_from(u64::from(VarInt::from(id))).expect("both count streams as RFC 9000 does")
}

fn lost(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

fn stream_lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: lost(error) }
}

fn read_failed(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        ReadError::ConnectionLost(error) => stream_lost(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

fn write_failed(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        WriteError::ConnectionLost(error) => stream_lost(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}
