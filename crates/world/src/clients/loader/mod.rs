//! Implements the built-in client, which loads a page over real connections as the page scheduler decides.
//!
//! One tokio thread runs the loop of the page load and a task for each connection and, with HTTP/2 and
//! HTTP/3, for each request. The tasks send reports to the loop. The loop passes the reports to the
//! scheduler, and sends the scheduler's actions to the tasks. The tasks measure all times.

mod connection;
mod lookup;
mod request;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic;
use std::sync::Arc;

use fastopen_netns::clock::{Alarm, monotonic_ns};
use fastopen_page::{Action, ConnectionId, Event, Origin, ResourceState, Scheduler, is_name};
use fastopen_replay::HttpVersion;
use fastopen_replay::body::SizedBody;
use fastopen_replay::quic::Runtime;
use hyper::Request;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use self::connection::{Connection, QueuedRequest, Report, Shared};
use self::lookup::{Lookup, Pending, Stream, look_up};
use crate::clients::tls::{Secure, fetch_tickets};
use crate::clients::{Loaded, Loading, UserAgent};
use crate::contract::{
    ConnectionRecord, Fault, LookupRecord, NameLookup, QuicRecord, RequestRecord, TlsRecord,
};
use crate::engine::first_port;
use crate::failure::{Blame, Failure};

/// The built-in client: requests the page's resources as the scheduler decides, without a browser.
pub struct Loader;

impl UserAgent for Loader {
    /// Fetches session tickets from the resolver and the hosts that use TLS, without sending any request.
    fn visit(&mut self, loading: &Loading) -> Result<(), Failure> {
        let Secure { tls, quic, lookups } = &loading.secure;
        let tickets = loading.job.tls.tickets;
        let visiting = "the earlier visit";
        if let Some((resolver, tls)) = loading.resolver.zip(lookups.as_ref()) {
            let server = BTreeMap::from([(resolver.ip().to_string(), (resolver, HttpVersion::Http2))]);
            fetch_tickets(tls, None, tickets, &server).blame(Fault::World, visiting)?;
        }
        let Some(tls) = tls else { return Ok(()) };
        let urls = loading.job.page.resources.iter().map(|resource| &resource.url);
        let hosts = urls
            .filter(|url| url.is_encrypted(loading.schemes))
            .map(|url| {
                let address = SocketAddr::new(loading.hosts[url.host()].preferred, url.port());
                (url.host().to_owned(), (address, loading.http_at(url)))
            })
            .collect();
        fetch_tickets(tls, quic.as_ref(), tickets, &hosts).blame(Fault::World, visiting)
    }

    fn load(&mut self, loading: &Loading, after: &mut dyn FnMut()) -> Result<Loaded, Failure> {
        load(loading, after).blame(Fault::Machine, "running the loader")
    }
}

/// Loads the page. Calls `after` at the end, and then resets all connections.
fn load(loading: &Loading, after: &mut dyn FnMut()) -> io::Result<Loaded> {
    let runtime = Runtime::new()?;
    let (reporter, reports) = unbounded_channel();
    let shared = Arc::new(Shared {
        fastopen: loading.fastopen,
        secure: loading.secure.clone(),
        sockets: Arc::default(),
        quic_table: Arc::default(),
        reports: reporter,
    });
    let scheduler = Scheduler::new(&loading.job.page, loading.policy);
    let requests: Vec<_> =
        (0..loading.job.page.resources.len()).map(|number| loading.request(number)).collect();
    let urls = loading.job.page.resources.iter().map(|resource| &resource.url);
    let spoken: BTreeMap<_, _> = urls
        .map(|url| (Origin::of(url), (url.is_encrypted(loading.schemes), loading.http_at(url))))
        .collect();
    let endpoint = |(address, origin): (_, &Origin)| {
        let (encrypted, version) = spoken[origin];
        Endpoint { address, encrypted, version }
    };
    let origins = loading.addresses.iter().copied().zip(scheduler.origins()).map(endpoint).collect();
    let (loaded, senders) = runtime.block_on(async {
        let alarm = Alarm::new()?;
        let page_load = PageLoad {
            scheduler,
            origins,
            shared: shared.clone(),
            first_port: first_port(loading.engine),
            resolver: loading.resolver,
            names: loading.job.network.names,
            questions: None,
            resolver_connection: ConnectionRecord::default(),
            addresses: BTreeMap::new(),
            timeout_ns: loading.timeout_ns(),
            loaded: Loaded {
                start_ns: monotonic_ns(),
                requests: vec![RequestRecord::default(); requests.len()],
                ..Loaded::default()
            },
            senders: BTreeMap::new(),
            connecting: BTreeMap::new(),
            requests,
            connection_error: None,
        };
        // The page load is a task, because `block_on` would handle I/O (epoll) before each poll of a future.
        let loaded = tokio::spawn(page_load.run(reports, alarm)).await;
        Ok::<_, io::Error>(loaded.unwrap_or_else(|error| panic::resume_unwind(error.into_panic())))
    })?;
    after();
    shared.sockets.reset_on_close();
    // Drops the tasks before the channels to them, because closing a channel would wake its task.
    drop(runtime);
    drop(senders);
    Ok(loaded)
}

