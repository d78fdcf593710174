//! A driver of the scheduler without sockets. It models a network with one RTT and a fixed rate, records all
//! actions, and panics at an action that no driver could perform.

use std::collections::BTreeMap;

use fastopen_page::{
    Action, ConnectionId, Event, Nanos, Origin, OriginId, Page, Policy, ResourceState, Scheduler,
};

pub(crate) const MS: Nanos = 1_000_000;

/// Returns the cleartext server of a host.
pub(crate) fn server(host: &str) -> Origin {
    Origin { host: host.to_owned(), port: 80 }
}

/// The outcome of a request, which the test chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    Answered {
        reusable: bool,
    },
    /// The connection breaks after one RTT and the think time: during the response if `answered`, otherwise
    /// before it.
    Broken {
        answered: bool,
    },
}

/// The behaviour of the network in a test. For each new connection, `refuses` returns true to refuse it. For
/// each request on a connection, `outcome` returns the request's outcome.
pub(crate) struct Network<'a> {
    pub(crate) rtt: Nanos,
    /// Duration of the lookup of a name, if [`Policy::lookups`] is true.
    pub(crate) lookup: Nanos,
    /// True if response bodies arrive at 1000 bytes per millisecond in steps of 1000 bytes, not at once.
    pub(crate) slow: bool,
    /// True if clients send the first request of a connection without waiting for the handshake.
    pub(crate) early: bool,
    pub(crate) refuses: Box<dyn FnMut(ConnectionId) -> bool + 'a>,
    pub(crate) outcome: Box<dyn FnMut(ConnectionId, usize) -> RequestOutcome + 'a>,
    /// Events in addition to those of the network, with their times.
    pub(crate) also: Vec<(Nanos, Event)>,
}

impl Default for Network<'_> {
    fn default() -> Self {
        Self {
            rtt: 100 * MS,
            lookup: 100 * MS,
            slow: false,
            early: false,
            refuses: Box::new(|_| false),
            outcome: Box::new(|_, _| RequestOutcome::Answered { reusable: true }),
            also: Vec::new(),
        }
    }
}

/// A load that is running or over, with the actions so far.
pub(crate) struct Load<'a> {
    pub(crate) scheduler: Scheduler,
    pub(crate) actions: Vec<(Nanos, Action)>,
    /// Largest number of connections that were open at once, to one origin and in all.
    pub(crate) most_open: (usize, usize),
    pub(crate) page: &'a Page,
    network: Network<'a>,
    now: Nanos,
    /// Future events, keyed by their time and, among equal times, by the order in which they were added.
    events: BTreeMap<(Nanos, usize), Event>,
    events_made: usize,
    connections: BTreeMap<ConnectionId, Connection>,
    policy: Policy,
}

struct Connection {
    origin: OriginId,
    ready: bool,
    in_flight: usize,
}

impl<'a> Load<'a> {
    /// Loads the page. Panics if the load takes more steps than any load can need.
    pub(crate) fn run(page: &'a Page, policy: &Policy, network: Network<'a>) -> Self {
        let mut load = Self {
            scheduler: Scheduler::new(page, policy),
            actions: Vec::new(),
            most_open: (0, 0),
            page,
            network,
            now: 0,
            events: BTreeMap::new(),
            events_made: 0,
            connections: BTreeMap::new(),
            policy: policy.clone(),
        };
        load.at(0, Event::Start);
        for (at, event) in std::mem::take(&mut load.network.also) {
            load.at(at, event);
        }
        for _ in 0..1000 * (page.resources.len() + 1) {
            if !load.step() {
                return load;
            }
        }
        panic!("the load does not finish:\n{}", load.trace().join("\n"));
    }

    /// Handles the next event or wake-up. Returns false if there is none.
    fn step(&mut self) -> bool {
        let event = self.events.first_key_value().map(|(key, _)| *key);
        match (event, self.scheduler.next_wakeup()) {
            (Some(key), wakeup) if wakeup.is_none_or(|wakeup| key.0 <= wakeup) => {
                self.now = key.0;
                let event = self.events.remove(&key).unwrap();
                self.note(event);
                self.scheduler.handle(self.now, event);
            }
            (_, Some(wakeup)) => {
                self.now = wakeup;
                self.scheduler.advance(wakeup);
            }
            (_, None) => return false,
        }
        while let Some(action) = self.scheduler.next_action() {
            self.actions.push((self.now, action));
            self.perform(action);
        }
        if self.scheduler.is_finished() {
            self.check_that_nothing_is_left();
        }
        true
    }

