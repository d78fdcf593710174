//! Opens connections and assigns requests to them, with Chromium's late binding.
//!
//! A request takes an available connection to its server. If there is none, the request is queued, and the
//! pool opens a connection if the limits allow it. The new connection is not reserved for this request. Any
//! connection that becomes available takes the most urgent request in its server's queue
//! (<https://insouciant.org/tech/connection-management-in-chromium/>). If the total number of connections is
//! at its limit, the pool closes an idle connection to make room. If the first handshake with a server takes
//! longer than [`Policy::BACKUP_AFTER_NS`], the pool opens a second connection, like Chromium's backup job.
//! If an HTTP/3 server has a fallback, this time is [`Policy::fallback_after`], and the second connection
//! uses TCP. The pool then keeps the connection that completes its handshake first, and closes the other.
//!
//! A connection is available while it carries fewer requests than its server's limit, which is one request
//! with HTTP/1, and the maximum number of streams with HTTP/2 and HTTP/3. Requests that may not share
//! connections have separate queues ([`Partition`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::partition::Partition;
use super::{Action, ConnectionId, Limits, OriginId, Policy, Profile};
use crate::{Nanos, Origin, Page};

#[derive(Debug)]
pub(crate) struct Pool {
    connections_total: usize,
    keep_alive: bool,
    requests: Vec<Request>,
    queued: usize,
    /// One entry for each combination of a server and a partition (requests that may share connections).
    servers: Vec<Server>,
    servers_with_queue: BTreeSet<ServerId>,
    /// For each server whose first connection is in its handshake: the time at which to open a second
    /// connection. The entry is removed if the TCP or QUIC handshake ends earlier.
    backups: BTreeMap<ServerId, Nanos>,
    makes_backups: bool,
    /// True if the client looks up the host's name before each connection's handshake ([`Policy::lookups`]).
    lookups: bool,
    connections: Vec<Connection>,
    open: usize,
    /// Connections that can take another request, the least recently used first.
    available: Vec<ConnectionId>,
    actions: VecDeque<Action>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ServerId(usize);

#[derive(Debug)]
struct Request {
    server: ServerId,
    urgency: u8,
    retried: bool,
}

#[derive(Debug)]
struct Server {
    origin: OriginId,
    limits: Limits,
    queue: BTreeSet<QueuedRequest>,
    open: usize,
    /// Number of open connections that have begun their handshake.
    begun: usize,
    connecting: usize,
    /// If an HTTP/3 handshake takes longer than this many nanoseconds, the pool also opens a TCP connection
    /// ([`Policy::fallback_after`]). `None` if the server has no fallback, or already uses it.
    fallback_after: Option<Nanos>,
    /// True if all new connections to the server use TCP instead of HTTP/3.
    fallback_taken: bool,
}

/// A queued request, ordered by urgency and then by the order of queueing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QueuedRequest {
    urgency: u8,
    number: usize,
    resource: usize,
}

#[derive(Debug)]
struct Connection {
    server: ServerId,
    state: ConnectionState,
    begun: bool,
    in_flight: BTreeSet<usize>,
    requests: usize,
    fallback: bool,
    /// True if the handshake is complete; always false for a TCP connection that replaces HTTP/3.
    secured: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    Connecting,
    Open,
    /// The connection takes no more requests. The pool closes it when its requests have ended.
    Ending,
    Closed,
}

