//! Runs the task of one connection of the built-in client (loader): opens the socket, performs the TLS
//! handshake, and sends the requests that the loader's loop queues.

mod http1;
mod http2;
mod http3;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use fastopen_link::ip;
use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::tcp;
use fastopen_page::ConnectionId;
use fastopen_replay::HttpVersion;
use fastopen_replay::body::SizedBody;
use fastopen_replay::counters::Duplex;
use fastopen_replay::http2::frame_counters::StreamTraffic;
use fastopen_replay::quic::table::QuicTable;
use fastopen_replay::sockets::{FourTuple, ObservedStream, SocketTable};
use fastopen_replay::tls::Secured;
use hyper::Request;
use nix::errno::Errno;
use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::lookup::Lookup;
use crate::clients::tls::{Secure, connect};
use crate::contract::{ConnectionRecord, RequestRecord, TlsRecord};

/// A request that the task of a connection must send.
#[derive(Clone)]
pub(super) struct QueuedRequest {
    pub(super) resource: usize,
    pub(super) request: Request<SizedBody>,
    /// True to report the progress of the response's body. Each report wakes the loader's loop.
    pub(super) progress: bool,
}

/// A report from a task to the loader's loop.
pub(super) enum Report {
    LookedUp(Lookup),
    /// The UDP socket of a QUIC connection is open, and the QUIC handshake begins.
    Begun(ConnectionId, FourTuple),
    /// connect(2) has succeeded (with Fast Open, perhaps before the SYN), or a QUIC connection is usable.
    /// None stands for the connection to the DNS resolver.
    Connected(Option<ConnectionId>, Opened),
    /// The connection can carry its first request.
    Ready(ConnectionId),
    /// The TLS handshake of a connection (None: to the DNS resolver) is complete. The record's time is on the
    /// monotonic clock.
    Secured(Option<ConnectionId>, TlsRecord),
    Failed(ConnectionId, io::Error),
    Closed(ConnectionId),
    Progress {
        resource: usize,
        bytes: u64,
    },
    /// A request has ended, with a response or an error. The response's times are on the monotonic clock.
    End {
        connection: ConnectionId,
        response: RequestRecord,
        /// True if the connection can carry another request; an error if the request failed.
        outcome: Result<bool, String>,
    },
}

/// An open TCP connection, or a QUIC connection that can be used.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    /// When connect(2) returned or the QUIC handshake began, in nanoseconds of the monotonic clock.
    pub(super) at_ns: u64,
    /// True if connect(2) completed the TCP handshake; false with QUIC, or if the first write sends the SYN.
    pub(super) established: bool,
    pub(super) four_tuple: FourTuple,
}

impl Opened {
    pub(super) fn complete(&self, record: &mut ConnectionRecord, start_ns: u64) {
        let at_ns = self.at_ns.saturating_sub(start_ns);
        record.client_port = Some(self.four_tuple.client.port());
        record.four_tuple = Some(self.four_tuple);
        record.connected_ns = Some(at_ns);
        record.handshake_us = self.established.then(|| at_ns.saturating_sub(record.opened_ns) / 1000);
    }
}

/// The stream on which a connection carries HTTP, either directly over TCP or inside TLS.
pub(super) struct Plaintext {
    pub(super) stream: Box<dyn Duplex>,
    pub(super) secured: Secured,
    /// The first request, if it was taken from the queue before the TLS handshake to send it as early data.
    pub(super) first: Option<QueuedRequest>,
}

/// The settings and tables that all connections of a page load share.
pub(super) struct Shared {
    pub(super) fastopen: bool,
    pub(super) secure: Secure,
    pub(super) sockets: Arc<SocketTable>,
    pub(super) quic_table: Arc<QuicTable>,
    pub(super) reports: UnboundedSender<Report>,
}

/// A connection to the origin `host` at `address`, from the client port `port` (None: any port).
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) host: String,
    pub(super) address: SocketAddr,
    pub(super) encrypted: bool,
    pub(super) version: HttpVersion,
    pub(super) port: Option<u16>,
    pub(super) shared: Arc<Shared>,
}

impl Connection {
    /// Opens the connection and sends `requests` on it, until `requests` is closed or the connection fails.
    pub(super) async fn run(self, requests: UnboundedReceiver<QueuedRequest>) {
        let connection = Arc::new(self);
        if let Err(error) = connection.clone().try_run(requests).await {
            connection.report(Report::Failed(connection.id, error));
        }
    }