#[derive(Clone, Copy)]
struct Endpoint {
    address: SocketAddr,
    encrypted: bool,
    version: HttpVersion,
}

type Senders = BTreeMap<ConnectionId, UnboundedSender<QueuedRequest>>;

enum LookupState {
    /// The lookup is under way, and the listed connections wait for the resolver's answer.
    Asked(Vec<Waiting>),
    Known(IpAddr),
    Failed,
}

/// A connection that waits for its host's address, and the requests that it will send.
type Waiting = (Connection, UnboundedReceiver<QueuedRequest>);

struct PageLoad {
    scheduler: Scheduler,
    /// Address, encryption and HTTP version of each of the page's origins, in the scheduler's order.
    origins: Vec<Endpoint>,
    requests: Vec<Request<SizedBody>>,
    shared: Arc<Shared>,
    first_port: Option<u16>,
    /// The resolver to query; None if all addresses are known.
    resolver: Option<SocketAddr>,
    names: NameLookup,
    /// Sends names to the task of the connection to the resolver; None before the first lookup, and over UDP.
    questions: Option<UnboundedSender<(u16, Pending)>>,
    /// The record of the connection to the resolver.
    resolver_connection: ConnectionRecord,
    /// The state of the DNS lookup of each host, by host name.
    addresses: BTreeMap<String, LookupState>,
    timeout_ns: u64,
    /// The results so far. The lookups are in the order in which they began.
    loaded: Loaded,
    senders: Senders,
    /// The tasks of connections that cannot carry a request yet.
    connecting: BTreeMap<ConnectionId, AbortHandle>,
    connection_error: Option<String>,
}

impl PageLoad {
    /// Loads the page. Returns the results, and a sender for each connection that is still open. Dropping the
    /// sender closes the connection.
    async fn run(mut self, mut reports: UnboundedReceiver<Report>, mut alarm: Alarm) -> (Loaded, Senders) {
        let deadline = self.loaded.start_ns + self.timeout_ns;
        self.scheduler.handle(0, Event::Start);
        self.perform_actions().await;
        while !self.scheduler.is_finished() && monotonic_ns() < deadline {
            let wakeup =
                self.scheduler.next_wakeup().map_or(deadline, |at| (self.loaded.start_ns + at).min(deadline));
            tokio::select! {
                biased;
                report = reports.recv() => self.handle(report.expect("this end holds a sender")),
                _ = alarm.wait_until(wakeup) => self.scheduler.advance(self.now()),
            }
            self.perform_actions().await;
        }
        self.finish()
    }

    fn now(&self) -> u64 {
        monotonic_ns() - self.loaded.start_ns
    }

    fn handle(&mut self, report: Report) {
        let now = self.now();
        let event = match report {
            Report::LookedUp(lookup) => return self.looked_up(lookup),
            Report::Connected(connection, opened) => {
                let start_ns = self.loaded.start_ns;
                opened.complete(self.connection(connection), start_ns);
                let Some(connection) = connection else { return };
                Event::ConnectionEstablished(connection)
            }
            Report::Begun(connection, four_tuple) => {
                let record = &mut self.loaded.connections[connection.0];
                record.client_port = Some(four_tuple.client.port());
                record.four_tuple = Some(four_tuple);
                return;
            }
            Report::Ready(connection) => {
                self.connecting.remove(&connection);
                Event::ConnectionReady(connection)
            }
            Report::Secured(connection, tls) => {
                let secured_ns = tls.secured_ns.saturating_sub(self.loaded.start_ns);
                self.connection(connection).tls = Some(TlsRecord { secured_ns, ..tls });
                let Some(connection) = connection else { return };
                Event::ConnectionSecured(connection)
            }
            Report::Failed(connection, error) => {
                self.connecting.remove(&connection);
                self.senders.remove(&connection);
                self.connection_error = Some(format!("connection failed: {error}"));
                Event::ConnectionFailed(connection)
            }
            Report::Closed(connection) => {
                self.senders.remove(&connection);
                Event::ConnectionClosed(connection)
            }
            Report::Progress { resource, bytes } => Event::BodyProgress { resource, bytes_so_far: bytes },
            Report::End { connection, response, outcome } => {
                let (resource, answered) = (response.resource, response.first_byte_ns.is_some());
                // Ignore this report if the request was sent again on another connection.
                if self.loaded.requests[resource].connection != Some(connection.0) {
                    return;
                }
                let event = match outcome {
                    Ok(reusable) => Event::ResponseEnd { resource, connection, reusable },
                    Err(_) => Event::ResponseFailed { resource, connection, answered },
                };
                self.record(RequestRecord { error: outcome.err(), ..response });
                event
            }
        };
        self.scheduler.handle(now, event);
    }

