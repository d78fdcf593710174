//! The built-in client: drives the page scheduler with real connections, inside the client's namespace.
//!
//! One tokio thread; one task for each connection, and with HTTP/2 one for each request. A task tells the loop what happened, the
//! loop tells the scheduler, and the scheduler's actions go back to the tasks. Every time stamp is taken where the thing happens.

mod connection;
mod message;
mod one_by_one;
mod streams;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddrV4;
use std::panic;
use std::sync::Arc;

use fastopen_netns::clock::{Alarm, monotonic_ns};
use fastopen_page::{Action, ConnectionId, Event, Origin, PolicyError, ResourceState, Scheduler};
use fastopen_replay::body::SizedBody;
use fastopen_replay::stream::{Connections, Ends};
use hyper::{Request, Version};
use rustls::ClientConfig;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::connection::Connection;
use crate::clients::{Loaded, Loading};
use crate::contract::{ConnectionRecord, RequestRecord, SeenAt, TlsRecord};

/// Loads the page. To be called on a thread inside the client's namespace.
///
/// When this returns, every connection has been told to end with a reset; `after` runs before that, while sockets and counters
/// still stand as the load left them.
///
/// # Errors
/// Where the runtime cannot be made, or the policy asks for the impossible.
pub fn load(loading: &Loading, after: &mut dyn FnMut()) -> io::Result<Loaded> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sockets = Arc::new(Connections::default());
    let invalid = |error: PolicyError| io::Error::new(io::ErrorKind::InvalidInput, error);
    let scheduler = Scheduler::new(loading.page, loading.policy).map_err(invalid)?;
    let messages: Vec<_> = (0..loading.page.resources.len()).map(|number| loading.message(number)).collect();
    let reach = |(address, origin): (_, &Origin)| Reach { address, version: loading.version(&origin.host) };
    let origins = loading.addresses.iter().copied().zip(scheduler.origins()).map(reach).collect();
    let (loaded, open) = runtime.block_on(async {
        let (events, reports) = unbounded_channel();
        let alarm = Alarm::new()?;
        let driver = Driver {
            scheduler,
            origins,
            fastopen: loading.fastopen,
            tls: loading.tls.clone(),
            first_port: loading.first_port,
            timeout_ns: loading.timeout_ns,
            start_ns: monotonic_ns(),
            events,
            sockets: sockets.clone(),
            commands: BTreeMap::new(),
            requests: vec![RequestRecord::default(); messages.len()],
            messages,
            connections: Vec::new(),
            ends: Vec::new(),
            connection_error: None,
        };
        // A task like the connections': for the runtime's own future, tokio asks the kernel for news before each step.
        let loaded = tokio::spawn(driver.run(reports, alarm)).await;
        Ok::<_, io::Error>(loaded.unwrap_or_else(|error| panic::resume_unwind(error.into_panic())))
    })?;
    after();
    sockets.reset_on_close();
    drop((open, runtime));
    Ok(loaded)
}

/// A request that a connection is to send.
struct Command {
    /// Index of its resource.
    resource: usize,
    request: Request<SizedBody>,
    /// Whether to tell of each part of the answer. Each word wakes the loop, so nothing is said that nobody waits for.
    progress: bool,
}

/// What a connection's task tells.
enum Report {
    Ready(ConnectionId, Opened),
    Failed(ConnectionId, io::Error),
    Closed(ConnectionId),
    Progress { resource: usize, bytes: u64 },
    End { connection: ConnectionId, resource: usize, reusable: bool, answer: Answer },
    Broken { connection: ConnectionId, resource: usize, answered: bool, answer: Answer, error: String },
}

/// What a connection was when it became usable.
struct Opened {
    /// When TCP was done with.
    at_ns: u64,
    /// Whether the handshake was over then; else the first write makes the SYN.
    established: bool,
    ends: Ends,
    /// What TLS came to; its time is of the monotonic clock.
    tls: Option<TlsRecord>,
}

