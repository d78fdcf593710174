//! Which connection carries which request: Chromium's late binding.
//!
//! A queued request takes a connection to its server that has room for it, else a connection is opened as long as the
//! limits allow; but it is not bound to that one. Whichever connection becomes ready or free first takes the most urgent
//! request that waits for its server (<https://insouciant.org/tech/connection-management-in-chromium/>). At the
//! limit of all connections one that is idle is closed for one that is needed.
//!
//! With HTTP/1 a connection has room for one request, with HTTP/2 for as many as the server allows streams.

use std::collections::{BTreeSet, VecDeque};

use super::{Action, ConnectionId, Limits, OriginId, Policy, Profile};
use crate::{Origin, Page};

#[derive(Debug)]
pub(crate) struct Pool {
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
    /// Connections with room for another request, the one that is not used longest first.
    roomy: Vec<ConnectionId>,
    actions: VecDeque<Action>,
}

#[derive(Debug)]
struct Request {
    origin: OriginId,
    urgency: u8,
    retried: bool,
}

#[derive(Debug)]
struct Server {
    limits: Limits,
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
    /// What it carries.
    carried: BTreeSet<usize>,
    /// How many requests it was given.
    requests: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Open,
    /// It takes no more requests, and is closed when those that it carries have ended.
    Ending,
    Closed,
}