    /// Returns the record of a connection (None: to the resolver).
    fn connection(&mut self, id: Option<ConnectionId>) -> &mut ConnectionRecord {
        id.map_or(&mut self.resolver_connection, |id| &mut self.loaded.connections[id.0])
    }

    fn record(&mut self, response: RequestRecord) {
        let since_start = |at: Option<u64>| at.map(|at| at.saturating_sub(self.loaded.start_ns));
        let record = &mut self.loaded.requests[response.resource];
        *record = RequestRecord {
            connection: record.connection,
            connect_start_ns: record.connect_start_ns,
            connected_ns: record.connected_ns,
            sent_ns: since_start(response.sent_ns),
            first_byte_ns: since_start(response.first_byte_ns),
            end_ns: since_start(response.end_ns),
            ..response
        };
    }

    /// Performs the scheduler's next actions: opens connections, queues requests and closes connections.
    async fn perform_actions(&mut self) {
        let mut sending = false;
        while let Some(action) = self.scheduler.next_action() {
            match action {
                Action::Open { connection, origin, fallback } => {
                    if std::mem::take(&mut sending) {
                        // Other tasks run first and send their requests. This takes them a few polls, so the
                        // new connection's SYN would otherwise leave before the requests.
                        tokio::task::yield_now().await;
                    }
                    self.open(connection, origin.0, fallback);
                }
                Action::Send { connection, resource } => {
                    sending = true;
                    self.send(connection, resource);
                }
                Action::Close(connection) => {
                    self.senders.remove(&connection);
                    // If the connection lost a race between two handshakes, its handshake is still under way.
                    if let Some(task) = self.connecting.remove(&connection) {
                        task.abort();
                    }
                }
            }
        }
    }

    fn open(&mut self, id: ConnectionId, origin: usize, fallback: bool) {
        let server = &self.scheduler.origins()[origin];
        let host = server.host.clone();
        let Endpoint { version, address, encrypted } = self.origins[origin];
        let version = if fallback { version.over_tcp() } else { version };
        self.loaded.connections.push(ConnectionRecord {
            id: id.0,
            host: host.clone(),
            port: server.port,
            opened_ns: self.now(),
            multiplexed: version.is_multiplexed(),
            address: Some(address.ip()),
            ..ConnectionRecord::default()
        });
        let (sender, requests) = unbounded_channel();
        self.senders.insert(id, sender);
        // If the port number would be above 65,535, the kernel chooses the port.
        let port = self.first_port.and_then(|first| first.checked_add(u16::try_from(id.0).ok()?));
        let shared = self.shared.clone();
        self.begin((Connection { id, host, address, encrypted, version, port, shared }, requests));
    }

    /// Opens a connection as soon as its host's address is known. Starts the DNS lookup if necessary.
    fn begin(&mut self, waiting: Waiting) {
        let host = &waiting.0.host;
        if self.resolver.is_none() || !is_name(host) {
            return self.connect(waiting, None);
        }
        match self.addresses.get_mut(host) {
            Some(LookupState::Known(address)) => {
                let address = *address;
                self.connect(waiting, Some(address));
            }
            Some(LookupState::Asked(others)) => others.push(waiting),
            Some(LookupState::Failed) => self.fail(waiting.0.id),
            None => {
                let host = host.clone();
                let number = self.loaded.lookups.len() as u16;
                let asked_ns = self.now();
                let lookup = LookupRecord { host: host.clone(), asked_ns, ..LookupRecord::default() };
                self.loaded.lookups.push(lookup);
                self.addresses.insert(host.clone(), LookupState::Asked(vec![waiting]));
                self.ask(host, number);
            }
        }
    }

    fn ask(&mut self, host: String, number: u16) {
        let shared = self.shared.clone();
        let Some(resolver) = self.resolver else { return };
        let names = self.names;
        if !names.is_over_tcp() {
            tokio::spawn(async move {
                let lookup = look_up(resolver, host, number).await;
                let _ = shared.reports.send(Report::LookedUp(lookup));
            });
            return;
        }
        let now = self.now();
        let questions = self.questions.get_or_insert_with(|| {
            let (questions, asked) = unbounded_channel();
            self.resolver_connection = ConnectionRecord {
                host: resolver.ip().to_string(),
                port: resolver.port(),
                opened_ns: now,
                multiplexed: names == NameLookup::Doh,
                address: Some(resolver.ip()),
                ..ConnectionRecord::default()
            };
            tokio::spawn(Stream { resolver, names, shared }.run(asked));
            questions
        });
        self.resolver_connection.requests += 1;
        if let Err(SendError((_, mut one))) = questions.send((number, Pending::new(host))) {
            let error = format!("{}: the connection to the resolver has failed", one.record.host);
            one.record.error = Some(error);
            self.looked_up((one.record, None));
        }
    }