    fn check_that_nothing_is_left(&self) {
        assert_eq!(self.scheduler.next_wakeup(), None);
        for resource in 0..self.page.resources.len() {
            let outcome = self.scheduler.state(resource);
            let open = matches!(
                outcome,
                ResourceState::Unknown | ResourceState::Processing | ResourceState::Requested
            );
            assert!(!open, "finished, but {resource} is {outcome:?}");
        }
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::ConnectionReady(connection) => {
                if let Some(connection) = self.connections.get_mut(&connection) {
                    connection.ready = true;
                }
            }
            Event::ResponseEnd { connection, .. } | Event::ResponseFailed { connection, .. } => {
                if let Some(connection) = self.connections.get_mut(&connection) {
                    connection.in_flight -= 1;
                }
            }
            Event::ConnectionFailed(connection) | Event::ConnectionClosed(connection) => {
                self.connections.remove(&connection);
            }
            Event::Start
            | Event::ConnectionBegins(_)
            | Event::ConnectionEstablished(_)
            | Event::ConnectionSecured(_)
            | Event::BodyProgress { .. } => {}
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Open { connection, origin, .. } => self.open(connection, origin),
            Action::Send { connection, resource } => self.send(connection, resource),
            Action::Close(connection) => {
                assert!(self.connections.remove(&connection).is_some(), "closed twice: {connection}");
            }
        }
    }

    fn open(&mut self, connection: ConnectionId, origin: OriginId) {
        let before = self.connections.insert(connection, Connection { origin, ready: false, in_flight: 0 });
        assert!(before.is_none(), "opened twice: {connection}");
        let of_origin = self.connections.values().filter(|other| other.origin == origin).count();
        self.most_open = (self.most_open.0.max(of_origin), self.most_open.1.max(self.connections.len()));
        let begins = self.now + if self.policy.lookups { self.network.lookup } else { 0 };
        if self.policy.lookups {
            self.at(begins, Event::ConnectionBegins(connection));
        }
        let at = begins + if self.network.early { 0 } else { self.network.rtt };
        let refused = (self.network.refuses)(connection);
        if !refused {
            self.at(begins + self.network.rtt, Event::ConnectionSecured(connection));
        }
        self.at(
            at,
            if refused { Event::ConnectionFailed(connection) } else { Event::ConnectionReady(connection) },
        );
    }

    fn send(&mut self, connection: ConnectionId, resource: usize) {
        let sender = self.connections.get_mut(&connection).expect("only on an open connection");
        let server = &self.scheduler.origins()[sender.origin.0];
        let streams = self.policy.limits(server).streams;
        assert!(
            sender.ready && sender.in_flight < streams,
            "{connection} carries {streams} requests already"
        );
        sender.in_flight += 1;
        let requested = &self.page.resources[resource];
        assert_eq!((requested.url.host(), requested.url.port()), (server.host.as_str(), server.port));

        let start = self.now + self.network.rtt + requested.server_think_us * 1000;
        match (self.network.outcome)(connection, resource) {
            RequestOutcome::Broken { answered } => {
                self.at(start, Event::ResponseFailed { resource, connection, answered });
            }
            RequestOutcome::Answered { reusable } => {
                let (body_bytes, slow) = (requested.body_bytes, self.network.slow);
                // Like the loader, report progress only if it can reveal resources.
                let reported = slow && self.scheduler.wants_progress(resource);
                let pieces = (0..body_bytes).step_by(1000).chain([body_bytes]);
                for bytes_so_far in pieces.filter(|_| reported) {
                    self.at(start + bytes_so_far * MS / 1000, Event::BodyProgress { resource, bytes_so_far });
                }
                let end = start + if slow { body_bytes * MS / 1000 } else { 0 };
                self.at(end, Event::ResponseEnd { resource, connection, reusable });
            }
        }
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.events.insert((at, self.events_made), event);
        self.events_made += 1;
    }

    /// Returns the actions as lines of milliseconds, connection and action, such as `200 #0 send /1`.
    pub(crate) fn trace(&self) -> Vec<String> {
        let line = |(at, action): &(Nanos, Action)| {
            let ms = *at as f64 / MS as f64;
            match *action {
                Action::Open { connection, origin, fallback } => {
                    let host = &self.scheduler.origins()[origin.0].host;
                    format!("{ms} #{connection} open {host}{}", if fallback { " otherwise" } else { "" })
                }
                Action::Send { connection, resource } => {
                    format!("{ms} #{connection} send {}", self.page.resources[resource].url.target())
                }
                Action::Close(connection) => format!("{ms} #{connection} close"),
            }
        };
        self.actions.iter().map(line).collect()
    }

    /// Counts how often the request for a resource was sent.
    pub(crate) fn times_sent(&self, resource: usize) -> usize {
        let sent =
            |action: &Action| matches!(action, Action::Send { resource: sent, .. } if *sent == resource);
        self.actions.iter().filter(|(_, action)| sent(action)).count()
    }

    /// Counts the connections that are still open.
    pub(crate) fn left_open(&self) -> usize {
        self.connections.len()
    }
}

/// Loads a page over a network without failures and with an RTT of 100 ms.
pub(crate) fn load<'a>(page: &'a Page, policy: &Policy) -> Load<'a> {
    Load::run(page, policy, Network::default())
}

/// Returns the policy of a browser with at most `connections_per_host` connections to one server.
pub(crate) fn browser(connections_per_host: usize) -> Policy {
    Policy { connections_per_host, ..Policy::browser() }
}

/// Returns the actions after the request for the root document, whose response ends at 200 ms.
pub(crate) fn after_the_root(load: &Load<'_>) -> Vec<String> {
    load.trace().split_off(2)
}