/// What is known of one request and its answer; times of the monotonic clock.
#[derive(Default)]
struct Answer {
    sent_ns: Option<u64>,
    first_byte_ns: Option<u64>,
    end_ns: Option<u64>,
    status: Option<u16>,
    header_bytes: u64,
    body_bytes: u64,
}

/// How to reach one of the page's origins.
#[derive(Clone, Copy)]
struct Reach {
    address: SocketAddrV4,
    version: Version,
}

/// Where to send each open connection its next request.
type Open = BTreeMap<ConnectionId, UnboundedSender<Command>>;

struct Driver {
    scheduler: Scheduler,
    /// By the scheduler's number.
    origins: Vec<Reach>,
    /// What to ask for each resource with.
    messages: Vec<Request<SizedBody>>,
    fastopen: bool,
    tls: Option<Arc<ClientConfig>>,
    first_port: Option<u16>,
    timeout_ns: u64,
    start_ns: u64,
    events: UnboundedSender<Report>,
    sockets: Arc<Connections>,
    commands: Open,
    requests: Vec<RequestRecord>,
    connections: Vec<ConnectionRecord>,
    /// The addresses of each, once it has them.
    ends: Vec<Option<Ends>>,
    connection_error: Option<String>,
}

impl Driver {
    /// Loads, and gives back what happened and the connections that are open, which end when nobody holds them.
    async fn run(mut self, mut reports: UnboundedReceiver<Report>, mut alarm: Alarm) -> (Loaded, Open) {
        let deadline = self.start_ns + self.timeout_ns;
        self.scheduler.handle(0, Event::Start);
        self.act();
        while !self.scheduler.is_finished() && monotonic_ns() < deadline {
            let wakeup =
                self.scheduler.next_wakeup().map_or(deadline, |at| (self.start_ns + at).min(deadline));
            tokio::select! {
                biased;
                report = reports.recv() => self.take(report.expect("the driver holds a sender")),
                _ = alarm.wait_until(wakeup) => self.scheduler.advance(self.now()),
            }
            self.act();
        }
        self.finish()
    }

    fn now(&self) -> u64 {
        monotonic_ns() - self.start_ns
    }

    fn since_start(&self, at_ns: Option<u64>) -> Option<u64> {
        at_ns.map(|at| at.saturating_sub(self.start_ns))
    }

    fn take(&mut self, report: Report) {
        let now = self.now();
        let event = match report {
            Report::Ready(connection, opened) => {
                let at_ns = opened.at_ns.saturating_sub(self.start_ns);
                let record = &mut self.connections[connection.0];
                record.client_port = Some(opened.ends.client.port());
                self.ends[connection.0] = Some(opened.ends);
                record.connected_ns = Some(at_ns);
                record.handshake_us = opened.established.then(|| (at_ns - record.opened_ns) / 1000);
                record.tls = opened
                    .tls
                    .map(|tls| TlsRecord { secured_ns: tls.secured_ns.saturating_sub(self.start_ns), ..tls });
                Event::ConnectionReady { connection }
            }
            Report::Failed(connection, error) => {
                self.commands.remove(&connection);
                self.connection_error = Some(format!("connection failed: {error}"));
                Event::ConnectionFailed { connection }
            }
            Report::Closed(connection) => {
                self.commands.remove(&connection);
                Event::ConnectionClosed { connection }
            }
            Report::Progress { resource, bytes } => Event::BodyProgress { resource, bytes_so_far: bytes },
            Report::End { connection, resource, reusable, answer } => {
                self.note(resource, &answer, None);
                Event::ResponseEnd { resource, connection, reusable }
            }
            Report::Broken { connection, resource, answered, answer, error } => {
                self.note(resource, &answer, Some(error));
                Event::ResponseFailed { resource, connection, answered }
            }
        };
        self.scheduler.handle(now, event);
    }

    fn note(&mut self, resource: usize, answer: &Answer, error: Option<String>) {
        let [sent_ns, first_byte_ns, end_ns] =
            [answer.sent_ns, answer.first_byte_ns, answer.end_ns].map(|at| self.since_start(at));
        let request = &mut self.requests[resource];
        request.sent_ns = sent_ns;
        request.first_byte_ns = first_byte_ns;
        request.end_ns = end_ns;
        request.status = answer.status;
        request.header_bytes = answer.header_bytes;
        request.body_bytes = answer.body_bytes;
        request.error = error;
    }