    /// Records a finished lookup. Opens the connections that waited for it, or marks them as failed.
    fn looked_up(&mut self, (lookup, address): Lookup) {
        let known = address.map_or(LookupState::Failed, LookupState::Known);
        let asked = self.addresses.insert(lookup.host.clone(), known);
        if lookup.error.is_some() {
            self.connection_error.clone_from(&lookup.error);
        }
        let since_start = |at: u64| at.saturating_sub(self.loaded.start_ns);
        let (asked_ns, answered_ns) = (since_start(lookup.asked_ns), lookup.answered_ns.map(since_start));
        if let Some(record) = self.loaded.lookups.iter_mut().find(|record| record.host == lookup.host) {
            *record = LookupRecord { asked_ns, answered_ns, ..lookup };
        }
        let Some(LookupState::Asked(waiting)) = asked else { return };
        for one in waiting {
            match address {
                Some(_) => self.connect(one, address),
                None => self.fail(one.0.id),
            }
        }
    }

    fn fail(&mut self, id: ConnectionId) {
        self.senders.remove(&id);
        self.scheduler.handle(self.now(), Event::ConnectionFailed(id));
    }

    /// Opens a connection to the IP address `looked_up` or, if this is None, to the address in `connection`.
    fn connect(&mut self, (mut connection, requests): Waiting, looked_up: Option<IpAddr>) {
        let id = connection.id;
        // The scheduler may have closed the connection in the meantime.
        if !self.senders.contains_key(&id) {
            return;
        }
        if self.resolver.is_some() {
            let now = self.now();
            self.loaded.connections[id.0].opened_ns = now;
            self.scheduler.handle(now, Event::ConnectionBegins(id));
        }
        if let Some(address) = looked_up {
            connection.address.set_ip(address);
        }
        self.connecting.insert(id, tokio::spawn(connection.run(requests)).abort_handle());
    }

    fn send(&mut self, id: ConnectionId, resource: usize) {
        let connection = &mut self.loaded.connections[id.0];
        let record = &mut self.loaded.requests[resource];
        record.connection = Some(id.0);
        if connection.requests == 0 {
            record.connect_start_ns = Some(connection.opened_ns);
            record.connected_ns = connection.connected_ns;
        } else {
            (record.connect_start_ns, record.connected_ns) = (None, None);
        }
        connection.requests += 1;
        let queued = QueuedRequest {
            resource,
            request: self.requests[resource].clone(),
            progress: self.scheduler.wants_progress(resource),
        };
        if self.senders.get(&id).is_none_or(|sender| sender.send(queued).is_err()) {
            // The task has ended, and its last report is still in the channel.
            let response = RequestRecord { resource, ..RequestRecord::default() };
            let outcome = Err("the connection was closed".to_owned());
            let _ = self.shared.reports.send(Report::End { connection: id, response, outcome });
        }
    }

    fn finish(self) -> (Loaded, Senders) {
        let Self { scheduler, shared, mut loaded, connection_error, senders, .. } = self;
        if self.questions.is_some() {
            let id = loaded.connections.len();
            loaded.connections.push(ConnectionRecord { id, ..self.resolver_connection });
        }
        for (resource, record) in loaded.requests.iter_mut().enumerate() {
            record.resource = resource;
            record.queued_ns = scheduler.queued_at(resource);
            record.error = match scheduler.state(resource) {
                ResourceState::Ended(_) | ResourceState::NotSelected => None,
                ResourceState::Failed(_) => record.error.take().or_else(|| connection_error.clone()),
                ResourceState::NeverRequested => Some("not requested, because its initiator failed".into()),
                ResourceState::Requested => Some("no response within the time limit".into()),
                ResourceState::Unknown | ResourceState::Processing => {
                    Some("not requested within the time limit".into())
                }
            };
        }
        loaded.requests.retain(|record| scheduler.state(record.resource) != ResourceState::NotSelected);
        let (evidence, quic) = (shared.sockets.evidence(), shared.quic_table.evidence());
        for connection in &mut loaded.connections {
            let Some(four_tuple) = &connection.four_tuple else { continue };
            connection.client = evidence.get(four_tuple).copied().map(Into::into);
            let seen = quic.get(four_tuple).copied();
            connection.quic = seen.map(|seen| QuicRecord { client: seen, origin: None });
        }
        loaded.plt_ns = scheduler.plt();
        loaded.unfinished = (!scheduler.is_finished()).then(|| "not finished within the time limit".into());
        (loaded, senders)
    }
}
