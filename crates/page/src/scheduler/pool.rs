//! Which connection carries which request: Chromium's late binding.
//!
//! A queued request takes an idle connection to its server, else a connection is opened as long as the limits
//! allow; but it is not bound to that one. Whichever connection becomes ready or free first takes the most urgent
//! request that waits for its server (<https://insouciant.org/tech/connection-management-in-chromium/>). At the
//! limit of all connections one that is idle is closed for one that is needed.

use std::collections::{BTreeSet, VecDeque};

use super::{Action, ConnectionId, OriginId, Policy, Profile};
use crate::{Page, ResourceType};

#[derive(Debug)]
pub(crate) struct Pool {
    connections_per_host: usize,
    connections_total: usize,
    keep_alive: bool,
    /// By resource.
    requests: Vec<Request>,
    queued: usize,
    /// By origin.
    servers: Vec<Server>,
    /// The servers that requests wait for.
    awaited: BTreeSet<OriginId>,
    connections: Vec<Connection>,
    open: usize,
    /// Idle connections, the one that is idle longest first.
    idle: Vec<ConnectionId>,
    actions: VecDeque<Action>,
}

#[derive(Debug)]
struct Request {
    origin: OriginId,
    urgency: u8,
    retried: bool,
}

#[derive(Debug, Default)]
struct Server {
    waiting: BTreeSet<Waiting>,
    open: usize,
    connecting: usize,
}

/// Ordered by urgency, then by the order of queueing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    urgency: u8,
    number: usize,
    resource: usize,
}

#[derive(Debug)]
struct Connection {
    origin: OriginId,
    state: State,
    /// How many requests it was given.
    requests: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Idle,
    Busy { resource: usize },
    Closed,
}