    fn act(&mut self) {
        while let Some(action) = self.scheduler.next_action() {
            match action {
                Action::Open { connection, origin } => self.open(connection, origin.0),
                Action::Send { connection, resource } => self.send(connection, resource),
                Action::Close { connection } => drop(self.commands.remove(&connection)),
            }
        }
    }

    fn open(&mut self, id: ConnectionId, origin: usize) {
        let server = &self.scheduler.origins()[origin];
        let Reach { address, version } = self.origins[origin];
        self.connections.push(ConnectionRecord {
            id: id.0,
            host: server.host.clone(),
            port: server.port,
            client_port: None,
            opened_ns: self.now(),
            connected_ns: None,
            handshake_us: None,
            tls: None,
            multiplexed: version == Version::HTTP_2,
            requests: 0,
            client: None,
            origin: None,
        });
        self.ends.push(None);
        let (command, commands) = unbounded_channel();
        self.commands.insert(id, command);
        let task = Connection {
            id,
            address,
            fastopen: self.fastopen,
            version,
            tls: self.tls.clone().map(|tls| (tls, server.host.clone())),
            // Beyond the last port the kernel chooses.
            port: self.first_port.and_then(|first| first.checked_add(u16::try_from(id.0).ok()?)),
            sockets: self.sockets.clone(),
            events: self.events.clone(),
        };
        tokio::spawn(task.run(commands));
    }

    fn send(&mut self, id: ConnectionId, resource: usize) {
        let connection = &mut self.connections[id.0];
        let request = &mut self.requests[resource];
        request.connection = Some(id.0);
        if connection.requests == 0 {
            request.connect_start_ns = Some(connection.opened_ns);
            request.connected_ns = connection.connected_ns;
        } else {
            (request.connect_start_ns, request.connected_ns) = (None, None);
        }
        connection.requests += 1;
        let command = Command {
            resource,
            request: self.messages[resource].clone(),
            progress: self.scheduler.wants_progress(resource),
        };
        match self.commands.get(&id) {
            Some(commands) if commands.send(command).is_ok() => {}
            // The task ended a moment ago; what it said of it is on its way.
            _ => {
                let error = "the connection was closed".to_owned();
                let answer = Answer::default();
                let _ = self.events.send(Report::Broken {
                    connection: id,
                    resource,
                    answered: false,
                    answer,
                    error,
                });
            }
        }
    }

    fn finish(self) -> (Loaded, Open) {
        let Self {
            scheduler, commands, mut requests, mut connections, ends, sockets, connection_error, ..
        } = self;
        for (resource, request) in requests.iter_mut().enumerate() {
            request.resource = resource;
            request.queued_ns = scheduler.queued_at(resource);
            request.error = match scheduler.state(resource) {
                ResourceState::Ended { .. } | ResourceState::NotSelected => None,
                ResourceState::Failed { .. } => request.error.take().or_else(|| connection_error.clone()),
                ResourceState::NeverRequested => {
                    Some("never asked for, since what leads to it failed".into())
                }
                ResourceState::Requested => Some("no answer in the time given".into()),
                ResourceState::Unknown | ResourceState::Processing => {
                    Some("not asked for in the time given".into())
                }
            };
        }
        requests.retain(|request| scheduler.state(request.resource) != ResourceState::NotSelected);
        let evidence = sockets.evidence();
        for (connection, ends) in connections.iter_mut().zip(&ends) {
            connection.client = ends.and_then(|ends| evidence.get(&ends)).copied().map(Into::into);
        }
        let loaded = Loaded {
            plt_ns: scheduler.plt(),
            unfinished: (!scheduler.is_finished()).then(|| "not finished in the time given".into()),
            seen_at: SeenAt::Client,
            strange_requests: 0,
            requests,
            connections,
            ends,
            browser: None,
        };
        (loaded, commands)
    }
}
