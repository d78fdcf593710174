//! Runs a job: builds and measures its emulated network (the "world"), loads its page, and removes the world.

mod cookies;
mod fault_injection;
mod load;
pub mod serve_commands;
pub mod site;
mod transactions;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fastopen_intercept::{Invocation, run_here};
use fastopen_link::ip;
use fastopen_link::path::{self, Behaviour, PathRule};
use fastopen_netns::clock::realtime_ns;
use fastopen_netns::counters::CounterFiles;
use fastopen_netns::{Error, process, sysctl, tcp_metrics};
use fastopen_page::{Origin, Policy};
use fastopen_replay::origins::{Origins, ServedResource};
use fastopen_replay::tls::{Authority, KeyLines, SessionStart};
use hyper::header::DATE;

use crate::capture::client_tap::ClientTap;
use crate::capture::{self, Capture, Packets};
use crate::clients::user_agent;
use crate::contract::{
    Bodies, BothEnds, Engine, Fault, Job, LinkKind, LinkMaker, Measured, NameLookup, Record, VERSION,
    WorldRecord,
};
use crate::engine;
use crate::failure::{Blame, Failure};
use crate::network::addresses::{client_addresses, origin_addresses, origin_number, resolver_address};
use crate::network::link::Link;
use crate::network::link_config::LinkConfig;
use crate::network::measure;
use crate::network::sysctls::recorded_sysctls;
use crate::network::topology::{FastOpenUse, Topology};
use crate::sandbox::hosts_overlay::{HostsOverlay, with_aliases};
use crate::sandbox::memory_guard::MemoryGuard;
use crate::sandbox::server_core::ServerCore;
use crate::server::{self, Server};
use crate::world::serve_commands::ServeCommand;
use crate::world::site::{SyntheticPages, site};

/// Maximum number of attempts to measure the requested network before the job fails.
const MEASUREMENTS: u32 = 5;

/// Maximum number of bytes of a pcapng file in one record, which limits the length of the record's line.
const PACKETS_PIECE: usize = 3 << 20;

/// A function that writes a record to this program's output.
pub type Emit<'a> = &'a mut dyn FnMut(&Record) -> Result<(), Failure>;

/// Runs a job and passes each record to `write` as soon as it is complete. Fails if the emulated network
/// cannot be built or differs from the network that the job requests, or if a page load cannot be run.
pub fn run(job: &Job, engine: Engine, write: Emit) -> Result<(), Failure> {
    engine::begin_job(engine, job.origins.bodies == Bodies::Recorded)?;
    let started = Instant::now();
    let world = World::build(job, engine, None)?;
    write(&Record::World(Box::new(world.measure(started)?)))?;
    let mut client = user_agent(job.client.kind);
    for (number, plan) in job.loads.iter().enumerate() {
        if let Some(asked) = &plan.transactions {
            write(&Record::Transactions(Box::new(world.transactions(plan, asked, client.as_mut())?)))?;
            continue;
        }
        let (record, packets) = world.load(number, plan, client.as_mut())?;
        if let Some((pcapng, dropped)) = packets {
            for piece in pcapng.chunks(PACKETS_PIECE) {
                let (job, id) = (job.id.clone(), plan.id.clone());
                write(&Record::Packets { job, id, pcapng: BASE64_STANDARD.encode(piece), dropped })?;
            }
        }
        write(&Record::Load(Box::new(record)))?;
    }
    let teardown_started = Instant::now();
    drop(client);
    drop(world);
    let teardown_us = teardown_started.elapsed().as_micros() as u64;
    write(&Record::End { job: job.id.clone(), loads: job.loads.len(), teardown_us })
}

/// The results of a command that ran in an emulated network ([`run_command`]).
pub struct Ran {
    pub exit_code: i32,
    /// The packets captured at the client and the origins, if the job requests them.
    pub packets: Option<Packets>,
    /// An error message for each server command that had ended with an error when the command ended.
    pub failed_servers: Vec<String>,
}