    async fn try_run(self: Arc<Self>, mut requests: UnboundedReceiver<QueuedRequest>) -> io::Result<()> {
        let shared = self.shared.clone();
        if let Some(quic) = shared.secure.quic.clone().filter(|_| self.encrypted && self.version.is_quic()) {
            return http3::run(self, quic, requests).await;
        }
        let (socket, opened) = open(self.address, self.port, &shared).await?;
        // Reported before the TLS handshake, because the load may end during the handshake.
        self.report(Report::Connected(Some(self.id), opened));
        let plaintext = match shared.secure.tls.clone().filter(|_| self.encrypted) {
            None => {
                let secured = watch::Sender::new(true).subscribe();
                Plaintext { stream: Box::new(socket), secured, first: None }
            }
            Some(tls) => {
                let connection = self.clone();
                let secured = move |record| connection.report(Report::Secured(Some(connection.id), record));
                let mut stream = connect(tls, &self.host, socket, secured)?;
                let mut first = None;
                if stream.offers_early_data() {
                    self.report(Report::Ready(self.id));
                    first = requests.recv().await;
                    let Some(queued) = &first else { return Ok(()) };
                    // Early data can be replayed (RFC 8470 section 4), so only safe requests are sent in it.
                    if !queued.request.method().is_safe() {
                        if let Err(error) = stream.handshake().await {
                            let exchange = Exchange::new(self.clone(), queued.resource, queued.progress);
                            exchange.end(Err(error.to_string()), |_| {});
                            return Ok(());
                        }
                    }
                } else {
                    stream.handshake().await?;
                }
                let secured = stream.secured();
                Plaintext { stream: Box::new(stream), secured, first }
            }
        };
        match self.version {
            HttpVersion::Http10 | HttpVersion::Http11 => http1::run(self, plaintext, requests).await,
            HttpVersion::Http2 => http2::run(self, plaintext, requests).await,
            HttpVersion::Http3 => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(super) fn report(&self, report: Report) {
        // The receiver is dropped at the end of the load.
        let _ = self.shared.reports.send(report);
    }

    /// Waits for the next request to send. Returns None if the loader or the server closes the connection.
    pub(super) async fn next<T>(
        &self,
        requests: &mut UnboundedReceiver<QueuedRequest>,
        driver: &mut JoinHandle<T>,
    ) -> Option<QueuedRequest> {
        tokio::select! {
            biased;
            request = requests.recv() => request,
            _ = driver => {
                self.report(Report::Closed(self.id));
                None
            }
        }
    }
}

pub(super) async fn open(
    address: SocketAddr,
    port: Option<u16>,
    shared: &Shared,
) -> io::Result<(ObservedStream, Opened)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    if let Some(port) = port {
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::new(ip::Version::of(address.ip()).unspecified(), port).into())?;
    }
    socket.set_tcp_nodelay(true)?;
    if shared.fastopen {
        tcp::set_fastopen_connect(&socket)?;
    }
    let stream = connected(socket, address).await?;
    let at_ns = monotonic_ns();
    // With TCP_FASTOPEN_CONNECT and a cookie, connect(2) returns in state SYN_SENT, and the first write sends
    // the SYN. Without the option or the cookie, it returns in state ESTABLISHED, which is 1.
    let established = !shared.fastopen || tcp::info(&stream)?.state == 1;
    let four_tuple = FourTuple { client: stream.local_addr()?, origin: address };
    let stream = ObservedStream::new(stream, four_tuple, shared.sockets.clone());
    Ok((stream, Opened { at_ns, established, four_tuple }))
}

/// Connects a socket to `address`. Unlike tokio's `connect`, reads the socket's error only if there is one,
/// because the system call that reads the error is slow in User-Mode Linux.
async fn connected(socket: Socket, address: SocketAddr) -> io::Result<TcpStream> {
    let under_way = match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => true,
        outcome => outcome.map(|()| false)?,
    };
    let stream = TcpStream::from_std(socket.into())?;
    if under_way && stream.ready(Interest::WRITABLE | Interest::ERROR).await?.is_error() {
        stream.take_error()?.map_or(Ok(()), Err)?;
    }
    Ok(stream)
}

/// A request that was sent, and the part of its response that has arrived so far.
pub(super) struct Exchange {
    connection: Arc<Connection>,
    progress: bool,
    response: RequestRecord,
}

impl Exchange {
    pub(super) fn new(connection: Arc<Connection>, resource: usize, progress: bool) -> Self {
        Self { connection, progress, response: RequestRecord { resource, ..RequestRecord::default() } }
    }

    pub(super) fn header_arrived(&mut self, status: u16) {
        self.response.status = Some(status);
        self.report_progress();
    }

    pub(super) fn body_arrived(&mut self, bytes: usize) {
        self.response.body_bytes += bytes as u64;
        self.report_progress();
    }

    /// Reports bytes of an incomplete HTTP/2 DATA frame. `so_far` returns the number of body bytes so far.
    pub(super) fn body_read(&self, so_far: impl FnOnce() -> u64) {
        if let Some(bytes) = self.progress.then(so_far).filter(|bytes| *bytes > self.response.body_bytes) {
            self.connection.report(Report::Progress { resource: self.response.resource, bytes });
        }
    }

    fn report_progress(&self) {
        if self.progress {
            let RequestRecord { resource, body_bytes: bytes, .. } = self.response;
            self.connection.report(Report::Progress { resource, bytes });
        }
    }

    pub(super) fn end_stream(self, outcome: Result<(), impl ToString>, traffic: StreamTraffic) {
        self.end(outcome.map(|()| true).map_err(|error| error.to_string()), |response| {
            response.sent_ns = traffic.written.first_ns;
            response.first_byte_ns = traffic.read.first_ns;
            response.end_ns = traffic.read.last_ns;
            response.header_bytes = traffic.read.header_bytes;
        });
    }

    /// Reports the end of the request. `measure` completes the record. For `outcome`, see [`Report::End`].
    pub(super) fn end(self, outcome: Result<bool, String>, measure: impl FnOnce(&mut RequestRecord)) {
        let Self { connection, mut response, .. } = self;
        measure(&mut response);
        response.end_ns = response.end_ns.filter(|_| outcome.is_ok());
        connection.report(Report::End { connection: connection.id, response, outcome });
    }
}