impl Pool {
    pub(crate) fn new(
        policy: &Policy,
        page: &Page,
        origin_of: Vec<OriginId>,
        partitions: Vec<Partition>,
        origins: &[Origin],
    ) -> Self {
        let browser = policy.profile == Profile::Browser;
        let mut servers = Vec::new();
        let mut numbers = BTreeMap::new();
        let requests = page.resources.iter().zip(origin_of.into_iter().zip(partitions));
        let requests = requests
            .map(|(resource, (origin, partition))| {
                let server = *numbers.entry((origin, partition)).or_insert_with(|| {
                    servers.push(Server {
                        origin,
                        limits: policy.limits(&origins[origin.0]),
                        queue: BTreeSet::new(),
                        open: 0,
                        begun: 0,
                        connecting: 0,
                        fallback_after: policy.fallback_after.get(&origins[origin.0]).copied(),
                        fallback_taken: false,
                    });
                    ServerId(servers.len() - 1)
                });
                let urgency = if browser { resource.kind.urgency() } else { 0 };
                Request { server, urgency, retried: false }
            })
            .collect();
        Self {
            connections_total: policy.connections_total,
            keep_alive: policy.keep_alive,
            requests,
            queued: 0,
            servers,
            servers_with_queue: BTreeSet::new(),
            backups: BTreeMap::new(),
            makes_backups: browser,
            lookups: policy.lookups,
            connections: Vec::new(),
            open: 0,
            available: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(crate) fn queue(&mut self, now: Nanos, resource: usize) {
        let number = self.queued;
        self.queued += 1;
        let Request { server, urgency, .. } = self.requests[resource];
        self.servers[server.0].queue.insert(QueuedRequest { urgency, number, resource });
        self.servers_with_queue.insert(server);
        if let Some(connection) = self.available_for(resource) {
            self.dispatch(connection);
        } else if self.needs_connection(server).is_some() && self.has_room(server) {
            self.open_next(now, server);
        }
    }

    pub(crate) fn next_wakeup(&self) -> Option<Nanos> {
        self.backups.values().min().copied()
    }

    /// Opens the planned second connections that are due by `now`, if the limits allow them.
    pub(crate) fn advance(&mut self, now: Nanos) {
        let due: Vec<_> = self.backups.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for id in due {
            self.backups.remove(&id);
            let server = &self.servers[id.0];
            let falls_back = self.may_fall_back(id);
            let full = server.open >= server.limits.connections && !falls_back;
            if full || self.open >= self.connections_total {
                self.backups.insert(id, now + Policy::BACKUP_AFTER_NS);
            } else if falls_back || !server.queue.is_empty() {
                self.open(now, id, falls_back);
            }
        }
    }

    /// Notes the start of a handshake. May plan a second connection, in case the handshake is slow.
    pub(crate) fn connection_begins(&mut self, now: Nanos, connection: ConnectionId) {
        let Some(begins) = self.connections.get_mut(connection.0) else { return };
        if begins.state != ConnectionState::Connecting || std::mem::replace(&mut begins.begun, true) {
            return;
        }
        let (id, fallback) = (begins.server, begins.fallback);
        let server = &mut self.servers[id.0];
        let fallback_after = server.fallback_after.filter(|_| !fallback);
        let after = fallback_after.or(self.makes_backups.then_some(Policy::BACKUP_AFTER_NS));
        if let Some(after) = after.filter(|_| server.begun == 0) {
            self.backups.insert(id, now + after);
        }
        server.begun += 1;
    }

    /// After a TCP handshake, cancels the server's planned second connection if that is not a fallback.
    pub(crate) fn connection_established(&mut self, connection: ConnectionId) {
        if self.state(connection) == ConnectionState::Connecting {
            let server = self.connections[connection.0].server;
            if !self.may_fall_back(server) {
                self.backups.remove(&server);
            }
        }
    }

    pub(crate) fn connection_secured(&mut self, connection: ConnectionId) {
        if self.state(connection) == ConnectionState::Closed || self.connections[connection.0].fallback {
            return;
        }
        self.connections[connection.0].secured = true;
        let server = self.connections[connection.0].server;
        if self.may_fall_back(server) {
            self.backups.remove(&server);
            self.close_unsecured(server, true);
        }
    }

    pub(crate) fn connection_ready(&mut self, now: Nanos, connection: ConnectionId) {
        if self.state(connection) == ConnectionState::Connecting {
            let Connection { server, state, fallback, .. } = &mut self.connections[connection.0];
            *state = ConnectionState::Open;
            let (server, fallback) = (*server, *fallback);
            self.no_longer_connecting(server);
            if fallback && self.may_fall_back(server) {
                self.servers[server.0].fallback_after = None;
                self.servers[server.0].fallback_taken = true;
                self.backups.remove(&server);
                for resource in self.close_unsecured(server, false) {
                    self.queue(now, resource);
                }
            }
            self.dispatch(connection);
        }
    }

    fn may_fall_back(&self, server: ServerId) -> bool {
        self.servers[server.0].fallback_after.is_some()
    }

    /// Yields the open connections of an HTTP/3 server: over TCP if `fallback` is true, otherwise those over
    /// QUIC whose handshake is not complete.
    fn unsecured(&self, server: ServerId, fallback: bool) -> impl Iterator<Item = ConnectionId> + '_ {
        let wanted = move |one: &Connection| {
            let open = matches!(one.state, ConnectionState::Connecting | ConnectionState::Open);
            one.server == server && one.fallback == fallback && open && !one.secured
        };
        (0..self.connections.len()).filter(move |id| wanted(&self.connections[*id])).map(ConnectionId)
    }

    fn close_unsecured(&mut self, server: ServerId, fallback: bool) -> Vec<usize> {
        let connections: Vec<_> = self.unsecured(server, fallback).collect();
        let mut carried = Vec::new();
        for connection in connections {
            carried.extend(std::mem::take(&mut self.connections[connection.0].in_flight));
            if self.state(connection) == ConnectionState::Connecting {
                self.no_longer_connecting(server);
            }
            self.close(connection);
        }
        carried
    }

    /// Handles a connection that failed or was closed. Returns the resources that fail because their
    /// requests are not retried on another connection.
    pub(crate) fn connection_lost(&mut self, now: Nanos, connection: ConnectionId) -> Vec<usize> {
        match self.state(connection) {
            ConnectionState::Closed => Vec::new(),
            ConnectionState::Connecting => {
                let server = self.connections[connection.0].server;
                self.no_longer_connecting(server);
                self.forget(connection);
                if self.try_replace(now, connection) {
                    return Vec::new();
                }
                self.take_next(server, false).into_iter().collect()
            }
            ConnectionState::Open | ConnectionState::Ending => {
                let retry = self.was_reused(connection);
                let in_flight = std::mem::take(&mut self.connections[connection.0].in_flight);
                self.forget(connection);
                if !self.connections[connection.0].secured && self.try_replace(now, connection) {
                    for resource in in_flight {
                        self.queue(now, resource);
                    }
                    return Vec::new();
                }
                in_flight
                    .into_iter()
                    .filter_map(|resource| self.retry_or_fail(now, retry, resource))
                    .collect()
            }
        }
    }

    /// Returns true if another connection can replace `lost`, which failed in its handshake: a TCP connection
    /// for an HTTP/3 connection, or vice versa. Opens a planned TCP connection at once.
    fn try_replace(&mut self, now: Nanos, lost: ConnectionId) -> bool {
        let Connection { server, fallback, .. } = self.connections[lost.0];
        if !self.may_fall_back(server) {
            return false;
        }
        if !fallback && self.backups.remove(&server).is_some() {
            self.open(now, server, true);
        }
        self.unsecured(server, !fallback).next().is_some()
    }

    /// Ends a request whose response is complete; returns false if the connection did not carry it. If the
    /// connection is `reusable` and kept alive, sends queued requests; otherwise closes it once it is idle.
    pub(crate) fn response_ended(
        &mut self,
        connection: ConnectionId,
        resource: usize,
        reusable: bool,
    ) -> bool {
        if !self.finish_request(connection, resource) {
            return false;
        }
        if reusable && self.keep_alive && self.state(connection) == ConnectionState::Open {
            self.dispatch(connection);
        } else {
            self.end(connection);
        }
        true
    }

    /// Ends a failed request and returns its resource; `None` if the request is retried or was not on the
    /// connection. If part of the response had arrived (`answered`), the request is not retried.
    pub(crate) fn response_failed(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        resource: usize,
        answered: bool,
    ) -> Option<usize> {
        if !self.finish_request(connection, resource) {
            return None;
        }
        let retry = !answered && self.was_reused(connection);
        self.end(connection);
        self.retry_or_fail(now, retry, resource)
    }

    /// Opens a connection for each queued request, the most urgent first, within the limits.
    pub(crate) fn open_needed(&mut self, now: Nanos) {
        while let Some(id) = self.next_server_to_open() {
            self.open_next(now, id);
        }
    }

    fn open_next(&mut self, now: Nanos, id: ServerId) {
        self.make_room(id);
        self.open(now, id, self.servers[id.0].fallback_taken);
    }

    fn open(&mut self, now: Nanos, id: ServerId, fallback: bool) {
        let connection = ConnectionId(self.connections.len());
        self.connections.push(Connection {
            server: id,
            state: ConnectionState::Connecting,
            begun: false,
            in_flight: BTreeSet::new(),
            requests: 0,
            fallback,
            secured: false,
        });
        let server = &mut self.servers[id.0];
        server.connecting += 1;
        server.open += 1;
        self.open += 1;
        self.actions.push_back(Action::Open { connection, origin: server.origin, fallback });
        if !self.lookups {
            self.connection_begins(now, connection);
        }
    }

    fn no_longer_connecting(&mut self, id: ServerId) {
        let server = &mut self.servers[id.0];
        server.connecting -= 1;
        if server.connecting == 0 && !self.may_fall_back(id) {
            self.backups.remove(&id);
        }
    }

    /// Returns the server's most urgent queued request for which no connection is being opened, if any.
    fn needs_connection(&self, id: ServerId) -> Option<&QueuedRequest> {
        let server = &self.servers[id.0];
        server.queue.iter().nth(server.connecting * server.limits.streams)
    }

    fn next_server_to_open(&self) -> Option<ServerId> {
        self.servers_with_queue
            .iter()
            .filter(|id| self.has_room(**id))
            .filter_map(|id| Some((self.needs_connection(*id)?, *id)))
            .min()
            .map(|(_, id)| id)
    }

    /// Returns true if the limits allow a new connection to the server, perhaps after closing an idle one.
    fn has_room(&self, id: ServerId) -> bool {
        let server = &self.servers[id.0];
        if server.open < server.limits.connections {
            self.open < self.connections_total || self.idle_longest_first().next().is_some()
        } else {
            self.longest_idle_of(id).is_some()
        }
    }

    fn make_room(&mut self, id: ServerId) {
        let server = &self.servers[id.0];
        let to_close = if server.open >= server.limits.connections {
            self.longest_idle_of(id)
        } else if self.open >= self.connections_total {
            self.idle_longest_first().next()
        } else {
            None
        };
        if let Some(connection) = to_close {
            self.close(connection);
        }
    }

    fn idle_longest_first(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.available.iter().copied().filter(|one| self.connections[one.0].in_flight.is_empty())
    }

    fn longest_idle_of(&self, server: ServerId) -> Option<ConnectionId> {
        self.idle_longest_first().find(|idle| self.connections[idle.0].server == server)
    }

    /// Returns an available connection for a resource: the most recently used, or else the oldest unused one.
    fn available_for(&self, resource: usize) -> Option<ConnectionId> {
        let server = self.requests[resource].server;
        let of_server = |one: &&ConnectionId| self.connections[one.0].server == server;
        let was_used = |one: &&ConnectionId| self.connections[one.0].requests > 0;
        let used = self
            .available
            .iter()
            .rev()
            .filter(of_server)
            .find(was_used)
            .filter(|_| !self.needs_unused_connection(resource));
        used.or_else(|| self.available.iter().filter(of_server).find(|one| !was_used(one))).copied()
    }

    fn dispatch(&mut self, connection: ConnectionId) {
        self.available.retain(|other| *other != connection);
        loop {
            let Connection { server, requests, ref in_flight, .. } = self.connections[connection.0];
            if in_flight.len() >= self.servers[server.0].limits.streams {
                return;
            }
            let Some(resource) = self.take_next(server, requests > 0) else { break };
            self.send(connection, resource);
        }
        self.available.push(connection);
    }

    /// Removes and returns the most urgent request in the server's queue. If the connection has carried a
    /// request (`used_connection`), skips HTTP/1 requests that are retried after a failure.
    fn take_next(&mut self, id: ServerId, used_connection: bool) -> Option<usize> {
        let may_take =
            |queued: &&QueuedRequest| !(used_connection && self.needs_unused_connection(queued.resource));
        let next = *self.servers[id.0].queue.iter().find(may_take)?;
        let server = &mut self.servers[id.0];
        server.queue.remove(&next);
        if server.queue.is_empty() {
            self.servers_with_queue.remove(&id);
        }
        Some(next.resource)
    }

    fn send(&mut self, connection: ConnectionId, resource: usize) {
        let Connection { in_flight, requests, .. } = &mut self.connections[connection.0];
        in_flight.insert(resource);
        *requests += 1;
        self.actions.push_back(Action::Send { connection, resource });
    }

    fn finish_request(&mut self, connection: ConnectionId, resource: usize) -> bool {
        self.connections
            .get_mut(connection.0)
            .is_some_and(|connection| connection.in_flight.remove(&resource))
    }

    /// Returns true if the request for a resource is retried over HTTP/1. A retried request needs a
    /// connection without earlier requests, because a server may close a connection after any request.
    fn needs_unused_connection(&self, resource: usize) -> bool {
        // See RFC 9112 section 9.3.1 for HTTP/1. HTTP/2 retries on any connection (RFC 9113 section 8.7).
        let Request { server, retried, .. } = self.requests[resource];
        retried && self.servers[server.0].limits.streams == 1
    }

    fn was_reused(&self, connection: ConnectionId) -> bool {
        self.connections[connection.0].requests > 1
    }

    fn retry_or_fail(&mut self, now: Nanos, retry: bool, resource: usize) -> Option<usize> {
        if !retry || self.requests[resource].retried {
            return Some(resource);
        }
        self.requests[resource].retried = true;
        self.queue(now, resource);
        None
    }

    fn end(&mut self, connection: ConnectionId) {
        if self.connections[connection.0].in_flight.is_empty() {
            self.close(connection);
        } else {
            self.connections[connection.0].state = ConnectionState::Ending;
            self.available.retain(|other| *other != connection);
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        self.forget(connection);
        self.actions.push_back(Action::Close(connection));
    }

    fn forget(&mut self, connection: ConnectionId) {
        let Connection { server, state, begun, .. } = &mut self.connections[connection.0];
        *state = ConnectionState::Closed;
        self.available.retain(|other| *other != connection);
        self.servers[server.0].open -= 1;
        self.servers[server.0].begun -= usize::from(*begun);
        self.open -= 1;
    }

    fn state(&self, connection: ConnectionId) -> ConnectionState {
        self.connections.get(connection.0).map_or(ConnectionState::Closed, |connection| connection.state)
    }
}
