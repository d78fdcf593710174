//! Runs one page load: prepares the emulated network, runs the client, and records the observations.
//!
//! Each step consumes the result of the previous one: [`Prepared`], [`Observed`], [`LoadRecord`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fastopen_link::DirectionConfig;
use fastopen_link::ip::{Addresses, Version};
use fastopen_netns::clock::{exact_timers, monotonic_ns, realtime_ns};
use fastopen_netns::counters::{self, Counters};
use fastopen_netns::tcp::TcpInfo;
use fastopen_replay::log::OriginLog;
use fastopen_replay::quic::QuicClient;
use fastopen_replay::sockets::FourTuple;
use fastopen_replay::tls::{self, Clock, SessionStart, TicketState};

use super::{Servers, World, fault_injection, resolver};
use crate::capture::client_tap::ClientTap;
use crate::capture::tcp_trace::TcpTrace;
use crate::capture::{Capture, Packets};
use crate::clients::tls::Secure;
use crate::clients::{Loaded, Loading, UserAgent};
use crate::contract::{
    BothEnds, ConnectionCounts, Cookies, CrossRecord, Fault, LinkRecord, ListenerRecord, LoadPlan,
    LoadRecord, LookupRecord, OriginTlsRecord, ServerRecord, View,
};
use crate::engine;
use crate::evidence::{EarlyData, Expectation, Observations, given_up, judge};
use crate::failure::{Blame, Failure};
use crate::network::addresses::{client_addresses, origin_number};
use crate::network::cross_traffic::{CrossTraffic, WARM_UP};
use crate::network::link_config::LinkConfig;
use crate::network::topology::FastOpenUse;
use crate::sandbox::memory_guard::MemoryGuard;
use crate::server::{self, Server};

/// Timeout for connections to be accepted or to end on a link without delay, rate limit or loss.
pub(super) const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// RTT of the link during a foreign client's earlier visit, in nanoseconds. Without a delay, a browser gets a
/// host's tickets while it still opens connections in parallel to the first. A connection that begins with a
/// ticket and is closed because the first one speaks HTTP/2 leaves no ticket for the load.
const VISIT_RTT_NS: u64 = 20_000_000;

impl<'a> World<'a> {
    /// Runs the page load with index `number` in the job. Returns its record and, if captured, its packets.
    pub(super) fn load(
        &self,
        number: usize,
        plan: &LoadPlan,
        client: &mut dyn UserAgent,
    ) -> Result<(LoadRecord, Option<Packets>), Failure> {
        let address = client_addresses(self.job.network.ip, number as u16 + 1);
        let observed = self.prepare(address, Expectation::of(plan, self.job), client)?.run(client)?;
        let packets = self.capture.as_ref().map(|capture| {
            let comment = format!("{} {}", self.job.id, plan.id);
            capture.end_load(&comment, &self.hosts, address, observed.ended_unix_ns)
        });
        Ok((observed.into_record(plan), packets.transpose()?))
    }

    /// Prepares client and servers for a page load. Leaves the link without delay, rate limit and loss.
    pub(super) fn prepare(
        &self,
        address: Addresses,
        expected: Expectation,
        client: &mut dyn UserAgent,
    ) -> Result<Prepared<'_, 'a>, Failure> {
        // Configuring the link drops packets, so the resets of the last load must arrive first.
        self.settle()?;
        self.servers.server.as_ref().map_or(Ok(()), Server::prepare)?;
        self.network.link.configure(&LinkConfig::default())?;
        self.network.topology.set_client_address(address)?;
        self.servers.origins.forget_sessions();
        let clock = Arc::new(Clock::default());
        let secure = self.secure(expected, &clock)?;
        if self.job.client.view == View::Repeat || expected.visit != SessionStart::None {
            self.visit(expected, secure.clone(), client)?;
        }
        if self.job.tls.ticket_state == TicketState::Forgotten {
            self.servers.origins.forget_sessions();
        }
        clock.advance(self.job.tls.ticket_state.client_ahead());
        if expected.fast_open.is_some_and(|one| one.cookies_before == Cookies::Warm) {
            self.network.topology.set_fastopen(FastOpenUse::EarlierVisit)?;
            self.servers.fetch_cookies(&self.network.topology.client)?;
        }
        let used = if expected.fast_open.is_some() { FastOpenUse::Asked } else { FastOpenUse::Off };
        self.network.topology.set_fastopen(used)?;
        self.settle()?;
        self.servers.origins.begin(expected.tls, expected.later(), false);
        Ok(Prepared { world: self, expected, secure, address, cookies: self.cookies(address)? })
    }

