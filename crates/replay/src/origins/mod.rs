//! Runs the origin servers: for each IP version and port, one listener for all hosts, and a QUIC endpoint if
//! a host uses HTTP/3. The destination address of a connection identifies the host.

mod http1;
mod http2;
mod http3;
mod index;
mod site;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use fastopen_netns::clock::{exact_timers, monotonic_ns, sleep_until};
use fastopen_netns::namespace::NetNs;
use fastopen_netns::sandbox::renounce;
use fastopen_netns::tcp::set_fastopen_queue;
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{Method, Response};
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, UdpSocket};
use tokio::sync::{oneshot, watch};

use self::index::Index;
use crate::HttpVersion;
use crate::body::SizedBody;
use crate::counters::{Duplex, Traffic, counted};
use crate::http2::NOTSENT_LOWAT;
use crate::lock;
use crate::log::{Arrived, OriginLog, TlsHandshake};
use crate::names::{self, NameLookup, Names};
use crate::quic::table::QuicTable;
use crate::quic::{QuicOrigin, Runtime};
use crate::sockets::{FourTuple, ObservedStream, SocketTable};
use crate::tls::{Handshake, Secured, Security, SessionStart, TlsStream};
use crate::tls::{wait_until_secured, with_session_limit};

pub use self::site::{RESOURCE_HEADER, ServedResource, Site, TlsSite};

const BACKLOG: u32 = 8192;

/// The first byte of a TLS connection: the record type of handshakes (RFC 8446 section 5.1).
const TLS_HANDSHAKE: &[u8] = &[22];
/// Start of HTTP/2's connection preface (RFC 9113 section 3.4). No HTTP/1.1 request starts with these bytes.
const HTTP2_PREFACE: &[u8] = b"PRI ";

/// The state that all connections of the origin servers share.
struct Shared {
    site: Site,
    index: Index,
    sockets: Arc<SocketTable>,
    quic: Arc<QuicTable>,
    log: OriginLog,
    /// For each address of a single-threaded origin, the lock that a connection holds while it is served.
    /// Empty if origins serve all connections at once.
    turns: BTreeMap<IpAddr, tokio::sync::Mutex<()>>,
    /// True if the origins use TLS in the current load.
    encrypted: AtomicBool,
    /// The permitted use of the session tickets that clients get on new connections.
    ticket_use: Mutex<SessionStart>,
    /// True during an earlier visit, in which clients get tickets or fill their caches for the measured load.
    visit: AtomicBool,
}

