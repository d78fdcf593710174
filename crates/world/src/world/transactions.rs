//! Runs the transactions of a job, and checks the validity of the results. Transactions put the server under
//! load instead of loading a page. Each is a connection with one request and its response.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fastopen_link::ip::Version;
use fastopen_netns::clock::{exact_timers, monotonic_ns, realtime_ns, thread_ns};
use fastopen_page::PageUrl;

use super::load::growth;
use super::{World, cookie_key};
use crate::clients::UserAgent;
use crate::contract::{
    Arrivals, Cookies, Fault, FloodCookies, FloodPlan, LoadPlan, NewKey, TransactionsPlan, TransactionsRecord,
};
use crate::evidence::Expectation;
use crate::evidence::transactions::{Outcome, RunObservations, judge};
use crate::failure::{Blame, Failure};
use crate::generator::flood::{self, Flood, Source};
use crate::generator::{self, Target, counted_values, most_frequent};
use crate::network::addresses::{CLIENT_ADDRESSES, client_address, client_addresses};
use crate::network::link_config::LinkConfig;
use crate::network::topology::FastOpenUse;
use crate::server::{self, Server};

/// Lowest port from which the client connects. It uses this port and higher ports in turn.
const FIRST_PORT: u16 = 1024;
const PORTS: u64 = 60_000;
/// Time to wait after the last transaction for the last segments of connections, in addition to two RTTs.
const REST: Duration = Duration::from_millis(20);
/// Maximum number of different failure messages in a record.
const FAILURES: usize = 10;
/// A cookie that the server rejects, because it was not generated with the server's key.
const INVALID_COOKIE: [u8; 8] = *b"not made";

