//! Determines the results of a load by an external client, which does not report results itself. The sources
//! are the origins' log, and the client's connections that `fastopen_intercept` observed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fastopen_intercept::Opened;
use fastopen_replay::counters::Traffic;
use fastopen_replay::log::{AcceptedConnection, ServedRequest, TlsHandshake};
use fastopen_replay::sockets::FourTuple;

use crate::capture::client_tap::{ClientTap, Passed};
use crate::clients::{Loaded, Loading};
use crate::contract::{Cached, ConnectionRecord, LookupRecord, QuicRecord, RequestRecord, SeenAt, TlsRecord};

const NOT_FOUND: u16 = 404;
const NOT_MODIFIED: u16 = 304;

/// Returns the results of a page load that began at `start_ns`, from the origins' log and the connections
/// that the client opened. `unfinished` is the reason why the page load did not finish; None if it did.
pub fn load_results(
    loading: &Loading,
    start_ns: u64,
    opened: &[Opened],
    plt_ns: Option<u64>,
    unfinished: Option<String>,
) -> Loaded {
    let served = loading.log.requests();
    let mut connections = ConnectionRecords::new(loading, start_ns, opened, &loading.log.connections());
    let mut requests = Vec::new();
    // A permitted CORS preflight matches no resource either, but its status is not 404.
    let unknown = served
        .iter()
        .filter(|served| served.request.resource.is_none() && served.request.status == NOT_FOUND);
    let unmatched = unknown.filter_map(|served| served.request.url.as_deref()).map(str::to_owned).collect();
    for request in &served {
        let first = connections.count_request(request.request.four_tuple);
        if let Some(resource) = request.request.resource {
            let mut record = connections.request(resource, request, first);
            let revalidated = request.request.status == NOT_MODIFIED
                && loading.job.page.resources[resource].status != NOT_MODIFIED;
            record.cache = revalidated.then_some(Cached::Revalidated);
            // If the load did not finish, `unfinished` already gives the cause of incomplete responses.
            record.error = record.error.filter(|_| unfinished.is_none());
            requests.push(record);
        }
    }
    Loaded {
        start_ns,
        plt_ns,
        unfinished,
        seen_at: SeenAt::Origins,
        unmatched,
        requests,
        connections: connections.records,
        lookups: lookups(loading, start_ns),
        browser: None,
    }
}

/// Returns the client's DNS lookups, computed from the resolver's log and the delays of the link.
fn lookups(loading: &Loading, start_ns: u64) -> Vec<LookupRecord> {
    let Some(resolver) = loading.resolver else { return Vec::new() };
    let (up_ns, down_ns) = loading.link.delays_ns(resolver.ip());
    let mut lookups: Vec<LookupRecord> = Vec::new();
    for query in loading.log.queries() {
        let at_ns = query.at_ns.saturating_sub(start_ns);
        let asked_ns = at_ns.saturating_sub(up_ns);
        let known = lookups.iter().position(|lookup| lookup.host == query.name);
        let place = known.unwrap_or_else(|| {
            lookups.push(LookupRecord { host: query.name.clone(), asked_ns, ..LookupRecord::default() });
            lookups.len() - 1
        });
        lookups[place].queries += 1;
        if query.answered {
            lookups[place].answered_ns.get_or_insert(at_ns + down_ns);
        }
    }
    lookups
}

/// Builds the records of one load's connections and requests.
struct ConnectionRecords<'a> {
    loading: &'a Loading<'a>,
    start_ns: u64,
    /// Counts of the QUIC packets of each connection.
    packets: BTreeMap<FourTuple, Passed>,
    records: Vec<ConnectionRecord>,
    numbers: BTreeMap<FourTuple, usize>,
}

impl<'a> ConnectionRecords<'a> {
    fn new(loading: &'a Loading, start_ns: u64, opened: &[Opened], accepted: &[AcceptedConnection]) -> Self {
        let packets = loading.tap.map(ClientTap::seen).unwrap_or_default();
        let (records, numbers) = (Vec::new(), BTreeMap::new());
        let mut connections = Self { loading, start_ns, packets, records, numbers };
        let mut by_port: BTreeMap<(u16, SocketAddr), &AcceptedConnection> =
            accepted.iter().map(|one| ((one.four_tuple.client.port(), one.four_tuple.origin), one)).collect();
        // Connections over loopback stay within the client.
        for one in opened.iter().filter(|one| !one.peer.ip().is_loopback()) {
            let port = one.local.map_or(0, |local| local.port());
            let accepted = by_port.remove(&(port, one.peer));
            connections.add(one.peer, Some(one), accepted);
        }
        // Add the connections that interception did not report.
        let mut others: Vec<_> = by_port.into_values().collect();
        others.sort_by_key(|one| one.at_ns);
        for one in others {
            connections.add(one.four_tuple.origin, None, Some(one));
        }
        connections
    }