/// Running origin servers. They stop when dropped.
pub struct Origins {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Origins {
    /// Starts the servers on a thread inside `namespace`. When this function returns, they are listening.
    pub fn start(namespace: &NetNs, site: Site) -> io::Result<Self> {
        let single_threaded = site.versions.keys().filter(|_| site.single_threaded);
        let turns = single_threaded.map(|address| (*address, tokio::sync::Mutex::default())).collect();
        let shared = Arc::new(Shared {
            index: Index::of(&site.resources, site.accepts_similar_urls),
            site,
            sockets: Arc::default(),
            quic: Arc::default(),
            log: OriginLog::default(),
            turns,
            encrypted: AtomicBool::new(false),
            ticket_use: Mutex::new(SessionStart::None),
            visit: AtomicBool::new(false),
        });
        let (stop, stopped) = oneshot::channel();
        let (started, start) = mpsc::channel();
        let (namespace, served) = (namespace.clone(), shared.clone());
        let thread = thread::Builder::new().name("origins".into()).spawn(move || {
            let listening = namespace.enter().map_err(io::Error::other).and_then(|()| {
                let runtime = listen(&served)?;
                renounce().map_err(io::Error::other)?;
                Ok(runtime)
            });
            match listening {
                Ok(runtime) => {
                    let _ = started.send(Ok(()));
                    // Ends when the sender is dropped.
                    let _ = runtime.block_on(stopped);
                    served.sockets.reset_on_close();
                }
                Err(error) => drop(started.send(Err(error))),
            }
        })?;
        start.recv().map_err(io::Error::other)??;
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the origins' TCP sockets, with the last `TCP_INFO` of each.
    pub fn sockets(&self) -> &Arc<SocketTable> {
        &self.shared.sockets
    }

    /// Returns the origins' QUIC connections, with the packet counts of each.
    pub fn quic(&self) -> &QuicTable {
        &self.shared.quic
    }

    /// Returns the log of the current load.
    pub fn log(&self) -> &OriginLog {
        &self.shared.log
    }

    /// Begins a page load: clears the log and the counts of requests for each resource. `encrypted` is true
    /// to use TLS. `ticket_use` is the permitted use of the session tickets that clients get from now on;
    /// unless that is [`SessionStart::Early`], origins also reject early data. `visit` is true for a visit
    /// before the measured load. Origins then answer requests only after the handshake, so that clients get
    /// tickets before the response.
    pub fn begin(&self, encrypted: bool, ticket_use: SessionStart, visit: bool) {
        self.shared.visit.store(visit, Ordering::Relaxed);
        self.shared.log.clear();
        self.shared.encrypted.store(encrypted, Ordering::Relaxed);
        *lock(&self.shared.ticket_use) = ticket_use;
        self.shared.index.reset();
    }

    /// Forgets the TLS sessions of earlier loads.
    pub fn forget_sessions(&self) {
        if let Some(tls) = &self.shared.site.tls {
            tls.sessions.forget();
        }
        if let Some(tls) = self.shared.site.names.as_ref().and_then(|names| names.tls.as_ref()) {
            tls.sessions.forget();
        }
    }
}

impl Drop for Origins {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Opens all listeners. Returns a runtime that serves connections and DNS queries while it runs.
fn listen(shared: &Arc<Shared>) -> io::Result<Runtime> {
    let site = &shared.site;
    exact_timers();
    let runtime = Runtime::new()?;
    let guard = runtime.enter();
    let listen = |address: SocketAddr| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        if address.is_ipv6() {
            // With both versions of IP, each has its own listener.
            SockRef::from(&socket).set_only_v6(true)?;
        }
        socket.bind(address)?;
        set_fastopen_queue(&socket, site.fastopen_queue)?;
        // Accepted sockets inherit this option.
        socket.set_nodelay(true)?;
        socket.listen(BACKLOG)
    };
    let versions = site.ip.all().iter();
    let every_host: Vec<_> = versions
        .flat_map(|one| site.ports.iter().map(|port| SocketAddr::new(one.unspecified(), *port)))
        .collect();
    let listeners: Vec<_> = every_host.iter().copied().map(listen).collect::<io::Result<_>>()?;
    match &site.names {
        Some(names) if !names.protocol.is_over_tcp() => {
            let socket = std::net::UdpSocket::bind(names.address)?;
            socket.set_nonblocking(true)?;
            let (socket, names, shared) = (UdpSocket::from_std(socket)?, names.clone(), shared.clone());
            runtime.spawn(async move { names::serve(&socket, &names, &shared.log).await });
        }
        // If the page uses this port, the page's listener already accepts the resolver's connections.
        Some(names) if !site.ports.contains(&names.address.port()) => {
            runtime.spawn(accept(listen(names.address)?, shared.clone()));
        }
        _ => {}
    }
    // Any host's TLS configuration will do here. Each connection gets its own host's certificate.
    let tls = site.tls.as_ref().and_then(|tls| Some((tls.quic.as_ref()?, tls.servers.values().next()?)));
    if let Some((quic, tls)) = tls {
        for address in every_host {
            let origin = QuicOrigin::listen(address, quic.clone(), tls, &shared.quic)?;
            runtime.spawn(http3::listen(Arc::new(origin), shared.clone()));
        }
    }
    for listener in listeners {
        runtime.spawn(accept(listener, shared.clone()));
    }
    drop(guard);
    Ok(runtime)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // accept(2) fails for a connection that was already reset, and while file descriptors are exhausted.
        match listener.accept().await {
            Ok((stream, client)) => {
                let Ok(origin) = stream.local_addr() else { continue };
                let four_tuple = FourTuple { client, origin };
                shared.log.accepted(four_tuple, monotonic_ns());
                let stream = ObservedStream::accepted(stream, four_tuple, shared.sockets.clone());
                tokio::spawn(serve_in_turn(stream, four_tuple, shared.clone()));
            }
            Err(_) => drop(sleep_until(monotonic_ns() + 1_000_000).await),
        }
    }
}

/// Serves a connection. A single-threaded origin first finishes all connections that it accepted earlier.
async fn serve_in_turn(stream: ObservedStream, four_tuple: FourTuple, shared: Arc<Shared>) {
    // The lock is fair: waiting connections get it in the order in which they asked.
    let _turn = match shared.turns.get(&four_tuple.origin.ip()) {
        Some(turn) => Some(turn.lock().await),
        None => None,
    };
    serve(stream, four_tuple, shared.clone()).await;
}

async fn serve(stream: ObservedStream, four_tuple: FourTuple, shared: Arc<Shared>) {
    let origin = four_tuple.origin;
    if shared.site.version(origin.ip()).is_multiplexed() {
        stream.limit_unsent(NOTSENT_LOWAT);
    }
    if let Some(names) = shared.resolver_at(origin) {
        return serve_names(stream, names, four_tuple, &shared).await;
    }
    let tls = shared.site.tls.as_ref().filter(|_| shared.encrypted.load(Ordering::Relaxed));
    let encrypted = match tls.map(|tls| tls.security) {
        None => false,
        Some(Security::Tls) => true,
        Some(Security::Recorded) => stream.begins_with(TLS_HANDSHAKE).await,
    };
    if !encrypted {
        // In a load with TLS, cleartext connections speak HTTP/1.1, as on the web, unless the client has
        // prior knowledge (RFC 9113 section 3.3).
        let http2 = tls.is_none() || stream.begins_with(HTTP2_PREFACE).await;
        let secured = watch::Sender::new(true).subscribe();
        let connection = Connection { four_tuple, encrypted, http2, secured };
        return serve_http(stream, connection, shared).await;
    }
    let Some(config) = tls.and_then(|tls| tls.servers.get(&origin.ip())) else { return };
    if let Ok(stream) = accept_tls(config, stream, four_tuple, &shared).await {
        let secured = stream.secured();
        serve_http(stream, Connection { four_tuple, encrypted, http2: true, secured }, shared).await;
    }
}

/// Accepts a TLS connection with the current limit on the use of session tickets. Logs its handshake.
async fn accept_tls(
    config: &ServerConfig,
    stream: ObservedStream,
    four_tuple: FourTuple,
    shared: &Arc<Shared>,
) -> io::Result<TlsStream<impl Duplex + use<>>> {
    let config = Arc::new(with_session_limit(config, *lock(&shared.ticket_use)));
    let (stream, counters) = counted::<Traffic>(stream);
    let logged = shared.clone();
    let observer = move |handshake: Handshake| {
        let (at_ns, traffic) = (monotonic_ns(), counters.with(|traffic| *traffic));
        logged.log.tls_handshake(four_tuple, TlsHandshake { at_ns, handshake, traffic });
    };
    TlsStream::accept(config, stream, observer).await
}

async fn serve_names(stream: ObservedStream, names: &Names, four_tuple: FourTuple, shared: &Arc<Shared>) {
    let Some(tls) = &names.tls else {
        let _ = names::serve_stream(stream, names, &shared.log).await;
        return;
    };
    let Ok(stream) = accept_tls(&tls.config, stream, four_tuple, shared).await else { return };
    if names.protocol == NameLookup::Doh {
        let secured = stream.secured();
        let connection = Connection { four_tuple, encrypted: true, http2: true, secured };
        http2::serve(stream, connection, shared.clone()).await;
    } else {
        let _ = names::serve_stream(stream, names, &shared.log).await;
    }
}

#[derive(Clone)]
struct Connection {
    four_tuple: FourTuple,
    encrypted: bool,
    /// True to serve HTTP/2 if the host supports it; false to serve HTTP/1. False for a cleartext connection
    /// that does not begin with HTTP/2's preface, in a page load with TLS. Unused for QUIC.
    http2: bool,
    secured: Secured,
}

impl Connection {
    /// Waits until a request may be processed. Early data may be a replay, so a request with an unsafe method
    /// waits for the end of the handshake (RFC 8470 section 3). In a visit before a load, all requests wait.
    async fn may_process(&self, method: &Method, shared: &Shared) {
        if !method.is_safe() || shared.visit.load(Ordering::Relaxed) {
            wait_until_secured(self.secured.clone()).await;
        }
    }
}

async fn serve_http(stream: impl Duplex, connection: Connection, shared: Arc<Shared>) {
    match shared.site.version(connection.four_tuple.origin.ip()).over_tcp() {
        HttpVersion::Http2 if connection.http2 => {
            http2::serve(stream, connection, shared).await;
        }
        _ => http1::serve(stream, connection, shared).await,
    }
}

impl Shared {
    fn resolver_at(&self, address: SocketAddr) -> Option<&Names> {
        self.site.names.as_ref().filter(|names| names.address == address)
    }

