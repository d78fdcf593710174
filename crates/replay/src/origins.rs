//! The origins themselves: one listener a port for all hosts, each host known by the address that was connected to.

mod http2;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use fastopen_netns::clock::{exact_timers, monotonic_ns, sleep_until};
use fastopen_netns::namespace::NetNs;
use fastopen_netns::tcp::set_fastopen_queue;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, SERVER};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::body::SizedBody;
use crate::cors;
use crate::head::{fill, head_bytes, pad};
use crate::http2::UNSENT;
use crate::keeping::Keeping;
use crate::log::{AnswerSize, Log, Secured};
use crate::stream::{Connections, Duplex, Ends, ObservedStream, Watch, WatchedStream};
use crate::tls::Session;

/// The request header by which a client names the resource (by index) where several have the same URL.
pub const RESOURCE_HEADER: &str = "x-resource";

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 8192;

/// What is served, and how.
#[derive(Debug, Clone)]
pub struct Site {
    /// Every resource, by its index in the page, as it is served in the clear.
    pub resources: Vec<Served>,
    /// Ports to listen on, each for every host.
    pub ports: BTreeSet<u16>,
    /// Whether a connection may serve another request.
    pub keep_alive: bool,
    /// Length of the listeners' Fast Open queue (connections whose handshake is not over).
    pub fastopen_queue: i32,
    /// The hosts that speak HTTP/2 and nothing else: over TLS as ALPN says, in the clear without asking (RFC 9113 section 3.3).
    pub http2: BTreeSet<Ipv4Addr>,
    /// What the loads need that ask for TLS.
    pub tls: Option<OverTls>,
}

/// How a site is served over TLS.
#[derive(Debug, Clone)]
pub struct OverTls {
    /// How each host speaks it.
    pub servers: BTreeMap<Ipv4Addr, Arc<ServerConfig>>,
    /// The same resources: other in what they say of each other, whose URLs are `https` then.
    pub resources: Vec<Served>,
}

/// One resource as an origin serves it.
#[derive(Debug, Clone)]
pub struct Served {
    /// The origin: the address of its host, and its port.
    pub origin: SocketAddrV4,
    /// Method and request target (path and query).
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The same as browsers write it.
    pub normalized_target: String,
    /// Status code of the response.
    pub status: u16,
    /// Content-Type of the response.
    pub mime: String,
    /// Location of a redirect.
    pub location: Option<String>,
    /// Bytes of the response's head; what has to be in it may make it longer.
    pub header_bytes: u32,
    /// The body.
    pub body: SizedBody,
    /// Time from the last byte of the request to the first of the response, in nanoseconds.
    pub think_ns: u64,
    /// What it says of keeping it; none: nothing, and it is never confirmed.
    pub keeping: Option<Keeping>,
    /// Whether to refuse a browser that asks for leave (a CORS preflight) with this request.
    pub refuses: bool,
}

/// Which resources answer to an origin, method and target; usually one.
type Index = BTreeMap<(SocketAddrV4, String, String), Candidates>;

#[derive(Debug, Default)]
struct Candidates {
    resources: Vec<usize>,
    /// How often the URL was asked for without naming the resource.
    asked: Mutex<usize>,
}

struct Shared {
    site: Site,
    index: Index,
    connections: Arc<Connections>,
    log: Log,
    /// Whether the load speaks TLS.
    encrypted: AtomicBool,
}