impl World<'_> {
    pub(super) fn transactions(
        &self,
        plan: &LoadPlan,
        asked: &TransactionsPlan,
        client: &mut dyn UserAgent,
    ) -> Result<TransactionsRecord, Failure> {
        let (topology, servers) = (&self.network.topology, &self.servers);
        self.restore(asked)?;
        let flood_sources = self.prepare_flood(asked.flood)?;
        let sources = self.sources(plan, asked)?;
        let expected = Expectation::of(plan, self.job);
        let address = client_addresses(self.job.network.ip, sources.first);
        let cookies_before = self.prepare(address, expected, client)?.cookies.len();
        topology.set_syncookies(asked.syncookies)?;
        self.begin_load()?;

        let (targets, fastopen) = (self.targets(), plan.transport.is_fast_open());
        let core = self.core.as_ref();
        let foreign = servers.server.is_some();
        let used =
            || core.map(|core| core.used(foreign)).transpose().blame(Fault::Machine, "reading a core's time");
        let started_unix_ms = realtime_ns() / 1_000_000;
        let before = self.counters()?;
        let (begin_ns, used_before) = (monotonic_ns(), used()?);
        let run = || {
            exact_timers();
            let flood = asked.flood.map(|flood| Flood::start(flood_sources, &targets[0], flood.rate_per_s));
            let flood = flood.transpose()?;
            let own_ns = thread_ns();
            let halfway = &mut || self.change_key(asked.new_key).map_err(io::Error::other);
            let outcome = generator::run(asked, &targets, fastopen, &|number| sources.of(number), halfway)?;
            let own_ns = thread_ns() - own_ns;
            let syns = flood.map_or(Ok(0), Flood::stop)?;
            Ok::<_, io::Error>((outcome, own_ns, syns))
        };
        let done = topology.client.run(|| Ok(run()))?;
        let (outcome, generator_ns, flood_syns) = done.blame(Fault::Machine, "generating load")?;
        let (end_ns, used_after) = (monotonic_ns(), used()?);
        std::thread::sleep(Duration::from_micros(2 * self.job.network.rtt_us) + REST);
        let (after, link) = (self.counters()?, self.network.link.report()?);
        self.network.link.configure(&LinkConfig::default())?;

        let core = core
            .zip(used_before.zip(used_after))
            .map(|(core, (before, after))| core.record(&topology.origins, end_ns - begin_ns, before, after));
        let server_failure = servers.server.as_ref().map_or(Ok(None), Server::failure)?;
        let queues = servers.server.as_ref().map(|server| server.sockets.queues()).transpose()?;
        let own_queue = Some(u32::from(self.job.origins.tfo_queue));
        let fastopen_queue = queues.map_or(own_queue, |queues| queues.into_values().min().flatten());
        let counters = growth(&before, &after);
        let invalid = judge(&RunObservations {
            plan,
            transactions: asked,
            outcome: &outcome,
            hosts: self.hosts.len(),
            cookies_before,
            fastopen_queue,
            counters: &counters,
            link: &link,
            late_us: self.job.late_us(),
            server_failure: server_failure.as_deref(),
        });
        let answered_over_us = outcome.answered_ns.map_or(0, |(first, last)| last - first) / 1000;
        let Outcome { begun, not_begun, answered, syn_data, fallbacks, retransmits, late, .. } = outcome;
        Ok(TransactionsRecord {
            job: self.job.id.clone(),
            id: plan.id.clone(),
            transport: plan.transport,
            cookies: plan.cookies,
            valid: invalid.is_empty(),
            invalid,
            started_unix_ms,
            cookies_before,
            begun,
            not_begun,
            arrived_over_us: outcome.arrived_over_ns / 1000,
            elapsed_us: outcome.elapsed_ns / 1000,
            answered,
            answered_over_us,
            failures: most_frequent(&outcome.failures, FAILURES),
            syn_data,
            fallbacks,
            retransmits,
            latency_us: counted_values(&outcome.latency_us.0),
            late,
            lateness_us: counted_values(&outcome.lateness_us.0),
            generator_us: generator_ns / 1000,
            fastopen_queue,
            flood_syns,
            counters,
            link,
            core,
        })
    }

    fn targets(&self) -> Vec<Target> {
        let resources = self.job.page.resources.iter();
        let host = |name: &str| self.hosts[name].preferred;
        let port = |one: &PageUrl| server::port_of(&self.job.origins, one.host(), one.port());
        resources
            .map(|one| Target {
                server: SocketAddr::new(host(one.url.host()), port(&one.url)),
                request: format!(
                    "{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                    one.method,
                    one.url.target(),
                    one.url.host()
                )
                .into_bytes(),
                answer: (one.status, one.body_bytes),
            })
            .collect()
    }

    /// Resets the link, SYN cookies and cookie keys to their initial state. Fails after a SYN flood.
    fn restore(&self, asked: &TransactionsPlan) -> Result<(), Failure> {
        if self.flooded.replace(asked.flood.is_some()) {
            let message = "loads: no load can follow a flood, because its half-open connections would count";
            return Err(Failure::new(Fault::Input, message));
        }
        self.settle()?;
        self.network.link.configure(&LinkConfig::default())?;
        self.network.topology.set_syncookies(0)?;
        Ok(self.network.topology.set_cookie_keys(&[cookie_key(self.job.seed)])?)
    }

    /// Reserves client addresses: one for each transaction if clients must have no cookies, else one for all.
    fn sources(&self, plan: &LoadPlan, asked: &TransactionsPlan) -> Result<Sources, Failure> {
        let first = self.next_address.get();
        let cold = plan.cookies == Some(Cookies::Cold);
        let wanted = match asked.arrivals {
            _ if !cold => 1,
            Arrivals::RatePerS(rate) => u64::from(rate) * asked.duration_us / 1_000_000 + 1,
            // The number of transactions is unknown, so half of the remaining addresses are reserved.
            Arrivals::Clients(_) => u64::from((CLIENT_ADDRESSES - first) / 2),
        };
        let left = u64::from(CLIENT_ADDRESSES - first);
        if wanted > left {
            let message = format!("transactions: they need {wanted} client addresses, and {left} are left");
            let remedy = "each cold transaction needs its own: use a lower rate or a shorter duration";
            return Err(Failure::new(Fault::Input, message).with_remedy(remedy));
        }
        let end = first + wanted as u16;
        self.next_address.set(end);
        Ok(Sources {
            ip: self.job.network.ip.preferred(),
            first,
            end: cold.then_some(end),
            resources: self.job.page.resources.len() as u64,
        })
    }

    /// Returns a SYN flood's sources; empty without a flood. Makes the client ignore replies to the SYNs.
    fn prepare_flood(&self, asked: Option<FloodPlan>) -> Result<Vec<Source>, Failure> {
        let Some(asked) = asked else { return Ok(Vec::new()) };
        let addresses: Vec<_> = flood::addresses(self.job.network.ip.preferred()).collect();
        let server = self.servers.addresses[0].ip();
        let topology = &self.network.topology;
        if asked.cookies == FloodCookies::Valid {
            self.servers.server.as_ref().map_or(Ok(()), Server::prepare)?;
            topology.set_fastopen(FastOpenUse::EarlierVisit)?;
            self.servers.fetch_cookies_of(&topology.client, &addresses)?;
        }
        let source = |address: IpAddr| {
            let cookie = match asked.cookies {
                FloodCookies::None => None,
                FloodCookies::Invalid => Some(INVALID_COOKIE.to_vec()),
                FloodCookies::Valid => self.network.cookies.borrow_mut().cookie(address, server)?,
            };
            Ok(Source { address, cookie })
        };
        let sources: Vec<_> = addresses.into_iter().map(source).collect::<fastopen_netns::Result<_>>()?;
        if asked.cookies == FloodCookies::Valid && sources.iter().any(|one| one.cookie.is_none()) {
            let message =
                "the server gave the flood's addresses no cookies: its listener has no Fast Open queue";
            return Err(Failure::new(Fault::World, message));
        }
        self.settle()?;
        topology.silence(flood::network(self.job.network.ip.preferred()))?;
        Ok(sources)
    }

    fn change_key(&self, how: Option<NewKey>) -> fastopen_netns::Result<()> {
        let (old, new) = (cookie_key(self.job.seed), cookie_key(!self.job.seed));
        match how {
            None => Ok(()),
            Some(NewKey::Replace) => self.network.topology.set_cookie_keys(&[new]),
            Some(NewKey::Add) => self.network.topology.set_cookie_keys(&[new, old]),
        }
    }
}

/// The source addresses and ports of transactions.
struct Sources {
    ip: Version,
    first: u16,
    /// End of the range of client address numbers (exclusive); None if all transactions use address `first`.
    end: Option<u16>,
    resources: u64,
}

impl Sources {
    /// Returns the source address and port of transaction `number`; None if no address is left.
    fn of(&self, number: u64) -> Option<SocketAddr> {
        let Some(end) = self.end else {
            // All resources are requested once from a port before the next port is used.
            let port = FIRST_PORT + (number / self.resources % PORTS) as u16;
            return Some(SocketAddr::new(client_address(self.ip, self.first), port));
        };
        let own = u64::from(self.first) + number;
        (own < end.into()).then(|| SocketAddr::new(client_address(self.ip, own as u16), FIRST_PORT))
    }
}