    /// Returns the index of the resource to send, and the requested URL if URL or method differ from those of
    /// the resource. If none fits, returns `None` and a string with method and URL: `GET http://a.test/`.
    fn find(&self, connection: &Connection, request: &Parts) -> (Option<usize>, Option<Arc<str>>) {
        let found = self.index.find(connection.four_tuple.origin, request);
        let url = || {
            let scheme = if connection.encrypted { "https" } else { "http" };
            let host = request.headers.get(HOST).and_then(|host| host.to_str().ok());
            let host = host.or(request.uri.authority().map(Authority::as_str)).unwrap_or_default();
            let target = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
            let method = if found.is_none() { format!("{} ", request.method) } else { String::new() };
            format!("{method}{scheme}://{host}{target}").into()
        };
        let exact = found.is_some_and(|(_, exact)| exact);
        (found.map(|(resource, _)| resource), (!exact).then(url))
    }

    /// Waits until a request may be processed. Returns the response and the request's log entry. The entry's
    /// `due_ns` is the time to send the response. `found` is the result of [`Self::find`].
    async fn respond(
        &self,
        connection: &Connection,
        request: &Parts,
        found: (Option<usize>, Option<Arc<str>>),
    ) -> (Response<SizedBody>, Arrived) {
        connection.may_process(&request.method, self).await;
        let ((resource, url), at_ns) = (found, monotonic_ns());
        let served = resource.and_then(|number| self.resources().get(number));
        let response = match served {
            Some(served) => self.site.response(served, request),
            None => site::not_found(request),
        };
        let due_ns = at_ns + served.map_or(0, |served| served.think_ns);
        let (four_tuple, status) = (connection.four_tuple, response.status().as_u16());
        (response, Arrived { four_tuple, resource, url, at_ns, due_ns, status })
    }

    fn resources(&self) -> &[ServedResource] {
        match &self.site.tls {
            Some(tls) if self.encrypted.load(Ordering::Relaxed) => &tls.resources,
            _ => &self.site.resources,
        }
    }
}