/// Running origin servers. They stop when dropped.
pub struct Origins {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Origins {
    /// Starts them on a thread of their own inside `namespace`; they are listening when this returns.
    ///
    /// # Errors
    /// Where the namespace cannot be entered or a port not be listened on.
    pub fn start(namespace: &NetNs, site: Site) -> io::Result<Self> {
        let mut index = Index::new();
        for (number, served) in site.resources.iter().enumerate() {
            for target in BTreeSet::from([&served.target, &served.normalized_target]) {
                let key = (served.origin, served.method.clone(), target.clone());
                index.entry(key).or_default().resources.push(number);
            }
        }
        let shared = Arc::new(Shared {
            site,
            index,
            connections: Arc::default(),
            log: Log::default(),
            encrypted: AtomicBool::new(false),
        });
        let (stop, stopped) = oneshot::channel();
        let (started, start) = mpsc::channel();
        let (namespace, served) = (namespace.clone(), shared.clone());
        let thread = thread::Builder::new().name("origins".into()).spawn(move || {
            let listening =
                namespace.enter().map_err(io::Error::other).and_then(|()| Listening::open(&served.site));
            match listening {
                Ok(listening) => {
                    let _ = started.send(Ok(()));
                    listening.serve(&served, stopped);
                }
                Err(error) => drop(started.send(Err(error))),
            }
        })?;
        start.recv().map_err(io::Error::other)??;
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The origins' ends of the connections.
    pub fn connections(&self) -> &Connections {
        &self.shared.connections
    }

    /// What they saw since the load began.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Forgets what was seen, and how often each URL was asked for; from now on every origin speaks TLS on its port, or none does.
    pub fn begin_load(&self, encrypted: bool) {
        self.shared.log.begin();
        self.shared.encrypted.store(encrypted, Ordering::Relaxed);
        for candidates in self.shared.index.values() {
            *candidates.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = 0;
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

struct Listening {
    runtime: tokio::runtime::Runtime,
    listeners: Vec<TcpListener>,
}

impl Listening {
    fn open(site: &Site) -> io::Result<Self> {
        exact_timers();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.enter();
        let listen = |port: &u16| {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)))?;
            set_fastopen_queue(&socket, site.fastopen_queue)?;
            // The connections that it accepts have it from here.
            socket.set_nodelay(true)?;
            socket.listen(BACKLOG)
        };
        let listeners = site.ports.iter().map(listen).collect::<io::Result<_>>()?;
        drop(guard);
        Ok(Self { runtime, listeners })
    }

    /// Serves until `stopped` says so or its other end is gone.
    fn serve(self, shared: &Arc<Shared>, stopped: oneshot::Receiver<()>) {
        let Self { runtime, listeners } = self;
        for listener in listeners {
            runtime.spawn(accept(listener, shared.clone()));
        }
        let _ = runtime.block_on(stopped);
        shared.connections.reset_on_close();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // An error here is a connection that went before it was accepted, or no descriptors for the moment.
        match listener.accept().await {
            Ok((stream, SocketAddr::V4(client))) => drop(tokio::spawn(serve(stream, client, shared.clone()))),
            Ok(_) => {}
            Err(_) => drop(sleep_until(monotonic_ns() + 1_000_000).await),
        }
    }
}

async fn serve(stream: TcpStream, client: SocketAddrV4, shared: Arc<Shared>) {
    let Ok(SocketAddr::V4(origin)) = stream.local_addr() else { return };
    if shared.site.http2.contains(origin.ip()) {
        let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
    }
    let ends = Ends { client, origin };
    shared.log.accepted(ends, monotonic_ns());
    let stream = ObservedStream::new(stream, ends, shared.connections.clone());
    if !shared.encrypted.load(Ordering::Relaxed) {
        return serve_http(stream, ends, shared).await;
    }
    let servers = shared.site.tls.as_ref().map(|tls| &tls.servers);
    let Some(tls) = servers.and_then(|servers| servers.get(origin.ip()).cloned()) else { return };
    let stream = WatchedStream::new(stream);
    let watch = stream.watch();
    if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
        let session = Session::of(stream.get_ref().1);
        shared.log.secured(ends, Secured { at_ns: monotonic_ns(), session, traffic: watch.traffic() });
        serve_http(stream, ends, shared).await;
    }
}

async fn serve_http(stream: impl Duplex + 'static, ends: Ends, shared: Arc<Shared>) {
    if shared.site.http2.contains(ends.origin.ip()) {
        return http2::serve(stream, ends, shared).await;
    }
    let stream = WatchedStream::new(stream);
    let watch = stream.watch();
    let answer = service_fn(|request| {
        let (shared, watch) = (shared.clone(), watch.clone());
        async move { Ok::<_, Infallible>(shared.answer(ends, &watch, request).await) }
    });
    // Errors are the client's doing (a reset at the end of a load) and show in its own record.
    let _ = hyper::server::conn::http1::Builder::new()
        .auto_date_header(false)
        .keep_alive(shared.site.keep_alive)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

impl Shared {
    async fn answer(&self, ends: Ends, watch: &Watch, request: Request<Incoming>) -> Response<SizedBody> {
        let (head, body) = request.into_parts();
        let found = self.find(ends.origin, &head);
        let _ = body.collect().await;
        let arrived = monotonic_ns();
        let response = self.response(found, &head);
        self.log.arrived(ends, found, arrived, size(&response), watch);
        self.think(found, arrived).await;
        response
    }

    /// What is served in this load.
    fn resources(&self) -> &[Served] {
        match &self.site.tls {
            Some(tls) if self.encrypted.load(Ordering::Relaxed) => &tls.resources,
            _ => &self.site.resources,
        }
    }

    /// Until the answer may begin to what had arrived at `arrived_ns`.
    async fn think(&self, found: Option<usize>, arrived_ns: u64) {
        if let Some(served) = found.and_then(|number| self.resources().get(number)) {
            let _ = sleep_until(arrived_ns + served.think_ns).await;
        }
    }

    /// Which resource is asked for.
    fn find(&self, origin: SocketAddrV4, request: &Parts) -> Option<usize> {
        let Parts { method, uri, headers, .. } = request;
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let named = headers.get(RESOURCE_HEADER).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        let key = (origin, method.as_str().to_owned(), target.to_owned());
        let candidates = self.index.get(&key)?;
        named.filter(|number| candidates.resources.contains(number)).or_else(|| {
            // Without a name: the first time the first, and so on; from the last on always the last.
            let mut asked = candidates.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *asked += 1;
            candidates.resources.get(*asked - 1).or(candidates.resources.last()).copied()
        })
    }

    fn response(&self, found: Option<usize>, request: &Parts) -> Response<SizedBody> {
        match found.and_then(|number| self.resources().get(number)) {
            Some(served) => self.response_of(served, request),
            None => not_part_of_page(request),
        }
    }

    fn response_of(&self, served: &Served, request: &Parts) -> Response<SizedBody> {
        let kept = served.keeping.as_ref();
        let status = match kept {
            Some(kept) if kept.confirms(&request.method, &request.headers) => StatusCode::NOT_MODIFIED,
            _ => StatusCode::from_u16(served.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        let mut response = Response::new(SizedBody::default());
        *response.status_mut() = status;
        *response.version_mut() = request.version;
        let headers = response.headers_mut();
        if !served.refuses {
            cors::allow(&request.headers, headers);
        }
        if let Some(kept) = kept {
            kept.tell(headers);
        }
        let mut set = |name, value: &str| {
            // Opaque bytes beyond ASCII may stand in a header (RFC 9110 section 5.5).
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                headers.insert(name, value);
            }
        };
        set(CONTENT_TYPE, &served.mime);
        if let Some(location) = &served.location {
            set(LOCATION, location);
        }
        let bodiless = status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED
            || request.method == Method::HEAD;
        if !bodiless {
            set(CONTENT_LENGTH, &served.body.len().to_string());
        }
        if request.version == Version::HTTP_2 {
            // It has no such header (RFC 9113 section 8.2.2).
        } else if !self.site.keep_alive {
            set(CONNECTION, "close");
        } else if asks_to_keep_alive(&request.headers) {
            // HTTP/1.0 closes unless both ends say otherwise (RFC 9112 appendix C.2.2); some clients of HTTP/1.1 want to hear it too.
            set(CONNECTION, "keep-alive");
        }
        set(SERVER, "fastopen");
        let lengthen = if request.version == Version::HTTP_2 { fill } else { pad };
        lengthen(headers, "server", first_line(status), served.header_bytes as usize);
        if !bodiless {
            *response.body_mut() = served.body.clone();
        }
        response
    }
}

fn asks_to_keep_alive(headers: &HeaderMap) -> bool {
    headers.get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"keep-alive"))
}

/// Bytes of a status line.
fn first_line(status: StatusCode) -> usize {
    "HTTP/1.1 200 ".len() + status.canonical_reason().unwrap_or("<none>").len()
}

/// How long an answer is on the wire.
fn size(response: &Response<SizedBody>) -> AnswerSize {
    AnswerSize {
        status: response.status().as_u16(),
        header_bytes: head_bytes(first_line(response.status()), response.headers()) as u64,
        body_bytes: response.body().len(),
    }
}

/// The answer to what the page does not have. Leave is given all the same: whoever recorded the page may not have noted that a
/// browser asked for it.
fn not_part_of_page(request: &Parts) -> Response<SizedBody> {
    if cors::is_preflight(&request.method, &request.headers) {
        let mut response = Response::new(SizedBody::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        cors::allow(&request.headers, response.headers_mut());
        return response;
    }
    let text = "not part of this page\n";
    let mut response = Response::new(SizedBody::recorded(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = StatusCode::NOT_FOUND;
    // Said here, since hyper would, and the length of the head is to be known.
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    response
}
