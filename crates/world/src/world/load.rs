//! One load: its world is prepared, the client runs, and what was observed becomes a record.
//!
//! Each step consumes the step before: [`Prepared`], [`Observed`], [`LoadRecord`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fastopen_netns::clock::{exact_timers, monotonic_ns, realtime_ns};
use fastopen_netns::counters::Counters;
use fastopen_netns::{Error, tcp};
use fastopen_replay::tls;
use rustls::ClientConfig;
use socket2::{Domain, Socket, Type};

use super::World;
use crate::addresses::client_address;
use crate::clients::{Loaded, Loading, UserAgent};
use crate::contract::{Bodies, BothEnds, Fault, LinkRecord, LoadPlan, LoadRecord, View};
use crate::evidence::{CookiesBefore, Expectation, Observations, given_up, judge};
use crate::failure::Failure;
use crate::link_config::LinkConfig;

/// How long the last packets of a load may take on an unshaped link.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

impl<'a> World<'a> {
    /// Loads the page as `plan` says; `number` counts the job's loads.
    pub(super) fn load(
        &self,
        number: usize,
        plan: &LoadPlan,
        client: &mut dyn UserAgent,
    ) -> Result<LoadRecord, Failure> {
        let prepared = self.prepare(client_address(number as u16 + 1), Expectation::from(plan), client)?;
        Ok(prepared.run(client)?.into_record(plan))
    }

    /// Gives the client a new address, and the cookies, cache and link that the load begins with.
    fn prepare(
        &self,
        address: Ipv4Addr,
        expected: Expectation,
        client: &mut dyn UserAgent,
    ) -> Result<Prepared<'_, 'a>, Failure> {
        // Before the link is configured, which drops packets: the resets of the last load must arrive.
        self.settle()?;
        self.network.link.configure(&LinkConfig::default())?;
        self.network.topology.set_client_address(address)?;
        if self.job.client.view == View::Repeat {
            self.first_view(expected, client)?;
        }
        self.network.topology.set_fastopen(expected.fast_open.is_some())?;
        if expected.fast_open.is_some_and(|one| one.cookies_before == CookiesBefore::EveryHost) {
            self.fetch_cookies()?;
        }
        self.settle()?;
        self.servers.origins.begin_load(expected.tls);
        self.network.link.configure(&self.network.asked)?;
        Ok(Prepared {
            world: self,
            expected,
            address,
            cookies: self.cookies(address)?,
            counters: self.counters()?,
        })
    }