/// Builds the emulated network of a job, starts `servers` with the environment of `command`, and runs the
/// command in the client's namespace ([`run_here`]). The client has no Fast Open cookies.
pub fn run_command(
    job: &Job,
    engine: Engine,
    servers: &[ServeCommand],
    command: Invocation,
    report: File,
) -> Result<Ran, Failure> {
    let world = World::build(job, engine, Some(servers))?;
    let topology = &world.network.topology;
    let encrypted = job.loads.iter().any(|load| load.transport.is_encrypted());
    world.servers.origins.begin(encrypted, SessionStart::Early, false);
    let used = job.loads.iter().any(|load| load.transport.is_fast_open());
    topology.set_fastopen(if used { FastOpenUse::Asked } else { FastOpenUse::Off })?;
    let address = client_addresses(job.network.ip, 1);
    topology.set_client_address(address)?;
    world.network.link.configure(&world.network.asked)?;
    let isolated = job.client.isolate;
    let mut running = serve_commands::start_all(servers, command.environment, &topology.origins, isolated)?;
    if let Some(capture) = &world.capture {
        capture.begin_load();
    }
    let mut reaped = |process, status| serve_commands::note_reaped(&mut running, process, status);
    let exit_code = topology.client.run(|| Ok(run_here(command, report, isolated, &mut reaped)))?;
    let failed_servers = running.iter_mut().filter_map(serve_commands::Running::failure).collect();
    let packets = |capture: &Capture| capture.end_load(&job.id, &world.hosts, address, realtime_ns());
    let packets = world.capture.as_ref().map(packets).transpose()?;
    Ok(Ran { exit_code, packets, failed_servers })
}

/// The emulated network of a job, with its servers. Fields drop in this order: servers before their network.
struct World<'a> {
    job: &'a Job,
    engine: Engine,
    policy: Policy,
    hosts: BTreeMap<String, ip::Addresses>,
    servers: Servers,
    capture: Option<Capture>,
    /// Counts the QUIC packets of an external client; None without such a client or without QUIC.
    tap: Option<ClientTap>,
    network: Network,
    /// Limits the memory of external programs; None in virtual time, where the kernel's memory is limited.
    memory: Option<MemoryGuard>,
    /// Number of the next client address that transactions may use.
    next_address: Cell<u16>,
    /// True after a SYN flood, whose half-open connections remain.
    flooded: Cell<bool>,
    core: Option<ServerCore>,
}

impl<'a> World<'a> {
    /// Builds a job's emulated network. `serve` lists servers for `fastopen shell`; None for measurements.
    fn build(job: &'a Job, engine: Engine, serve: Option<&[ServeCommand]>) -> Result<Self, Failure> {
        let frames = serve.map_or_else(|| capture::frames(job), |_| capture::SHELL_FRAMES);
        // In real time, the total memory of a command of `fastopen shell` is not limited.
        let guarded = engine == Engine::Host && job.is_foreign() && serve.is_none();
        let serve = serve.unwrap_or_default();
        let hosts = assign_addresses(job, serve);
        let core = if job.has_transactions() { ServerCore::reserve(engine) } else { Ok(None) };
        let core = core.blame(Fault::Machine, "reserving a core for the server")?;
        let network = Network::build(job, engine, link_config(job, &hosts), core.as_ref())?;
        let capture = job.packets.then(|| Capture::start(frames, &network.topology)).transpose()?;
        let tap = ClientTap::is_needed(job).then(|| ClientTap::start(job, &network.topology)).transpose()?;
        let keys = capture.as_ref().map(|capture| &capture.keys);
        let servers = Servers::start(job, &hosts, serve, &network.topology, keys, core.as_ref())?;
        let memory = guarded.then(MemoryGuard::start).transpose();
        let memory = memory.map_err(|error| Error::other("starting a thread", error))?;
        // Loads use the client addresses from number 1 on, and transactions use the next ones.
        let next_address = Cell::new(job.loads.len() as u16 + 1);
        Ok(Self {
            job,
            engine,
            policy: job.policy(),
            hosts,
            servers,
            capture,
            tap,
            network,
            memory,
            next_address,
            flooded: Cell::new(false),
            core,
        })
    }