impl Pool {
    pub(crate) fn new(policy: &Policy, page: &Page, origin_of: Vec<OriginId>, origins: usize) -> Self {
        let requests = page.resources.iter().zip(origin_of).map(|(resource, origin)| {
            let urgency = match policy.profile {
                Profile::Browser => urgency(resource.kind),
                Profile::Mget => 0,
            };
            Request { origin, urgency, retried: false }
        });
        Self {
            connections_per_host: policy.connections_per_host,
            connections_total: policy.connections_total,
            keep_alive: policy.keep_alive,
            requests: requests.collect(),
            queued: 0,
            servers: (0..origins).map(|_| Server::default()).collect(),
            awaited: BTreeSet::new(),
            connections: Vec::new(),
            open: 0,
            idle: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(crate) fn queue(&mut self, resource: usize) {
        let number = self.queued;
        self.queued += 1;
        if let Some(connection) = self.idle_for(resource) {
            self.idle.retain(|idle| *idle != connection);
            self.send(connection, resource);
        } else {
            let Request { origin, urgency, .. } = self.requests[resource];
            self.servers[origin.0].waiting.insert(Waiting { urgency, number, resource });
            self.awaited.insert(origin);
        }
    }

    pub(crate) fn connection_ready(&mut self, connection: ConnectionId) {
        if self.state(connection) == State::Connecting {
            let origin = self.connections[connection.0].origin;
            self.servers[origin.0].connecting -= 1;
            self.give_work(connection);
        }
    }

    /// A connection is gone, whatever it was doing. The request that fails with it, if any: the one that it
    /// carried, or the most urgent one that may have waited for it.
    pub(crate) fn connection_lost(&mut self, connection: ConnectionId) -> Option<usize> {
        match self.state(connection) {
            State::Closed => None,
            State::Idle => {
                self.idle.retain(|idle| *idle != connection);
                self.forget(connection);
                None
            }
            State::Connecting => {
                let origin = self.connections[connection.0].origin;
                self.servers[origin.0].connecting -= 1;
                self.forget(connection);
                self.next_waiting(origin, false)
            }
            State::Busy { resource } => {
                let retry = self.was_kept(connection);
                self.forget(connection);
                self.retry_or_fail(retry, resource)
            }
        }
    }

    /// Whether the connection was carrying the resource.
    pub(crate) fn response_ended(
        &mut self,
        connection: ConnectionId,
        resource: usize,
        reusable: bool,
    ) -> bool {
        if self.state(connection) != (State::Busy { resource }) {
            return false;
        }
        if reusable && self.keep_alive {
            self.give_work(connection);
        } else {
            self.close(connection);
        }
        true
    }

    /// The request that fails, if it is not asked again.
    pub(crate) fn response_failed(
        &mut self,
        connection: ConnectionId,
        resource: usize,
        answered: bool,
    ) -> Option<usize> {
        if self.state(connection) != (State::Busy { resource }) {
            return None;
        }
        let retry = !answered && self.was_kept(connection);
        self.close(connection);
        self.retry_or_fail(retry, resource)
    }

    /// Opens connections until each waiting request has one that is being made, or the limits are reached; for the
    /// most urgent request first.
    pub(crate) fn open_needed(&mut self) {
        while let Some(origin) = self.next_origin_to_open() {
            self.make_room(origin);
            let connection = ConnectionId(self.connections.len());
            self.connections.push(Connection { origin, state: State::Connecting, requests: 0 });
            let server = &mut self.servers[origin.0];
            server.connecting += 1;
            server.open += 1;
            self.open += 1;
            self.actions.push_back(Action::Open { connection, origin });
        }
    }

    fn next_origin_to_open(&self) -> Option<OriginId> {
        let without_connection = |origin: &OriginId| {
            let server = &self.servers[origin.0];
            server.waiting.iter().nth(server.connecting)
        };
        self.awaited
            .iter()
            .filter(|origin| self.has_room(**origin))
            .filter_map(|origin| Some((without_connection(origin)?, *origin)))
            .min()
            .map(|(_, origin)| origin)
    }

    /// Whether a connection to the server may be opened, if need be in place of an idle one.
    fn has_room(&self, origin: OriginId) -> bool {
        if self.servers[origin.0].open < self.connections_per_host {
            self.open < self.connections_total || !self.idle.is_empty()
        } else {
            self.longest_idle_of(origin).is_some()
        }
    }

    fn make_room(&mut self, origin: OriginId) {
        let in_the_way = if self.servers[origin.0].open >= self.connections_per_host {
            self.longest_idle_of(origin)
        } else if self.open >= self.connections_total {
            self.idle.first().copied()
        } else {
            None
        };
        if let Some(connection) = in_the_way {
            self.idle.retain(|idle| *idle != connection);
            self.close(connection);
        }
    }

    fn longest_idle_of(&self, origin: OriginId) -> Option<ConnectionId> {
        self.idle.iter().copied().find(|idle| self.connections[idle.0].origin == origin)
    }

    /// The idle connection for a request: as in Chromium the one that was used last, else the one that has waited
    /// longest for its first use. A retry takes none that was used.
    fn idle_for(&self, resource: usize) -> Option<ConnectionId> {
        let Request { origin, retried, .. } = self.requests[resource];
        let of_origin = |idle: &&ConnectionId| self.connections[idle.0].origin == origin;
        let was_used = |idle: &&ConnectionId| self.connections[idle.0].requests > 0;
        let used = self.idle.iter().rev().filter(of_origin).find(was_used).filter(|_| !retried);
        used.or_else(|| self.idle.iter().filter(of_origin).find(|idle| !was_used(idle))).copied()
    }

    /// Gives a connection that can take a request the most urgent one, else lets it idle.
    fn give_work(&mut self, connection: ConnectionId) {
        let Connection { origin, requests, .. } = self.connections[connection.0];
        if let Some(resource) = self.next_waiting(origin, requests > 0) {
            self.send(connection, resource);
        } else {
            self.connections[connection.0].state = State::Idle;
            self.idle.push(connection);
        }
    }

    /// Takes the most urgent request that waits for the server; for a used connection no retry.
    fn next_waiting(&mut self, origin: OriginId, used_connection: bool) -> Option<usize> {
        let server = &mut self.servers[origin.0];
        let may_take = |waiting: &&Waiting| !(used_connection && self.requests[waiting.resource].retried);
        let next = *server.waiting.iter().find(may_take)?;
        server.waiting.remove(&next);
        if server.waiting.is_empty() {
            self.awaited.remove(&origin);
        }
        Some(next.resource)
    }

    fn send(&mut self, connection: ConnectionId, resource: usize) {
        let carrier = &mut self.connections[connection.0];
        carrier.state = State::Busy { resource };
        carrier.requests += 1;
        self.actions.push_back(Action::Send { connection, resource });
    }

    /// A server may close a kept connection just when a request is on its way to it (RFC 9112 section 9.3.1), so a
    /// request that got no answer on one is asked again, on a connection that nothing else has used; hence once.
    fn was_kept(&self, connection: ConnectionId) -> bool {
        self.connections[connection.0].requests > 1
    }

    fn retry_or_fail(&mut self, retry: bool, resource: usize) -> Option<usize> {
        if !retry {
            return Some(resource);
        }
        self.requests[resource].retried = true;
        self.queue(resource);
        None
    }

    fn close(&mut self, connection: ConnectionId) {
        self.forget(connection);
        self.actions.push_back(Action::Close { connection });
    }

    fn forget(&mut self, connection: ConnectionId) {
        let Connection { origin, state, .. } = &mut self.connections[connection.0];
        *state = State::Closed;
        self.servers[origin.0].open -= 1;
        self.open -= 1;
    }

    fn state(&self, connection: ConnectionId) -> State {
        self.connections.get(connection.0).map_or(State::Closed, |connection| connection.state)
    }
}

/// What a browser asks for first: what blocks rendering, then what runs or is read, then what is only shown.
fn urgency(kind: ResourceType) -> u8 {
    match kind {
        ResourceType::Document | ResourceType::Stylesheet => 0,
        ResourceType::Script | ResourceType::Font | ResourceType::Xhr => 1,
        ResourceType::Media | ResourceType::Other => 2,
        ResourceType::Image => 3,
    }
}
