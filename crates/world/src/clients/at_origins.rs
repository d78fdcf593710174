//! A load as the origins saw it: for clients that keep no account of their own.

use std::collections::BTreeMap;
use std::net::{SocketAddr, SocketAddrV4};

use fastopen_intercept::Opened;
use fastopen_replay::log::{Accepted, Secured, Seen};
use fastopen_replay::stream::{Ends, Traffic};
use hyper::Version;

use crate::clients::{Loaded, Loading};
use crate::contract::{Cached, ConnectionRecord, RequestRecord, SeenAt, TlsRecord};
use crate::tls::{self, Sizes};

/// What the origins answer to what the page does not have.
const NOT_FOUND: u16 = 404;
/// What they answer to who has the answer already.
const NOT_MODIFIED: u16 = 304;

/// Puts together what the origins saw since `start_ns` and what interception saw of the client's connections.
pub fn loaded(
    loading: &Loading,
    start_ns: u64,
    opened: &[Opened],
    plt_ns: Option<u64>,
    unfinished: Option<String>,
) -> Loaded {
    let seen = loading.log.requests();
    let mut connections = Connections::new(loading, start_ns, opened, &loading.log.connections());
    let mut requests = Vec::new();
    // Not those by which a browser asks for leave.
    let strange = seen.iter().filter(|request| request.resource.is_none() && request.status == NOT_FOUND);
    let strange_requests = strange.count();
    for request in &seen {
        let first = connections.carry(request.ends);
        if let Some(resource) = request.resource {
            let mut record = connections.request(resource, request, first);
            let confirmed =
                request.status == NOT_MODIFIED && loading.page.resources[resource].status != NOT_MODIFIED;
            record.cache = confirmed.then_some(Cached::Revalidated);
            // What was under way when the client failed is no reason of its own.
            record.error = record.error.filter(|_| unfinished.is_none());
            requests.push(record);
        }
    }
    Loaded {
        plt_ns,
        unfinished,
        seen_at: SeenAt::Origins,
        strange_requests,
        requests,
        connections: connections.records,
        ends: connections.ends,
        browser: None,
    }
}

/// The connections of a load, by their addresses.
struct Connections {
    start_ns: u64,
    records: Vec<ConnectionRecord>,
    ends: Vec<Option<Ends>>,
    numbers: BTreeMap<Ends, usize>,
}

impl Connections {
    fn new(loading: &Loading, start_ns: u64, opened: &[Opened], accepted: &[Accepted]) -> Self {
        let mut connections =
            Self { start_ns, records: Vec::new(), ends: Vec::new(), numbers: BTreeMap::new() };
        let mut by_port: BTreeMap<(u16, SocketAddrV4), &Accepted> =
            accepted.iter().map(|one| ((one.ends.client.port(), one.ends.origin), one)).collect();
        // Loopback is the client's own affair.
        for one in opened.iter().filter(|one| !one.peer.ip().is_loopback()) {
            let port = one.local.map_or(0, |local| local.port());
            let accepted = match one.peer {
                SocketAddr::V4(peer) => by_port.remove(&(port, peer)),
                SocketAddr::V6(_) => None,
            };
            connections.add(loading, one.peer, Some(one), accepted);
        }
        // Of those that interception did not see.
        for one in by_port.into_values() {
            connections.add(loading, one.ends.origin.into(), None, Some(one));
        }
        connections
    }

    fn add(
        &mut self,
        loading: &Loading,
        peer: SocketAddr,
        opened: Option<&Opened>,
        accepted: Option<&Accepted>,
    ) {
        let id = self.records.len();
        let host = loading.hosts.iter().find(|(_, address)| peer.ip() == **address);
        let opened_ns =
            opened.map(|one| one.at_ns).or(accepted.map(|one| one.at_ns)).unwrap_or(self.start_ns);
        let client_port = accepted
            .map(|one| one.ends.client.port())
            .or(opened.and_then(|one| one.local).map(|local| local.port()));
        let info = opened.and_then(|one| one.info);
        let waited = info.is_some_and(|info| !info.syn_data_acked());
        // An origin accepts what carries no data when the last segment of the handshake has come to it; the client had the
        // connection when it sent that.
        let way_ns = if waited { loading.link.uplink_delay_ns(peer.ip()) } else { 0 };
        let connected_ns = accepted.map(|one| one.at_ns.saturating_sub(way_ns).max(opened_ns));
        if let Some(one) = accepted {
            self.numbers.insert(one.ends, id);
        }
        self.ends.push(accepted.map(|one| one.ends));
        self.records.push(ConnectionRecord {
            id,
            multiplexed: host.is_some_and(|(name, _)| loading.version(name) == Version::HTTP_2),
            host: host.map_or_else(|| peer.ip().to_string(), |(name, _)| name.clone()),
            port: peer.port(),
            client_port,
            opened_ns: self.since_start(opened_ns),
            connected_ns: connected_ns.map(|at| self.since_start(at)),
            handshake_us: connected_ns.filter(|_| waited).map(|at| at.saturating_sub(opened_ns) / 1000),
            tls: accepted
                .and_then(|one| one.secured.as_ref())
                .map(|one| self.session(one, loading.link.uplink_delay_ns(peer.ip()))),
            requests: 0,
            client: info.map(Into::into),
            origin: None,
        });
    }

    /// What the origin knows of a handshake; the client was through with it when it sent the message that ended it there.
    fn session(&self, secured: &Secured, way_ns: u64) -> TlsRecord {
        let Traffic { bytes_read_first, bytes_read, bytes_written, .. } = secured.traffic;
        let sizes =
            Sizes { hello_bytes: bytes_read_first, sent_bytes: bytes_read, received_bytes: bytes_written };
        tls::record(secured.session.clone(), self.since_start(secured.at_ns.saturating_sub(way_ns)), sizes)
    }

    fn since_start(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.start_ns)
    }

    /// Counts a request on a connection; says whether it was its first.
    fn carry(&mut self, ends: Ends) -> bool {
        let Some(connection) = self.numbers.get(&ends).map(|id| &mut self.records[*id]) else { return false };
        connection.requests += 1;
        connection.requests == 1
    }

    fn request(&self, resource: usize, seen: &Seen, first: bool) -> RequestRecord {
        let id = self.numbers.get(&seen.ends).copied();
        let connection = id.map(|id| &self.records[id]).filter(|_| first);
        let error = if id.is_none() {
            Some("it came on a connection of before the load".to_owned())
        } else if seen.last_byte_ns.is_none() {
            Some(format!("the answer was cut off after {} bytes of its body", seen.body_bytes))
        } else {
            None
        };
        RequestRecord {
            resource,
            connection: id,
            queued_ns: None,
            connect_start_ns: connection.map(|connection| connection.opened_ns),
            connected_ns: connection.and_then(|connection| connection.connected_ns),
            sent_ns: Some(self.since_start(seen.arrived_ns)),
            first_byte_ns: seen.first_byte_ns.map(|at| self.since_start(at)),
            end_ns: seen.last_byte_ns.map(|at| self.since_start(at)),
            status: Some(seen.status),
            header_bytes: seen.header_bytes,
            body_bytes: seen.body_bytes,
            cache: None,
            error,
        }
    }
}