    /// Measures the emulated network, whose construction began at `started`. Returns the network's record.
    fn measure(&self, started: Instant) -> Result<WorldRecord, Failure> {
        let Network { kind, topology, link, asked, .. } = &self.network;
        let setup_us = started.elapsed().as_micros() as u64;
        let routes = measure::tcp_settings(topology)?;
        let measurable = asked.measurable();
        link.configure(&measurable)?;
        let measured = self.measure_network(&measurable)?;
        let setting = |name: &str| Ok((name.to_owned(), sysctl::get(name)?));
        let settings = || recorded_sysctls(self.job.network.ip).map(setting).collect();
        Ok(WorldRecord {
            job: self.job.id.clone(),
            contract: VERSION,
            engine: self.engine,
            link: *kind,
            kernel: sysctl::get("kernel.osrelease")?,
            program: env!("CARGO_PKG_VERSION").into(),
            hosts: self.hosts.iter().map(|(host, one)| (host.clone(), one.preferred)).collect(),
            path_hosts: self.hosts_behind(&asked.path),
            sysctls: topology.at_both_ends(settings)?,
            routes,
            nice: process::nice(),
            measured,
            fidelity_gaps: self.servers.synthetic_pages.as_ref().map(|pages| pages.gaps(self.job)),
            setup_us,
        })
    }

    /// Returns the hosts whose connections the middlebox affects; None without a middlebox.
    fn hosts_behind(&self, path: &PathRule) -> Option<BTreeSet<String>> {
        let behind = self.hosts.iter().filter(|(_, one)| one.iter().any(|one| path.affects(one)));
        (path.behaviour != Behaviour::None).then(|| behind.map(|(host, _)| host.clone()).collect())
    }

    /// Measures RTT and rates until they are within the job's tolerance, at most `MEASUREMENTS` times. A busy
    /// machine only makes a network slower, so a result within the tolerance is not due to chance.
    fn measure_network(&self, link: &LinkConfig) -> Result<Measured, Failure> {
        let mut tries = 1;
        loop {
            let measured = measure::network(&self.network.topology, link)?;
            match self.check(&measured) {
                Ok(()) => return Ok(measured),
                Err(failure) if tries == MEASUREMENTS => return Err(failure),
                Err(_) => tries += 1,
            }
        }
    }

    fn check(&self, measured: &Measured) -> Result<(), Failure> {
        let tolerance = &self.job.tolerance;
        let off = measured.rtt_us.median.abs_diff(measured.rtt_us.expected);
        let off_world = |message: String| {
            let remedy = "the machine may be too busy: run fewer worlds in parallel (--jobs)";
            Failure::new(Fault::World, message).with_remedy(remedy)
        };
        // A few handshakes do not show the median of a varying delay, so the tolerance includes all jitter.
        let ways = [&self.job.network.down, &self.job.network.up];
        let varying: u64 = ways.iter().filter_map(|way| way.jitter).map(|one| one.size() / 1000).sum();
        if off > tolerance.rtt_us + varying {
            return Err(off_world(format!(
                "the world's RTT is {} ms instead of {} ms (tolerance {} ms)",
                measured.rtt_us.median as f64 / 1000.0,
                measured.rtt_us.expected as f64 / 1000.0,
                tolerance.rtt_us as f64 / 1000.0
            )));
        }
        for (way, rate) in [("down", &measured.down_bit_per_s), ("up", &measured.up_bit_per_s)] {
            let (Some(asked), Some(median)) = (rate.asked, rate.median) else { continue };
            let off = (median as f64 / asked as f64 - 1.0).abs();
            if off > tolerance.rate_fraction {
                return Err(off_world(format!(
                    "the world's rate {way} is {median} bit/s instead of {asked} (tolerance {} %)",
                    tolerance.rate_fraction * 100.0
                )));
            }
        }
        Ok(())
    }
}

/// The link and the network namespaces that it connects. Fields drop in this order: the link first.
struct Network {
    kind: LinkKind,
    link: Link,
    /// The link that the job requests.
    asked: LinkConfig,
    /// Reads the client's Fast Open cookies from the kernel.
    cookies: RefCell<tcp_metrics::Table>,
    counters: BothEnds<CounterFiles>,
    topology: Topology,
}