    /// Loads the page for the first time, to fill the client's cache: over an unshaped link and without Fast
    /// Open, so that it leaves no cookie. Resets its connections.
    fn first_view(&self, expected: Expectation, client: &mut dyn UserAgent) -> Result<(), Failure> {
        self.network.topology.set_fastopen(false)?;
        self.servers.origins.begin_load(expected.tls);
        let loading = self.loading(expected)?;
        self.network.topology.client.run(|| {
            exact_timers();
            Ok(client.first_view(&loading))
        })??;
        self.servers.origins.sockets().reset();
        self.settle()?;
        // The resets must reach the client before the link is configured, which drops packets.
        let until_ns = monotonic_ns() + SETTLE_TIMEOUT.as_nanos() as u64;
        while self.network.counters.client.read()?.get("CurrEstab") > 0 {
            if monotonic_ns() > until_ns {
                return Err(Failure::new(Fault::World, "connections of the first view did not end"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Gets a cookie from each host by a connection that requests one and is then reset. To be called with an
    /// unshaped link: what the cookie costs is what a cold load measures.
    fn fetch_cookies(&self) -> Result<(), Failure> {
        self.servers.origins.log().clear();
        self.network.topology.client.run(|| {
            // A second connection to a host would use the cookie, and wait for a first write.
            let mut fetched = BTreeSet::new();
            for address in self.servers.addresses.iter().filter(|address| fetched.insert(*address.ip())) {
                let failed = |source| Error::other(format!("fetching a cookie from {address}"), source);
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).map_err(failed)?;
                tcp::set_fastopen_connect(&socket).map_err(failed)?;
                let address = SocketAddr::V4(*address);
                socket.connect_timeout(&address.into(), SETTLE_TIMEOUT).map_err(failed)?;
                socket.set_linger(Some(Duration::ZERO)).map_err(failed)?;
            }
            Ok(())
        })?;
        // A connection that is accepted later would count as the load's.
        if !self.servers.origins.log().wait_until_accepted(self.hosts.len(), SETTLE_TIMEOUT) {
            return Err(Failure::new(Fault::World, "connections that fetched cookies were not accepted"));
        }
        Ok(())
    }

    /// Waits until all earlier connections have ended, and forgets them.
    fn settle(&self) -> Result<(), Failure> {
        if !self.servers.origins.sockets().wait_until_closed(SETTLE_TIMEOUT) {
            return Err(Failure::new(Fault::World, "connections of an earlier load did not end"));
        }
        self.servers.origins.sockets().forget();
        Ok(())
    }

    /// The load as a client gets it.
    fn loading(&self, expected: Expectation) -> Result<Loading<'_>, Failure> {
        Ok(Loading {
            page: &self.job.page,
            policy: &self.policy,
            addresses: &self.servers.addresses,
            hosts: &self.hosts,
            link: &self.network.asked,
            fastopen: expected.fast_open.is_some(),
            origins: &self.job.origins,
            recorded_date: self.servers.recorded_date.as_deref(),
            schemes: self.job.schemes(expected.tls),
            tls: self.tls(expected)?,
            first_port: self.engine.first_port(),
            timeout_ns: self.job.load_timeout_us * 1000,
            log: self.servers.origins.log(),
            synthetic_page: self.servers.synthetic_pages.as_ref().map(|pages| pages.select(expected.tls)),
            authority: self.servers.authority.as_ref(),
            engine: self.engine,
            start_phase: Duration::from_micros(self.job.start_phase_us),
        })
    }

    /// A TLS client without sessions; none where the load has no TLS.
    fn tls(&self, expected: Expectation) -> Result<Option<Arc<ClientConfig>>, Failure> {
        let authority = self.servers.authority.as_ref().filter(|_| expected.tls);
        let spoken: BTreeSet<_> =
            self.hosts.keys().map(|host| self.job.origins.http_of(host).alpn()).collect();
        let offered: Vec<_> = spoken.into_iter().collect();
        let client = |authority| tls::client(&self.job.tls, authority, &offered);
        Ok(authority.map(client).transpose()?.map(Arc::new))
    }

    /// The hosts of this world whose cookie the client at `address` holds.
    fn cookies(&self, address: Ipv4Addr) -> fastopen_netns::Result<Vec<Ipv4Addr>> {
        let mut table = self.network.cookies.borrow_mut();
        let mut held = Vec::new();
        for host in self.hosts.values() {
            if table.cookie(address, *host)?.is_some() {
                held.push(*host);
            }
        }
        Ok(held)
    }

    fn counters(&self) -> fastopen_netns::Result<BothEnds<Counters>> {
        Ok(BothEnds {
            client: self.network.counters.client.read()?,
            origins: self.network.counters.origins.read()?,
        })
    }
}

/// A world in which the load can begin.
struct Prepared<'w, 'a> {
    world: &'w World<'a>,
    expected: Expectation,
    /// The client's.
    address: Ipv4Addr,
    /// The hosts whose cookie the client holds.
    cookies: Vec<Ipv4Addr>,
    counters: BothEnds<Counters>,
}

impl<'w, 'a> Prepared<'w, 'a> {
    /// Runs the client, and reads link, sockets and counters as soon as the load is over.
    fn run(self, client: &mut dyn UserAgent) -> Result<Observed<'w, 'a>, Failure> {
        let Self { world, .. } = self;
        let loading = world.loading(self.expected)?;
        world.engine.begin_load(loading.start_phase);
        let started_unix_ms = realtime_ns() / 1_000_000;
        let mut observed = None;
        let loaded = world.network.topology.client.run(|| {
            exact_timers();
            Ok(client.load(&loading, &mut || {
                observed = Some((
                    world.network.link.report(),
                    world.servers.origins.sockets().evidence(),
                    world.counters(),
                ));
                // Later packets belong to no load; the resets that follow need no delay.
                let _ = world.network.link.configure(&LinkConfig::default());
            }))
        })?;
        let mut loaded = loaded?;
        let (link, evidence, after) = observed.expect("a client calls `after` once");
        let (link, after) = (link?, after?);
        for (connection, four_tuple) in loaded.connections.iter_mut().zip(&loaded.four_tuples) {
            connection.origin =
                four_tuple.and_then(|four_tuple| evidence.get(&four_tuple)).copied().map(Into::into);
        }
        let growth = |before: &Counters, after: &Counters| -> BTreeMap<String, i64> {
            after.since(before).iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        let counters = BothEnds {
            client: growth(&self.counters.client, &after.client),
            origins: growth(&self.counters.origins, &after.origins),
        };
        Ok(Observed { prepared: self, started_unix_ms, loaded, counters, link })
    }
}

/// What was observed of a load that is over.
struct Observed<'w, 'a> {
    prepared: Prepared<'w, 'a>,
    started_unix_ms: u64,
    loaded: Loaded,
    /// Growth of each counter.
    counters: BothEnds<BTreeMap<String, i64>>,
    link: LinkRecord,
}

impl Observed<'_, '_> {
    /// The record, with the reasons why the load is invalid.
    fn into_record(self, plan: &LoadPlan) -> LoadRecord {
        let Self {
            prepared: Prepared { world, expected, address, cookies, .. }, loaded, counters, link, ..
        } = self;
        let job = world.job;
        let observations = Observations {
            page: &job.page,
            hosts: &world.hosts,
            cookies_before: &cookies,
            requests: &loaded.requests,
            connections: &loaded.connections,
            unfinished: loaded.unfinished.as_deref(),
            counters: &counters,
            link: &link,
            recorded: job.origins.bodies == Bodies::Recorded,
            late_us: job.tolerance.late_us_at(job.network.rtt_us),
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
            client_address: address,
            cookies_before: cookies.len(),
            seen_at: loaded.seen_at,
            browser: loaded.browser,
            unknown_requests: loaded.unmatched.len(),
            unmatched: loaded.unmatched,
            requests: loaded.requests,
            given_up: given_up(&loaded.connections),
            connections: loaded.connections,
            counters,
            link,
        }
    }
}