    /// Waits for the time at which the page load begins, and only then configures the link. Otherwise, late
    /// segments of earlier connections would change which random losses and delays the load's packets get.
    pub(super) fn begin_load(&self) -> Result<(), Failure> {
        engine::begin_load(self.engine, self.job.start_phase_us);
        Ok(self.network.link.configure(&self.network.asked)?)
    }

    /// Makes the client visit the page, without Fast Open, so that it has session tickets and a filled cache.
    /// For foreign clients, the link has the RTT `VISIT_RTT_NS`, unless a host speaks QUIC: Chromium uses the
    /// RTT of the visit's QUIC connections in the load.
    fn visit(
        &self,
        expected: Expectation,
        secure: Secure,
        client: &mut dyn UserAgent,
    ) -> Result<(), Failure> {
        self.network.topology.set_fastopen(FastOpenUse::Off)?;
        let delayed = self.job.client.kind.capabilities().is_foreign && self.job.quic().is_none();
        let delay = if delayed { VISIT_RTT_NS / 2 } else { 0 };
        let way = DirectionConfig { delay, ..DirectionConfig::default() };
        self.network.link.configure(&LinkConfig { down: way.clone(), up: way, ..LinkConfig::default() })?;
        self.servers.origins.begin(expected.tls, expected.visit, true);
        let loading = self.loading(expected, secure);
        self.network.topology.client.run(|| {
            exact_timers();
            Ok(client.visit(&loading))
        })??;
        self.servers.origins.sockets().reset();
        self.servers.origins.quic().close_all();
        self.settle()?;
        // Configuring the link drops packets, so the resets must reach the client first. A QUIC client closes
        // its sockets when its connections are reset.
        let until_ns = monotonic_ns() + SETTLE_TIMEOUT.as_nanos() as u64;
        let files = &self.network.counters.client;
        while files.read()?.get("CurrEstab").is_some_and(|count| *count > 0)
            || self.tap.is_some() && files.udp_sockets()? > 0
        {
            if monotonic_ns() > until_ns {
                return Err(Failure::new(Fault::World, "connections of the earlier visit did not end"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(self.network.link.configure(&LinkConfig::default())?)
    }

    /// Waits until all connections of earlier loads have ended, and discards their recorded data.
    pub(super) fn settle(&self) -> Result<(), Failure> {
        let Servers { origins, server, .. } = &self.servers;
        // A QUIC client that has ended leaves its connections open at the origins.
        origins.quic().close_all();
        let mut tcp = true;
        if let Some(server) = server {
            tcp = server.sockets.wait_until_closed(SETTLE_TIMEOUT)?;
            server.sockets.forget();
            // An external server keeps its connections to the origins open.
            origins.sockets().reset();
        }
        tcp &= origins.sockets().wait_until_closed(SETTLE_TIMEOUT);
        if !tcp || !origins.quic().wait_until_closed(SETTLE_TIMEOUT) {
            return Err(Failure::new(Fault::World, "connections of an earlier load did not end"));
        }
        origins.sockets().forget();
        origins.quic().forget();
        Ok(())
    }

    fn cross_traffic(&self) -> Result<Option<CrossTraffic>, Failure> {
        let Some(asked) = &self.job.network.cross else { return Ok(None) };
        let begin_ns = monotonic_ns();
        let cross = CrossTraffic::start(asked, &self.network.topology)?;
        let until_ns = begin_ns + WARM_UP.as_nanos() as u64;
        std::thread::sleep(Duration::from_nanos(until_ns.saturating_sub(monotonic_ns())));
        Ok(Some(cross))
    }

    fn loading(&self, expected: Expectation, secure: Secure) -> Loading<'_> {
        Loading {
            job: self.job,
            policy: &self.policy,
            addresses: &self.servers.addresses,
            hosts: &self.hosts,
            link: &self.network.asked,
            fastopen: expected.fast_open.is_some(),
            recorded_date: self.servers.recorded_date.as_deref(),
            schemes: self.job.schemes(expected.tls),
            secure,
            tap: self.tap.as_ref(),
            resolver: resolver(self.job),
            log: self.servers.origins.log(),
            synthetic_page: self.servers.synthetic_pages.as_ref().map(|pages| pages.select(expected.tls)),
            authority: self.servers.authority.as_ref(),
            engine: self.engine,
        }
    }

    /// Returns the built-in client's TLS settings, without session tickets. TLS reads the time from `clock`.
    fn secure(&self, expected: Expectation, clock: &Arc<Clock>) -> Result<Secure, Failure> {
        let asks_over_tls = self.job.network.names.alpn();
        let authority = self.servers.authority.as_ref().filter(|_| expected.tls || asks_over_tls.is_some());
        let Some(authority) = authority else { return Ok(Secure::default()) };
        let falls_back = self.job.client.h3_fallback_us.is_some();
        let versions = self.hosts.keys().map(|host| self.job.origins.http_of(host));
        let spoken = versions.map(|one| if falls_back { one.over_tcp().alpn() } else { one.alpn() });
        let offered: Vec<_> = spoken.collect::<BTreeSet<_>>().into_iter().collect();
        // The client's ticket cache has room for the hosts and the resolver.
        let servers = self.hosts.len() + 1;
        let mut config = tls::client(&self.job.tls, authority, &offered, servers)?;
        let early = expected.early_data != EarlyData::None;
        config.enable_early_data = early;
        config.time_provider = clock.clone();
        let (tls, hosts) = (&self.job.tls, self.hosts.len());
        let quic = |settings| QuicClient::new(settings, tls, authority, hosts, early, clock.clone());
        let lookups = asks_over_tls.map(|alpn| {
            let mut config = config.clone();
            config.alpn_protocols = vec![alpn.to_vec()];
            Arc::new(config)
        });
        let quic = self.job.quic().filter(|_| expected.tls).map(quic).transpose()?;
        Ok(Secure { tls: expected.tls.then(|| Arc::new(config)), quic, lookups })
    }

    /// Returns the addresses of hosts whose Fast Open cookies the kernel has for these client addresses.
    fn cookies(&self, client: Addresses) -> fastopen_netns::Result<Vec<IpAddr>> {
        let mut table = self.network.cookies.borrow_mut();
        let mut held = |host| Ok(table.cookie(client.select(Version::of(host)), host)?.map(|_| host));
        let hosts = self.hosts.values().flat_map(|addresses| addresses.iter());
        hosts.filter_map(|host| held(host).transpose()).collect()
    }

    pub(super) fn counters(&self) -> fastopen_netns::Result<BothEnds<Counters>> {
        Ok(BothEnds {
            client: self.network.counters.client.read()?,
            origins: self.network.counters.origins.read()?,
        })
    }
}

impl Servers {
    fn evidence(&self) -> fastopen_netns::Result<BTreeMap<FourTuple, TcpInfo>> {
        let mut evidence = self.origins.sockets().evidence();
        if let Some(server) = &self.server {
            evidence.extend(server.sockets.evidence()?);
        }
        Ok(evidence)
    }

    /// Returns the record of an external server's listeners and of its connections to the origins; None if
    /// there is no such server. Adds late reports of the `TCP_INFO` of closed connections to `evidence`.
    fn server_record(
        &self,
        loaded: &Loaded,
        evidence: &mut BTreeMap<FourTuple, TcpInfo>,
    ) -> fastopen_netns::Result<Option<ServerRecord>> {
        let Some(server) = &self.server else { return Ok(None) };
        let own = |one: &FourTuple| one.origin.port() == server::PORT;
        let wanted: BTreeSet<_> =
            loaded.connections.iter().filter_map(|one| one.four_tuple).filter(own).collect();
        let mut upstream = ConnectionCounts::default();
        for (_, info) in evidence.iter().filter(|(one, _)| origin_number(one.client.ip()).is_some()) {
            upstream.connections += 1;
            upstream.syn_data += usize::from(info.syn_data_acked());
        }
        server.sockets.complete(evidence, &wanted);
        let queues = server.sockets.queues()?;
        let mut listeners: Vec<_> = queues
            .into_iter()
            .map(|(address, fastopen_queue)| ListenerRecord {
                address,
                port: server::PORT,
                fastopen_queue,
                connections: 0,
                syn_data: 0,
            })
            .collect();
        // The kernel prefers a listener on the specific address to one on the unspecified address.
        listeners.sort_by_key(|one| (one.address.is_unspecified(), one.address));
        for (four_tuple, info) in wanted.iter().filter_map(|one| Some((one, evidence.get(one)?))) {
            let own = four_tuple.origin.ip();
            let of_it = |one: &&mut ListenerRecord| one.address == own || one.address.is_unspecified();
            if let Some(listener) = listeners.iter_mut().find(of_it) {
                listener.connections += 1;
                listener.syn_data += usize::from(info.syn_data_acked());
            }
        }
        Ok(Some(ServerRecord { listeners, upstream }))
    }
}

pub(super) struct Prepared<'w, 'a> {
    pub(super) world: &'w World<'a>,
    pub(super) expected: Expectation,
    secure: Secure,
    address: Addresses,
    /// The addresses of the hosts whose Fast Open cookies the client holds.
    pub(super) cookies: Vec<IpAddr>,
}

impl<'w, 'a> Prepared<'w, 'a> {
    fn run(mut self, client: &mut dyn UserAgent) -> Result<Observed<'w, 'a>, Failure> {
        let Self { world, .. } = self;
        let loading = world.loading(self.expected, std::mem::take(&mut self.secure));
        world.begin_load()?;
        let mut cross = world.cross_traffic()?;
        let cross_before = cross.as_ref().map(CrossTraffic::moved);
        let link_before = cross.as_ref().map(|_| world.network.link.report()).transpose()?;
        let before = world.counters()?;
        world.capture.iter().for_each(Capture::begin_load);
        world.tap.iter().for_each(ClientTap::begin_load);
        let (sockets, rtt_ns) = (world.servers.origins.sockets(), world.job.network.rtt_us * 1000);
        let trace = world.job.tcp_trace.then(|| TcpTrace::start(sockets.clone(), rtt_ns));
        let mut trace = trace.transpose().blame(Fault::Machine, "tracing TCP")?;
        let started_unix_ms = realtime_ns() / 1_000_000;
        let (mut observed, mut trace_taken) = (None, None);
        let loaded = world.network.topology.client.run(|| {
            exact_timers();
            Ok(client.load(&loading, &mut || {
                observed = Some((
                    realtime_ns(),
                    world.network.link.report(),
                    world.servers.evidence(),
                    world.servers.origins.quic().evidence(),
                    // Read after the origins' evidence, so that the tap has seen all packets received there.
                    world.tap.as_ref().map(ClientTap::seen).unwrap_or_default(),
                    world.counters(),
                    cross.as_ref().map(CrossTraffic::moved),
                ));
                trace_taken = trace.take().map(TcpTrace::take);
                // Ends the cross traffic, which would flood a link without a rate limit.
                cross = None;
                // A link without delay delivers resets at once. Later packets do not belong to the load.
                let _ = world.network.link.configure(&LinkConfig::default());
            }))
        })?;
        let ended = world.memory.as_ref().and_then(MemoryGuard::reason);
        let mut loaded = loaded?;
        let server_failure = world.servers.server.as_ref().map_or(Ok(None), Server::failure)?;
        if let Some(reason) = ended {
            loaded.unfinished = Some(reason);
            loaded.plt_ns = None;
        }
        let (ended_unix_ns, link, evidence, quic, passed, after, moved) =
            observed.expect("a client calls `after` once");
        let (link, after, mut evidence) = (link?, after?, evidence?);
        let server = world.servers.server_record(&loaded, &mut evidence)?;
        let link = link_before.iter().fold(link, LinkRecord::since);
        let cross = moved.zip(cross_before).map(|(moved, before)| moved.since(before));
        let mut samples = trace_taken.unwrap_or_default();
        for connection in &mut loaded.connections {
            let Some(four_tuple) = &connection.four_tuple else { continue };
            connection.origin = evidence.get(four_tuple).copied().map(Into::into);
            if let Some(seen) = &mut connection.quic {
                seen.origin = quic.get(four_tuple).copied();
                if let Some(passed) = passed.get(four_tuple) {
                    seen.client = (*passed).into();
                }
            }
            connection.origin_samples = samples.remove(four_tuple).unwrap_or_default();
            for sample in &mut connection.origin_samples {
                sample.at_ns = sample.at_ns.saturating_sub(loaded.start_ns);
            }
        }
        add_origins_handshakes(&mut loaded, world.servers.origins.log());
        add_resolvers_queries(&mut loaded, world.servers.origins.log());
        Ok(Observed {
            prepared: self,
            started_unix_ms,
            ended_unix_ns,
            loaded,
            counters: growth(&before, &after),
            link,
            cross,
            server,
            server_failure,
        })
    }
}

/// Returns how much each kernel counter grew at each end. Omits unchanged counters.
pub(super) fn growth(before: &BothEnds<Counters>, after: &BothEnds<Counters>) -> BothEnds<Counters> {
    BothEnds {
        client: counters::growth(&before.client, &after.client),
        origins: counters::growth(&before.origins, &after.origins),
    }
}

fn add_origins_handshakes(loaded: &mut Loaded, log: &OriginLog) {
    let accepted: BTreeMap<_, _> =
        log.connections().into_iter().filter_map(|one| Some((one.four_tuple, one.tls?))).collect();
    // The origins answer streams by urgency, so they may answer another request before the first one.
    let mut earliest: BTreeMap<_, (u64, Option<u64>)> = BTreeMap::new();
    for served in log.requests() {
        let (due_ns, answered_ns) =
            earliest.entry(served.request.four_tuple).or_insert((served.request.due_ns, None));
        *due_ns = served.request.due_ns.min(*due_ns);
        *answered_ns = answered_ns.iter().copied().chain(served.written.first_ns).min();
    }
    for connection in &mut loaded.connections {
        let Some(four_tuple) = &connection.four_tuple else { continue };
        let (Some(tls), Some(seen)) = (&mut connection.tls, accepted.get(four_tuple)) else { continue };
        let held_ns = earliest.get(four_tuple).and_then(|&(due_ns, answered_ns)| {
            let answered_ns = answered_ns?;
            let held = seen.handshake.complete && due_ns < seen.at_ns && answered_ns >= seen.at_ns;
            held.then(|| answered_ns - due_ns)
        });
        tls.origin = Some(OriginTlsRecord {
            resumed: seen.handshake.session.resumed,
            early_bytes: seen.handshake.early_bytes,
            answer_held_ns: held_ns.unwrap_or(0),
        });
    }
}

fn add_resolvers_queries(loaded: &mut Loaded, log: &OriginLog) {
    for query in log.queries() {
        let known = loaded.lookups.iter().position(|lookup| lookup.host.eq_ignore_ascii_case(&query.name));
        // If the resolver got a query for a name for which the client reported no lookup, add an empty
        // record, so that the check of the evidence reports it.
        let place = known.unwrap_or_else(|| {
            loaded.lookups.push(LookupRecord { host: query.name.clone(), ..LookupRecord::default() });
            loaded.lookups.len() - 1
        });
        let seen = &mut loaded.lookups[place].resolver;
        seen.queries += 1;
        seen.answers += usize::from(query.answered);
    }
}

pub(super) struct Observed<'w, 'a> {
    pub(super) prepared: Prepared<'w, 'a>,
    started_unix_ms: u64,
    ended_unix_ns: u64,
    pub(super) loaded: Loaded,
    pub(super) counters: BothEnds<BTreeMap<String, i64>>,
    pub(super) link: LinkRecord,
    cross: Option<CrossRecord>,
    server: Option<ServerRecord>,
    server_failure: Option<String>,
}

impl Observed<'_, '_> {
    /// Checks the page load's validity and returns its record. For soak tests, first injects a fault.
    fn into_record(mut self, plan: &LoadPlan) -> LoadRecord {
        let job = self.prepared.world.job;
        if let Some(number) = job.fault {
            fault_injection::inject(number, &mut self);
        }
        let Self { prepared: Prepared { world, expected, address, cookies, .. }, loaded, .. } = self;
        let observations = Observations {
            job,
            hosts: &world.hosts,
            cookies_before: &cookies,
            requests: &loaded.requests,
            connections: &loaded.connections,
            lookups: &loaded.lookups,
            unfinished: loaded.unfinished.as_deref(),
            counters: &self.counters,
            link: &self.link,
            path: &world.network.asked.path,
            server: self.server.as_ref(),
            server_failure: self.server_failure.as_deref(),
            seen_at: loaded.seen_at,
            schemes: job.schemes(expected.tls),
        };
        let invalid = judge(&observations, expected);
        LoadRecord {
            job: job.id.clone(),
            id: plan.id.clone(),
            transport: plan.transport,
            cookies: plan.cookies,
            valid: invalid.is_empty(),
            invalid,
            plt_ns: loaded.plt_ns,
            started_unix_ms: self.started_unix_ms,
            client_address: address.preferred,
            cookies_before: cookies.len(),
            seen_at: loaded.seen_at,
            browser: loaded.browser,
            unknown_requests: loaded.unmatched.len(),
            unmatched: loaded.unmatched,
            lookups: loaded.lookups,
            requests: loaded.requests,
            given_up: given_up(&loaded.connections),
            connections: loaded.connections,
            counters: self.counters,
            link: self.link,
            cross: self.cross,
            server: self.server,
        }
    }
}