impl Network {
    fn build(
        job: &Job,
        engine: Engine,
        asked: LinkConfig,
        core: Option<&ServerCore>,
    ) -> Result<Self, Failure> {
        if job.network.ip.has(ip::Version::V6) && !std::path::Path::new("/proc/sys/net/ipv6").exists() {
            let remedy = match engine {
                Engine::Host => "as root: modprobe ipv6; or boot without ipv6.disable=1",
                Engine::Virtual => "fastopen kernel build",
            };
            let failure = Failure::new(Fault::Machine, "network.ip: this kernel has no IPv6");
            return Err(failure.with_remedy(remedy));
        }
        // Only the link in this program can emulate a middlebox.
        let by_kernel = match job.network.link {
            _ if asked.path.behaviour != Behaviour::None => false,
            LinkMaker::Auto => engine == Engine::Virtual && job.network.kernel_matches_model(),
            LinkMaker::Program => false,
            LinkMaker::Kernel => true,
        };
        let kind = if by_kernel { LinkKind::Kernel } else { LinkKind::Program };
        let topology = Topology::build(job, kind, core)?;
        topology.set_cookie_keys(&[cookie_key(job.seed)])?;
        // With AI_ADDRCONFIG, getaddrinfo(3) skips a version of IP if no interface has such an address.
        if resolver(job).is_some() || job.network.ip == ip::Versions::Both {
            topology.show_connectivity()?;
        }
        let link = Link::start(&topology, engine)?;
        let cookies = RefCell::new(topology.client.run(tcp_metrics::Table::open)?);
        let counters = topology.at_both_ends(CounterFiles::open)?;
        Ok(Self { kind, link, asked, cookies, counters, topology })
    }
}

struct Servers {
    server: Option<Server>,
    origins: Origins,
    authority: Option<Authority>,
    /// The address, in the preferred version of IP, of each of the page's origins, in the page's order.
    addresses: Vec<SocketAddr>,
    /// The address of each origin in the other version of IP; empty if the job uses only one version.
    other_addresses: Vec<SocketAddr>,
    synthetic_pages: Option<SyntheticPages>,
    /// The address of the resolver, if clients query it over TCP, with or without TLS.
    resolver: Option<SocketAddr>,
    /// The `Date` header of the page's first resource, if it was recorded.
    recorded_date: Option<String>,
    _hosts_overlay: HostsOverlay,
}

impl Servers {
    fn start(
        job: &Job,
        hosts: &BTreeMap<String, ip::Addresses>,
        serve: &[ServeCommand],
        topology: &Topology,
        keys: Option<&Arc<KeyLines>>,
        core: Option<&ServerCore>,
    ) -> Result<Self, Failure> {
        let page_origins = job.page.origins();
        let port = |one: &Origin| server::port_of(&job.origins, &one.host, one.port);
        let addresses =
            page_origins.iter().map(|one| SocketAddr::new(hosts[&one.host].preferred, port(one))).collect();
        let other = |one: &Origin| Some(SocketAddr::new(hosts[&one.host].other?, port(one)));
        let other_addresses = page_origins.iter().filter_map(other).collect();
        let synthetic_pages = SyntheticPages::of(job);
        let encrypted = job.loads.iter().any(|load| load.transport.is_encrypted());
        let has_tls = encrypted || job.network.names.alpn().is_some();
        let authority = has_tls.then(|| Authority::new(realtime_ns())).transpose()?;
        let mut site = site(job, hosts, synthetic_pages.as_ref(), authority.as_ref(), keys, resolver(job))?;
        let is_served = |one: &Origin| serve.iter().any(|server| server.host == one.host);
        if page_origins.iter().all(is_served) {
            // The built-in servers need not listen.
            site.ports.clear();
        }
        let root = site.resources.first();
        let recorded_date = root.and_then(|root| Some(root.head.as_ref()?.get(DATE)?.to_str().ok()?.into()));
        let resources = job.origins.server.as_ref().map(|_| site.resources.clone());
        // The core is for the measured server: the external server if there is one, otherwise the origins.
        let foreign = job.origins.server.is_some();
        let origins = on_core(core.filter(|_| !foreign), || Origins::start(&topology.origins, site))?
            .map_err(|error| Error::other("starting the origins", error))?;
        // The system's stub resolver supports only UDP and TCP.
        let asked = resolver(job).filter(|_| job.network.names.alpn().is_none());
        let asked = asked.map(|resolver| (resolver.ip(), job.network.names.is_over_tcp()));
        let hosts_overlay = HostsOverlay::mount(&with_aliases(job, hosts), authority.as_ref(), asked)?;
        let start = |(words, resources): (&Vec<String>, Vec<ServedResource>)| {
            on_core(core, || Server::start(words, job, hosts, &topology.origins, &resources))?
        };
        let server = job.origins.server.as_ref().zip(resources).map(start).transpose()?;
        let started = Self {
            server,
            origins,
            authority,
            addresses,
            other_addresses,
            resolver: resolver(job).filter(|_| job.network.names.is_over_tcp()),
            recorded_date,
            synthetic_pages,
            _hosts_overlay: hosts_overlay,
        };
        if job.origins.upstream_tfo {
            started.fetch_upstream_cookies(&topology.origins)?;
        }
        Ok(started)
    }
}

