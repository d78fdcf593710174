//! Runs TLS on an asynchronous stream, with early data at both ends (RFC 8446 section 2.3).
//!
//! Existing adapters for rustls return a server's stream only when the handshake is complete. So the response
//! to early data comes a round trip later than necessary. Here a server reads early data before the handshake
//! is complete, and responds half a round trip after the client began ("0.5 RTT" data). A client writes its
//! `ClientHello` together with its first request.

use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ProtocolVersion, ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use super::Session;
use crate::counters::Duplex;

/// The length of a TLS record's header (RFC 8446 section 5.1).
const RECORD_HEADER: usize = 5;

/// The state of a TLS handshake.
#[derive(Debug, Clone)]
pub struct Handshake {
    /// The parameters negotiated so far.
    pub session: Session,
    /// Bytes of the `ClientHello`, including its record header.
    pub hello_bytes: u64,
    /// Bytes of early data that the client wrote, or the origin read during the handshake; 0 if rejected.
    pub early_bytes: u64,
    /// True if the handshake is complete.
    pub complete: bool,
}

type Observer = Box<dyn FnMut(Handshake) + Send>;

/// A handle with which other tasks wait for a handshake: true once it is complete, and always in cleartext.
pub type Secured = watch::Receiver<bool>;

/// Waits until the handshake is complete or the connection has ended.
pub async fn wait_until_secured(mut secured: Secured) {
    let _ = secured.wait_for(|complete| *complete).await;
}

/// One end of a TLS connection over `S`.
pub struct TlsStream<S> {
    io: S,
    tls: Connection,
    /// Header of the client's first record. This record holds the `ClientHello`.
    hello: Vec<u8>,
    /// Early data that a client has written, stored to be sent again if the server rejects it.
    early_written: Vec<u8>,
    early_read: u64,
    /// Waker of a client's pending read, if its handshake has not started. A write starts the handshake.
    parked: Option<Waker>,
    started: bool,
    observer: Option<Observer>,
    secured: watch::Sender<bool>,
}