impl Pool {
    pub(crate) fn new(policy: &Policy, page: &Page, origin_of: Vec<OriginId>, origins: &[Origin]) -> Self {
        let requests = page.resources.iter().zip(origin_of).map(|(resource, origin)| {
            let urgency = match policy.profile {
                Profile::Browser => resource.kind.urgency(),
                Profile::Mget => 0,
            };
            Request { origin, urgency, retried: false }
        });
        let server = |origin: &Origin| Server {
            limits: policy.limits(&origin.host),
            waiting: BTreeSet::new(),
            open: 0,
            connecting: 0,
        };
        Self {
            connections_total: policy.connections_total,
            keep_alive: policy.keep_alive,
            requests: requests.collect(),
            queued: 0,
            servers: origins.iter().map(server).collect(),
            awaited: BTreeSet::new(),
            connections: Vec::new(),
            open: 0,
            roomy: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(crate) fn queue(&mut self, resource: usize) {
        let number = self.queued;
        self.queued += 1;
        let Request { origin, urgency, .. } = self.requests[resource];
        self.servers[origin.0].waiting.insert(Waiting { urgency, number, resource });
        self.awaited.insert(origin);
        if let Some(connection) = self.roomy_for(resource) {
            self.give_work(connection);
        }
    }

    pub(crate) fn connection_ready(&mut self, connection: ConnectionId) {
        if self.state(connection) == State::Connecting {
            let Connection { origin, state, .. } = &mut self.connections[connection.0];
            *state = State::Open;
            self.servers[origin.0].connecting -= 1;
            self.give_work(connection);
        }
    }

    /// A connection is gone, whatever it was doing. The requests that fail with it: of those that it carried, or the most
    /// urgent one that may have waited for it.
    pub(crate) fn connection_lost(&mut self, connection: ConnectionId) -> Vec<usize> {
        match self.state(connection) {
            State::Closed => Vec::new(),
            State::Connecting => {
                let origin = self.connections[connection.0].origin;
                self.servers[origin.0].connecting -= 1;
                self.forget(connection);
                self.next_waiting(origin, false).into_iter().collect()
            }
            State::Open | State::Ending => {
                let retry = self.was_kept(connection);
                let carried = std::mem::take(&mut self.connections[connection.0].carried);
                self.forget(connection);
                carried.into_iter().filter_map(|resource| self.retry_or_fail(retry, resource)).collect()
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
        if !self.put_down(connection, resource) {
            return false;
        }
        if reusable && self.keep_alive && self.state(connection) == State::Open {
            self.give_work(connection);
        } else {
            self.end(connection);
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
        if !self.put_down(connection, resource) {
            return None;
        }
        let retry = !answered && self.was_kept(connection);
        self.end(connection);
        self.retry_or_fail(retry, resource)
    }

    /// Opens connections until each waiting request has one that is being made, or the limits are reached; for the
    /// most urgent request first.
    pub(crate) fn open_needed(&mut self) {
        while let Some(origin) = self.next_origin_to_open() {
            self.make_room(origin);
            let connection = ConnectionId(self.connections.len());
            let state = State::Connecting;
            self.connections.push(Connection { origin, state, carried: BTreeSet::new(), requests: 0 });
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
            server.waiting.iter().nth(server.connecting * server.limits.streams)
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
        let server = &self.servers[origin.0];
        if server.open < server.limits.connections {
            self.open < self.connections_total || self.idle().next().is_some()
        } else {
            self.longest_idle_of(origin).is_some()
        }
    }

    fn make_room(&mut self, origin: OriginId) {
        let server = &self.servers[origin.0];
        let in_the_way = if server.open >= server.limits.connections {
            self.longest_idle_of(origin)
        } else if self.open >= self.connections_total {
            self.idle().next()
        } else {
            None
        };
        if let Some(connection) = in_the_way {
            self.close(connection);
        }
    }

    /// Connections that carry nothing, the one that is idle longest first.
    fn idle(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.roomy.iter().copied().filter(|one| self.connections[one.0].carried.is_empty())
    }

    fn longest_idle_of(&self, origin: OriginId) -> Option<ConnectionId> {
        self.idle().find(|idle| self.connections[idle.0].origin == origin)
    }

    /// The connection that has room for a request: as in Chromium the one that was used last, else the one that has
    /// waited longest for its first use.
    fn roomy_for(&self, resource: usize) -> Option<ConnectionId> {
        let origin = self.requests[resource].origin;
        let of_origin = |one: &&ConnectionId| self.connections[one.0].origin == origin;
        let was_used = |one: &&ConnectionId| self.connections[one.0].requests > 0;
        let used =
            self.roomy.iter().rev().filter(of_origin).find(was_used).filter(|_| !self.wants_unused(resource));
        used.or_else(|| self.roomy.iter().filter(of_origin).find(|one| !was_used(one))).copied()
    }

    /// Gives an open connection the most urgent requests that wait for its server, as many as it has room for.
    fn give_work(&mut self, connection: ConnectionId) {
        self.roomy.retain(|roomy| *roomy != connection);
        loop {
            let Connection { origin, requests, ref carried, .. } = self.connections[connection.0];
            if carried.len() >= self.servers[origin.0].limits.streams {
                return;
            }
            let Some(resource) = self.next_waiting(origin, requests > 0) else { break };
            self.send(connection, resource);
        }
        self.roomy.push(connection);
    }

    /// Takes the most urgent request that waits for the server and does not want an unused connection, or has one.
    fn next_waiting(&mut self, origin: OriginId, used_connection: bool) -> Option<usize> {
        let may_take = |waiting: &&Waiting| !(used_connection && self.wants_unused(waiting.resource));
        let next = *self.servers[origin.0].waiting.iter().find(may_take)?;
        let server = &mut self.servers[origin.0];
        server.waiting.remove(&next);
        if server.waiting.is_empty() {
            self.awaited.remove(&origin);
        }
        Some(next.resource)
    }

    fn send(&mut self, connection: ConnectionId, resource: usize) {
        let carrier = &mut self.connections[connection.0];
        carrier.carried.insert(resource);
        carrier.requests += 1;
        self.actions.push_back(Action::Send { connection, resource });
    }

    /// Ends the carrying of a resource; false where the connection does not carry it.
    fn put_down(&mut self, connection: ConnectionId, resource: usize) -> bool {
        self.connections.get_mut(connection.0).is_some_and(|carrier| carrier.carried.remove(&resource))
    }

    /// A server may close a kept connection just when a request is on its way to it (RFC 9112 section 9.3.1), so a
    /// request that got no answer on one is asked again, once, on a connection that nothing else has used. With HTTP/2,
    /// what is lost with a connection goes together to the next (RFC 9113 section 8.7).
    fn wants_unused(&self, resource: usize) -> bool {
        let Request { origin, retried, .. } = self.requests[resource];
        retried && self.servers[origin.0].limits.streams == 1
    }

    fn was_kept(&self, connection: ConnectionId) -> bool {
        self.connections[connection.0].requests > 1
    }

    fn retry_or_fail(&mut self, retry: bool, resource: usize) -> Option<usize> {
        if !retry || self.requests[resource].retried {
            return Some(resource);
        }
        self.requests[resource].retried = true;
        self.queue(resource);
        None
    }

    /// Closes a connection as soon as it carries nothing.
    fn end(&mut self, connection: ConnectionId) {
        if self.connections[connection.0].carried.is_empty() {
            self.close(connection);
        } else {
            self.connections[connection.0].state = State::Ending;
            self.roomy.retain(|roomy| *roomy != connection);
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        self.forget(connection);
        self.actions.push_back(Action::Close { connection });
    }

    fn forget(&mut self, connection: ConnectionId) {
        let Connection { origin, state, .. } = &mut self.connections[connection.0];
        *state = State::Closed;
        self.roomy.retain(|roomy| *roomy != connection);
        self.servers[origin.0].open -= 1;
        self.open -= 1;
    }

    fn state(&self, connection: ConnectionId) -> State {
        self.connections.get(connection.0).map_or(State::Closed, |connection| connection.state)
    }
}