fn on_core<T>(core: Option<&ServerCore>, work: impl FnOnce() -> T) -> Result<T, Failure> {
    let Some(core) = core else { return Ok(work()) };
    core.run(work).blame(Fault::Machine, "giving the server its core")
}

/// Returns the address of the DNS resolver; None if clients need no lookups.
fn resolver(job: &Job) -> Option<SocketAddr> {
    Some(SocketAddr::new(resolver_address(job.network.ip.preferred()), job.network.names.port()?))
}

/// Assigns addresses to the hosts. The contract limits the resources of a page, and so its hosts, to 10,000.
/// Probes, cross traffic and the resolver have address numbers from 64,000 on.
fn assign_addresses(job: &Job, serve: &[ServeCommand]) -> BTreeMap<String, ip::Addresses> {
    let mut hosts = BTreeMap::new();
    let of_page = job.page.origins().into_iter().map(|Origin { host, .. }| host);
    for host in of_page.chain(serve.iter().map(|command| command.host.clone())) {
        let number = if job.origins.one_address { 0 } else { hosts.len() };
        hosts.entry(host).or_insert_with(|| origin_addresses(job.network.ip, number as u16));
    }
    hosts
}

fn link_config(job: &Job, hosts: &BTreeMap<String, ip::Addresses>) -> LinkConfig {
    let asked_rtt = job.network.rtt_us * 1000;
    // The link has the smaller of the RTTs to origins and resolver. The difference is added behind the link.
    let resolver_rtt = job.network.resolver_rtt_us.map_or(asked_rtt, |us| us * 1000);
    let rtt = asked_rtt.min(resolver_rtt);
    // Each direction has its own seed, derived from the job's seed.
    let checked = "`Job::read` has checked both directions";
    let down = job.network.down.model("down", rtt - rtt / 2, job.seed).expect(checked);
    let up = job.network.up.model("up", rtt / 2, job.seed ^ 0x9e37_79b9_7f4a_7c15).expect(checked);
    let mut extra_delay = vec![0; hosts.len()];
    for (host, extra_us) in &job.network.host_extra_rtt_us {
        let number = hosts.get(host).and_then(|one| origin_number(one.preferred));
        if let Some(delay) = number.and_then(|number| extra_delay.get_mut(number)) {
            *delay = extra_us * 1000 / 2;
        }
    }
    let (origins_delay, resolver_delay) = ((asked_rtt - rtt) / 2, (resolver_rtt - rtt) / 2);
    LinkConfig { down, up, extra_delay, origins_delay, resolver_delay, path: path_rule(job, hosts) }
}

/// Returns the middlebox's behaviour, and the addresses of the hosts that it affects (None: all addresses).
/// The middlebox affects each of the job's `path_hosts` (None: each host) with the probability `path_share`.
fn path_rule(job: &Job, hosts: &BTreeMap<String, ip::Addresses>) -> PathRule {
    let asked = &job.network;
    let behind = || {
        // Sorted by address, which is the page's order.
        let mut numbered: Vec<_> = hosts.iter().map(|(host, address)| (*address, host)).collect();
        numbered.sort_unstable();
        let drawn = path::drawn_hosts(asked.path_share, job.seed ^ 0x3c6e_f372_fe94_f82a);
        let behind = numbered.into_iter().zip(drawn).filter(|((_, host), drawn)| {
            *drawn && asked.path_hosts.as_ref().is_none_or(|named| named.contains(*host))
        });
        behind.flat_map(|((addresses, _), _)| addresses.iter()).collect()
    };
    // The middlebox affects neither a resolver nor cross traffic, so with these the rule must list the hosts.
    let others = asked.names != NameLookup::None || asked.cross.is_some();
    let some = asked.path_hosts.is_some() || asked.path_share < 1.0 || others;
    PathRule { behaviour: asked.path, hosts: some.then(behind) }
}

/// Derives the origins' cookie key (`net.ipv4.tcp_fastopen_key`) from the seed, so that runs are repeatable.
fn cookie_key(seed: u64) -> [u32; 4] {
    let [high, low] = [(seed >> 32) as u32, seed as u32];
    [high ^ 0x6661_7374, low ^ 0x6f70_656e, high.rotate_left(7), low.rotate_left(11)]
}