impl<S: Duplex> TlsStream<S> {
    /// Accepts a connection. Returns when the handshake is complete or, if the client's early data is
    /// accepted, when the `ClientHello` has been answered. Calls `observer` with the handshake's state at the
    /// end of the handshake and, before that, after each read of early data.
    pub async fn accept(
        config: Arc<ServerConfig>,
        io: S,
        observer: impl FnMut(Handshake) + Send + 'static,
    ) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut stream = Self::new(tls.into(), io, Box::new(observer));
        stream.started = true;
        poll_fn(|context| stream.poll_handshake(context, Self::accepts_early_data)).await?;
        Ok(stream)
    }

    /// Creates a client's end, which has sent nothing yet. [`Self::handshake`] starts the handshake. If the
    /// client [offers early data](Self::offers_early_data), its first write starts the handshake as well.
    /// Calls `observer` with the handshake's state at the end of the handshake.
    pub fn connect(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        io: S,
        observer: impl FnMut(Handshake) + Send + 'static,
    ) -> io::Result<Self> {
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self::new(tls.into(), io, Box::new(observer)))
    }

    fn new(tls: Connection, io: S, observer: Observer) -> Self {
        Self {
            io,
            tls,
            hello: Vec::new(),
            early_written: Vec::new(),
            early_read: 0,
            parked: None,
            started: false,
            observer: Some(observer),
            secured: watch::Sender::new(false),
        }
    }

    /// Performs the handshake until it is complete.
    pub async fn handshake(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_handshake(context, |_| false)).await
    }

    /// Reads until a client has received `count` session tickets, which its configuration stores for reuse.
    pub async fn receive_tickets(&mut self, count: u32) -> io::Result<()> {
        poll_fn(|context| {
            loop {
                match &self.tls {
                    // TLS 1.2 uses a session ID instead, which arrives during the handshake.
                    Connection::Client(client)
                        if client.protocol_version() == Some(ProtocolVersion::TLSv1_3)
                            && client.tls13_tickets_received() < count => {}
                    _ => return Poll::Ready(Ok(())),
                }
                if ready!(self.poll_receive(context))? == 0 {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
            }
        })
        .await
    }

    /// Returns true if a client has a ticket for early data, and the handshake is not complete.
    pub fn offers_early_data(&mut self) -> bool {
        match &mut self.tls {
            Connection::Client(client) => client.is_handshaking() && client.early_data().is_some(),
            Connection::Server(_) => false,
        }
    }

    /// Returns a handle with which other tasks can wait until the handshake is complete.
    pub fn secured(&self) -> Secured {
        self.secured.subscribe()
    }

    fn accepts_early_data(&mut self) -> bool {
        match &mut self.tls {
            Connection::Client(_) => false,
            Connection::Server(server) => server.early_data().is_some(),
        }
    }

    /// Continues the handshake until it is complete or `enough` returns true, and until all records are sent.
    fn poll_handshake(
        &mut self,
        context: &mut Context<'_>,
        enough: impl Fn(&mut Self) -> bool,
    ) -> Poll<io::Result<()>> {
        self.started = true;
        loop {
            // Receive even if sending must wait: both ends may have more to send than the stream accepts.
            let sent = self.poll_send(context)?;
            if !self.tls.is_handshaking() || enough(self) {
                return sent.map(Ok);
            }
            if ready!(self.poll_receive(context))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            let hello = matches!(self.tls, Connection::Client(_)).then_some(&mut self.hello);
            let mut to = NonBlocking { io: &mut self.io, context, hello };
            if ready!(or_pending(self.tls.write_tls(&mut to)))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Receives and processes TLS records. Returns the number of received bytes; 0 at the end of the stream.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let hello = matches!(self.tls, Connection::Server(_)).then_some(&mut self.hello);
        let mut from = NonBlocking { io: &mut self.io, context, hello };
        let count = ready!(or_pending(self.tls.read_tls(&mut from)))?;
        if let Err(error) = self.tls.process_new_packets() {
            // Try to send the alert with the reason.
            let _ = self.poll_send(context);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        if !self.tls.is_handshaking() {
            self.complete()?;
        }
        Poll::Ready(Ok(count))
    }

    fn complete(&mut self) -> io::Result<()> {
        let Some(mut observer) = self.observer.take() else { return Ok(()) };
        if let Connection::Client(client) = &self.tls {
            if !client.is_early_data_accepted() {
                let rejected = std::mem::take(&mut self.early_written);
                self.tls.writer().write_all(&rejected)?;
            }
        }
        observer(self.progress());
        self.secured.send_replace(true);
        Ok(())
    }

    fn progress(&self) -> Handshake {
        let hello_bytes = match self.hello[..] {
            [_, _, _, high, low] => RECORD_HEADER as u64 + u64::from(u16::from_be_bytes([high, low])),
            _ => 0,
        };
        Handshake {
            session: Session::of(&self.tls),
            hello_bytes,
            early_bytes: self.early_read + self.early_written.len() as u64,
            complete: !self.tls.is_handshaking(),
        }
    }

    /// Copies decrypted data to `room`, early data first. Returns the number of bytes copied; 0 at the end.
    fn read_plaintext(&mut self, room: &mut [u8]) -> Poll<io::Result<usize>> {
        if let Connection::Server(server) = &mut self.tls {
            let handshaking = server.is_handshaking();
            let count = server.early_data().map_or(Ok(0), |mut early| early.read(room))?;
            if count > 0 {
                if handshaking {
                    self.early_read += count as u64;
                    let progress = self.progress();
                    self.observer.iter_mut().for_each(|observer| observer(progress.clone()));
                }
                return Poll::Ready(Ok(count));
            }
        }
        or_pending(self.tls.reader().read(room))
    }

    /// Encrypts data. Returns the number of accepted bytes; `None` if the handshake must be completed first.
    fn write_plaintext(&mut self, slices: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        if let Connection::Client(client) = &mut self.tls {
            if client.is_handshaking() {
                let Some(mut early) = client.early_data() else { return Ok(None) };
                let mut taken = 0;
                for slice in slices {
                    let count = early.write(slice)?;
                    self.early_written.extend_from_slice(&slice[..count]);
                    taken += count;
                    if count < slice.len() {
                        break;
                    }
                }
                return Ok((taken > 0).then_some(taken));
            }
        }
        self.tls.writer().write_vectored(slices).map(Some)
    }
}

impl<S: Duplex> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.started {
            this.parked = Some(context.waker().clone());
            return Poll::Pending;
        }
        let room = buffer.initialize_unfilled();
        if room.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let count = loop {
            if let Poll::Ready(count) = this.read_plaintext(room)? {
                break count;
            }
            let _ = this.poll_send(context)?;
            // Ignore the count: at the end of the stream, the next read of plaintext reports the end.
            ready!(this.poll_receive(context))?;
        };
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: Duplex> AsyncWrite for TlsStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.started = true;
        this.parked.take().inspect(Waker::wake_by_ref);
        if slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        loop {
            let Some(taken) = this.write_plaintext(slices)? else {
                ready!(this.poll_handshake(context, |_| false))?;
                continue;
            };
            let sent = this.poll_send(context)?;
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
            ready!(sent);
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.started {
            ready!(self.poll_send(context))?;
        }
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // Complete the handshake first. Otherwise the client's last handshake messages arrive at a closed
        // socket, whose RST makes the client discard the response.
        if this.started && ready!(this.poll_handshake(context, |_| false)).is_ok() {
            this.tls.send_close_notify();
            ready!(this.poll_send(context))?;
        }
        Pin::new(&mut this.io).poll_shutdown(context)
    }
}

/// Adapts the underlying stream to rustls: returns `WouldBlock` instead of [`Poll::Pending`].
struct NonBlocking<'a, 'b, S> {
    io: &'a mut S,
    context: &'a mut Context<'b>,
    /// Collects the header of the client's first record; `None` in the direction from server to client.
    hello: Option<&'a mut Vec<u8>>,
}

impl<S> NonBlocking<'_, '_, S> {
    fn see<'d>(&mut self, bytes: impl Iterator<Item = &'d u8>) {
        if let Some(hello) = &mut self.hello {
            hello.extend(bytes.take(RECORD_HEADER - hello.len()));
        }
    }
}

fn or_pending<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

fn or_would_block<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl<S: Duplex> Read for NonBlocking<'_, '_, S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(room);
        or_would_block(Pin::new(&mut *self.io).poll_read(self.context, &mut buffer))?;
        self.see(buffer.filled().iter());
        Ok(buffer.filled().len())
    }
}

impl<S: Duplex> Write for NonBlocking<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = or_would_block(Pin::new(&mut *self.io).poll_write_vectored(self.context, slices))?;
        self.see(slices.iter().flat_map(|slice| slice.iter()).take(count));
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