    fn add(&mut self, peer: SocketAddr, opened: Option<&Opened>, accepted: Option<&AcceptedConnection>) {
        let loading = self.loading;
        let id = self.records.len();
        let host = loading.hosts.iter().find(|(_, addresses)| addresses.iter().any(|one| one == peer.ip()));
        let client_port = accepted
            .map(|one| one.four_tuple.client.port())
            .or(opened.and_then(|one| one.local).map(|local| local.port()));
        // A QUIC client sends its first datagram as soon as it opens the connection.
        let quic = accepted.and_then(|one| self.packets.get(&one.four_tuple)).copied();
        let sent_ns = quic.map(|passed| passed.first_ns).or(opened.map(|one| one.at_ns));
        let opened_ns = sent_ns.or(accepted.map(|one| one.at_ns)).unwrap_or(self.start_ns);
        let info = opened.and_then(|one| one.info);
        // A connection without received segments was closed in SYN_SENT, even if the origin accepted it.
        let established = info.is_none_or(|info| info.segments_in > 0);
        let waited = info.is_some_and(|info| !info.syn_data_acked());
        // Without data in the SYN, an origin accepts a connection when the last ACK of the handshake arrives;
        // the client was connected when it sent that ACK.
        let way_ns = if waited { loading.link.delays_ns(peer.ip()).0 } else { 0 };
        let connected_ns = match quic {
            Some(_) => Some(opened_ns),
            None => {
                accepted.filter(|_| established).map(|one| one.at_ns.saturating_sub(way_ns).max(opened_ns))
            }
        };
        if let Some(one) = accepted {
            self.numbers.insert(one.four_tuple, id);
        }
        let encrypted = accepted.is_some_and(|one| one.tls.is_some());
        self.records.push(ConnectionRecord {
            id,
            multiplexed: host.is_some_and(|(name, _)| loading.job.origins.http_of(name).is_multiplexed())
                && (encrypted || loading.secure.tls.is_none()),
            host: host.map_or_else(|| peer.ip().to_string(), |(name, _)| name.clone()),
            port: peer.port(),
            client_port,
            four_tuple: accepted.map(|one| one.four_tuple),
            opened_ns: self.since_start(opened_ns),
            connected_ns: connected_ns.map(|at| self.since_start(at)),
            handshake_us: connected_ns.filter(|_| waited).map(|at| at.saturating_sub(opened_ns) / 1000),
            tls: accepted
                .and_then(|one| one.tls.as_ref())
                .map(|one| self.session(one, loading.link.delays_ns(peer.ip()))),
            client: info.map(Into::into),
            quic: quic.map(|passed| QuicRecord { client: passed.into(), origin: None }),
            address: Some(peer.ip()),
            ..ConnectionRecord::default()
        });
    }

    /// Returns the record of a TLS handshake. Estimates when the handshake ended at the client, from the time
    /// of the origin's report and the link's delays to the origin (`up_ns`) and back (`down_ns`).
    fn session(&self, handshake: &TlsHandshake, (up_ns, down_ns): (u64, u64)) -> TlsRecord {
        let at_ns = handshake.at_ns;
        let complete = handshake.handshake.complete;
        let secured_ns =
            self.since_start(if complete { at_ns.saturating_sub(up_ns) } else { at_ns + down_ns });
        let Traffic { bytes_read, bytes_written, .. } = handshake.traffic;
        TlsRecord::new(handshake.handshake.clone(), bytes_read, bytes_written, secured_ns)
    }

    fn since_start(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.start_ns)
    }

    /// Counts a request on its connection. Returns true if it is the first on a connection of this load.
    fn count_request(&mut self, four_tuple: FourTuple) -> bool {
        let Some(connection) = self.numbers.get(&four_tuple).map(|id| &mut self.records[*id]) else {
            return false;
        };
        connection.requests += 1;
        connection.requests == 1
    }

    fn request(&self, resource: usize, served: &ServedRequest, first: bool) -> RequestRecord {
        let id = self.numbers.get(&served.request.four_tuple).copied();
        let connection = id.map(|id| &self.records[id]).filter(|_| first);
        let end_ns = served.written.last_ns.filter(|_| served.written.ended);
        let error = if id.is_none() {
            Some("it arrived on a connection that was opened before the load".to_owned())
        } else if end_ns.is_none() {
            Some(format!("the answer was cut off after {} bytes of its body", served.written.body_bytes))
        } else {
            None
        };
        RequestRecord {
            resource,
            url: served.request.url.as_deref().map(str::to_owned),
            connection: id,
            connect_start_ns: connection.map(|connection| connection.opened_ns),
            connected_ns: connection.and_then(|connection| connection.connected_ns),
            sent_ns: Some(self.since_start(served.request.at_ns)),
            first_byte_ns: served.written.first_ns.map(|at| self.since_start(at)),
            end_ns: end_ns.map(|at| self.since_start(at)),
            status: Some(served.request.status),
            header_bytes: served.written.header_bytes,
            body_bytes: served.written.body_bytes,
            error,
            ..RequestRecord::default()
        }
    }
}
