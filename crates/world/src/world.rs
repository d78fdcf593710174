//! One job: a world is built, measured, loaded in, and taken down.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastopen_link::{DirectionConfig, Loss, Rate};
use fastopen_netns::clock::{exact_timers, monotonic_ns, realtime_ns};
use fastopen_netns::counters::{CounterFiles, Counters};
use fastopen_netns::{process, sysctl, tcp, tcp_metrics};
use fastopen_page::{Origin, Policy};
use fastopen_replay::origins::Origins;
use fastopen_replay::tls::{self, Authority};
use rustls::ClientConfig;

use crate::clients::{Client, Loading};
use crate::contract::{
    BothEnds, Cookies, Fault, Job, LinkMaker, LinkRecord, LoadPlan, LoadRecord, Measured, Record, Transport,
    VERSION, View, WorldRecord,
};
use crate::engine::Engine;
use crate::evidence::{Known, judge};
use crate::failure::Failure;
use crate::link::{Link, LinkConfig};
use crate::measure;
use crate::names::{HostsOverlay, with_aliases};
use crate::routers::Routers;
use crate::site::{SyntheticPages, alpn, site};
use crate::topology::{Shape, TcpSettings, Topology, client_address, origin_address, recorded_sysctls};
use crate::wire::Wire;

/// How long the last packets of a load may take on a link that holds nothing up.
const SETTLING: Duration = Duration::from_secs(5);
/// More hosts than this would reach the addresses of probes.
const HOSTS: usize = 60_000;

/// Does a job, giving each record to `write` as soon as it is there. Returns how many loads were written.
///
/// # Errors
/// The reason why the world could not be built, or is not what was asked for.
pub fn run(
    job: &Job,
    engine: Engine,
    write: &mut dyn FnMut(&Record) -> Result<(), Failure>,
) -> Result<(), Failure> {
    engine.begin_job()?;
    let begun = Instant::now();
    let world = World::build(job, engine)?;
    write(&Record::World(Box::new(world.measure(begun)?)))?;
    let mut client = Client::of(job);
    for (number, plan) in job.loads.iter().enumerate() {
        write(&Record::Load(Box::new(world.load(number, plan, &mut client)?)))?;
    }
    let ending = Instant::now();
    drop(client);
    drop(world);
    let teardown_us = ending.elapsed().as_micros() as u64;
    write(&Record::End { job: job.id.clone(), loads: job.loads.len(), teardown_us })
}

/// Builds the world of a job on this machine's kernel and runs `inside` in its client's network, set up as for the job's first load but
/// without cookies. It is not measured: nobody counts what happens in it.
///
/// # Errors
/// Where the world could not be built.
pub fn with_world<T>(job: &Job, inside: impl FnOnce() -> T) -> Result<T, Failure> {
    let world = World::build(job, Engine::Host)?;
    world.topology.set_fastopen(job.loads.iter().any(|load| load.transport.is_fast_open()))?;
    world.topology.set_client_address(client_address(1))?;
    world.link.configure(&world.asked)?;
    Ok(world.topology.client.run(|| Ok(inside()))?)
}

/// A world that stands.
struct World<'a> {
    job: &'a Job,
    engine: Engine,
    policy: Policy,
    asked: LinkConfig,
    hosts: BTreeMap<String, Ipv4Addr>,
    /// Address of each of the page's origins, in its own order.
    addresses: Vec<SocketAddrV4>,
    /// The page as it is served, if its bodies are synthetic.
    synthetic_pages: Option<SyntheticPages>,
    // In the order in which they must go: servers, then the link, then the namespaces.
    origins: Origins,
    /// Who vouches for the origins, in a job that has TLS.
    authority: Option<Authority>,
    link: Link,
    /// What the kernel tells of the client's cookies, and of both ends' connections.
    cookies: RefCell<tcp_metrics::Table>,
    counters: BothEnds<CounterFiles>,
    topology: Topology,
    _hosts_overlay: HostsOverlay,
}

impl<'a> World<'a> {
    fn build(job: &'a Job, engine: Engine) -> Result<Self, Failure> {
        let hosts = number_hosts(job)?;
        let asked = link_config(job, &hosts)?;
        let tcp = TcpSettings {
            congestion_control: job.tcp.congestion_control.clone(),
            initial_window_segments: job.tcp.initial_window_segments,
            mtu_bytes: job.network.mtu_bytes,
            fastopen_key: cookie_key(job.seed),
        };
        let by_kernel = match job.network.link {
            LinkMaker::Auto => engine == Engine::Virtual && Routers::can_be(&asked),
            LinkMaker::Program => false,
            LinkMaker::Kernel => true,
        };
        let shape = if by_kernel { Shape::Routers } else { Shape::Ports };
        let topology = Topology::build(tcp, shape)?;
        let link = make_link(&topology, engine)?;
        let cookies = RefCell::new(topology.client.run(tcp_metrics::Table::open)?);
        let counters = BothEnds {
            client: topology.client.run(CounterFiles::open)?,
            origins: topology.origins.run(CounterFiles::open)?,
        };
        let addresses: Vec<_> = job
            .page
            .origins()
            .iter()
            .map(|origin| SocketAddrV4::new(hosts[&origin.host], origin.port))
            .collect();
        let synthetic_pages = SyntheticPages::of(job);
        let encrypted = job.loads.iter().any(|load| load.transport.is_encrypted());
        let authority = encrypted.then(|| Authority::new(realtime_ns())).transpose()?;
        let site = site(job, &hosts, synthetic_pages.as_ref(), authority.as_ref())?;
        let origins = Origins::start(&topology.origins, site)
            .map_err(|error| Failure::new(Fault::Machine, format!("starting the origins: {error}")))?;
        let hosts_overlay = HostsOverlay::mount(&with_aliases(job, &hosts), authority.as_ref())?;
        let policy = job.policy();
        Ok(Self {
            job,
            engine,
            policy,
            asked,
            hosts,
            addresses,
            synthetic_pages,
            origins,
            authority,
            link,
            cookies,
            counters,
            topology,
            _hosts_overlay: hosts_overlay,
        })
    }

    /// Measures the network and reads the settings back.
    fn measure(&self, begun: Instant) -> Result<WorldRecord, Failure> {
        let setup_us = begun.elapsed().as_micros() as u64;
        let routes = measure::tcp_settings(&self.topology)?;
        let link = measurable(&self.asked);
        self.link.configure(&link)?;
        let measured = measure::network(&self.topology, &link, self.job.network.mtu_bytes)?;
        self.check(&measured)?;
        let settings = || -> fastopen_netns::Result<BTreeMap<String, String>> {
            recorded_sysctls().map(|name| Ok((name.to_owned(), sysctl::get(name)?))).collect()
        };
        Ok(WorldRecord {
            job: self.job.id.clone(),
            contract: VERSION,
            engine: self.engine.name(),
            link: self.link.name(),
            kernel: sysctl::get("kernel.osrelease")?,
            program: env!("CARGO_PKG_VERSION"),
            hosts: self.hosts.clone(),
            sysctls: BothEnds {
                client: self.topology.client.run(settings)?,
                origins: self.topology.origins.run(settings)?,
            },
            routes,
            nice: process::nice(),
            measured,
            fidelity_gaps: self.synthetic_pages.as_ref().map(|pages| (&pages.gaps(self.job)).into()),
            setup_us,
        })
    }

    fn check(&self, measured: &Measured) -> Result<(), Failure> {
        let tolerance = &self.job.tolerance;
        let off = measured.rtt_us.median.abs_diff(measured.rtt_us.expected);
        let off_world = |message: String| Failure {
            fault: Fault::World,
            message,
            remedy: "the machine may be too busy: run fewer worlds at once (--jobs), or allow for more"
                .into(),
        };
        if off > tolerance.rtt_us {
            return Err(off_world(format!(
                "the world's RTT is {} us instead of {} us (tolerance {} us)",
                measured.rtt_us.median, measured.rtt_us.expected, tolerance.rtt_us
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

    fn load(&self, number: usize, plan: &LoadPlan, client: &mut Client) -> Result<LoadRecord, Failure> {
        let address = client_address(number as u16 + 1);
        // Before the link is made anew: that drops packets, and the resets of the last load must arrive.
        self.settle()?;
        self.link.configure(&LinkConfig::open())?;
        self.topology.set_client_address(address)?;
        if self.job.client.view == View::Repeat {
            self.first_visit(plan.transport, client)?;
        }
        self.topology.set_fastopen(plan.transport.is_fast_open())?;
        if plan.cookies == Some(Cookies::Warm) {
            self.origins.log().begin();
            self.topology.client.run(|| self.fetch_cookies())?;
            // One that is accepted late would count as the load's.
            if !self.origins.log().wait_until_accepted(self.hosts.len(), SETTLING) {
                return Err(Failure::new(Fault::World, "connections that fetched cookies were not accepted"));
            }
        }
        self.settle()?;
        self.origins.begin_load(plan.transport.is_encrypted());
        self.link.configure(&self.asked)?;
        let cookies = self.cookies(address)?;
        let before = self.counters()?;
        self.engine.begin_load();
        let started_unix_ms = realtime_ns() / 1_000_000;
        let loading = self.loading(plan.transport)?;
        let mut said = None;
        let loaded = self.topology.client.run(|| {
            exact_timers();
            Ok(client.load(&loading, &mut || {
                said = Some((self.link.report(), self.origins.connections().evidence(), self.counters()));
                // What is still under way belongs to no load; the resets that follow are to arrive at once.
                let _ = self.link.configure(&LinkConfig::open());
            }))
        })?;
        let mut loaded = loaded?;
        let (report, evidence, after) = said.expect("a client says when a load is over");
        let (report, after) = (report?, after?);
        for (connection, ends) in loaded.connections.iter_mut().zip(&loaded.ends) {
            connection.origin = ends.and_then(|ends| evidence.get(&ends)).copied().map(Into::into);
        }
        let growth = |before: &Counters, after: &Counters| -> BTreeMap<String, i64> {
            after.since(before).iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        let counters = BothEnds {
            client: growth(&before.client, &after.client),
            origins: growth(&before.origins, &after.origins),
        };
        let link = LinkRecord { down: (&report.down).into(), up: (&report.up).into() };
        let invalid = judge(&Known {
            plan,
            page: &self.job.page,
            requests: &loaded.requests,
            connections: &loaded.connections,
            client: &counters.client,
            origins: &counters.origins,
            link: &link,
            hosts: &self.hosts,
            cookies_before: &cookies,
            unfinished: loaded.unfinished.as_deref(),
            late_us: self.job.tolerance.late_us_at(self.job.network.rtt_us),
        });
        Ok(LoadRecord {
            job: self.job.id.clone(),
            id: plan.id.clone(),
            transport: plan.transport,
            cookies: plan.cookies,
            valid: invalid.is_empty(),
            invalid,
            plt_ns: loaded.plt_ns,
            started_unix_ms,
            client_address: address,
            cookies_before: cookies.len(),
            seen_at: loaded.seen_at,
            browser: loaded.browser,
            unknown_requests: loaded.strange_requests,
            requests: loaded.requests,
            connections: loaded.connections,
            counters,
            link,
        })
    }

    /// Has the client at the page once, for what it then keeps: over an open link, without Fast Open, so that no cookie comes of it, and
    /// no connection is left.
    fn first_visit(&self, transport: Transport, client: &mut Client) -> Result<(), Failure> {
        self.topology.set_fastopen(false)?;
        self.origins.begin_load(transport.is_encrypted());
        let loading = self.loading(transport)?;
        self.topology.client.run(|| {
            exact_timers();
            Ok(client.visit(&loading))
        })??;
        self.origins.connections().reset();
        self.settle()?;
        // The link is made anew before the load, and what is on it then is lost: the client is to know by then.
        let until_ns = monotonic_ns() + SETTLING.as_nanos() as u64;
        while self.counters.client.read()?.get("CurrEstab") > 0 {
            if monotonic_ns() > until_ns {
                return Err(Failure::new(Fault::World, "connections of the first visit did not end"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// What a client is told of a load.
    fn loading(&self, transport: Transport) -> Result<Loading<'_>, Failure> {
        Ok(Loading {
            page: &self.job.page,
            policy: &self.policy,
            addresses: &self.addresses,
            hosts: &self.hosts,
            link: &self.asked,
            fastopen: transport.is_fast_open(),
            origins: &self.job.origins,
            tls: self.tls(transport)?,
            first_port: self.engine.first_port(),
            timeout_ns: self.job.load_timeout_us * 1000,
            log: self.origins.log(),
            synthetic_page: self.synthetic_pages.as_ref().map(|pages| pages.select(transport.is_encrypted())),
            authority: self.authority.as_ref(),
            engine: self.engine,
        })
    }

    /// How a client that has never been anywhere speaks TLS, if the transport has it.
    fn tls(&self, transport: Transport) -> Result<Option<Arc<ClientConfig>>, Failure> {
        let authority = self.authority.as_ref().filter(|_| transport.is_encrypted());
        let spoken: BTreeSet<_> =
            self.hosts.keys().flat_map(|host| alpn(self.job.origins.http_of(host))).collect();
        let offered: Vec<_> = spoken.into_iter().collect();
        let client = |authority| tls::client(&self.job.tls.settings(), authority, &offered);
        Ok(authority.map(client).transpose()?.map(Arc::new))
    }

    /// Waits until nothing is left of earlier connections, and forgets them.
    fn settle(&self) -> Result<(), Failure> {
        if !self.origins.connections().wait_until_ended(SETTLING) {
            return Err(Failure::new(Fault::World, "connections of an earlier load did not end"));
        }
        self.origins.connections().forget();
        Ok(())
    }

    /// Gets a cookie from each host by a connection that asks for one and is then reset. Over an open link: what the cookie
    /// costs is what a cold load measures.
    fn fetch_cookies(&self) -> fastopen_netns::Result<()> {
        // A cookie is of a host: at its second port it would be used already, and nothing sent.
        let mut known = BTreeSet::new();
        for address in self.addresses.iter().filter(|address| known.insert(*address.ip())) {
            let failed =
                |source| fastopen_netns::Error::other(format!("fetching a cookie from {address}"), source);
            let socket =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).map_err(failed)?;
            tcp::set_fastopen_connect(&socket).map_err(failed)?;
            let address = SocketAddr::V4(*address);
            socket.connect_timeout(&address.into(), SETTLING).map_err(failed)?;
            socket.set_linger(Some(Duration::ZERO)).map_err(failed)?;
        }
        Ok(())
    }

    /// The hosts of this world whose cookie the client at `address` holds.
    fn cookies(&self, address: Ipv4Addr) -> fastopen_netns::Result<Vec<Ipv4Addr>> {
        let mut table = self.cookies.borrow_mut();
        let mut held = Vec::new();
        for host in self.hosts.values() {
            if table.cookie(address, *host)?.is_some() {
                held.push(*host);
            }
        }
        Ok(held)
    }

    fn counters(&self) -> fastopen_netns::Result<BothEnds<Counters>> {
        Ok(BothEnds { client: self.counters.client.read()?, origins: self.counters.origins.read()? })
    }
}

fn make_link(topology: &Topology, engine: Engine) -> Result<Link, Failure> {
    let wrong = |error: std::io::Error| Failure::new(Fault::Machine, format!("starting the link: {error}"));
    if let Some((down, up)) = topology.ways()? {
        let mut routers = Routers::new(down, up, topology.mtu_bytes());
        routers.configure(&LinkConfig::open())?;
        return Ok(Link::Kernel(Box::new(Mutex::new(routers))));
    }
    let (client, origins) = topology.ports()?;
    let wire = Wire::start(client, origins, LinkConfig::open(), engine.spin_ns()).map_err(wrong)?;
    Ok(Link::Program(wire))
}

fn number_hosts(job: &Job) -> Result<BTreeMap<String, Ipv4Addr>, Failure> {
    let mut hosts = BTreeMap::new();
    for Origin { host, .. } in job.page.origins() {
        let number = hosts.len();
        hosts.entry(host).or_insert_with(|| origin_address(number as u16));
    }
    if hosts.len() > HOSTS {
        return Err(Failure::new(
            Fault::Input,
            format!("page.resources: {} hosts, at most {HOSTS}", hosts.len()),
        ));
    }
    Ok(hosts)
}

fn link_config(job: &Job, hosts: &BTreeMap<String, Ipv4Addr>) -> Result<LinkConfig, Failure> {
    let rtt = job.network.rtt_us * 1000;
    // Both directions draw from the job's seed, each in its own way.
    let wrong = |problem: String| Failure::new(Fault::Input, format!("network.{problem}"));
    let down = job.network.down.model("down", rtt - rtt / 2, job.seed).map_err(wrong)?;
    let up = job.network.up.model("up", rtt / 2, job.seed ^ 0x9e37_79b9_7f4a_7c15).map_err(wrong)?;
    let mut extra_delay = vec![0; hosts.len()];
    for (host, extra_us) in &job.network.host_extra_rtt_us {
        let number = hosts.get(host).and_then(|address| crate::topology::origin_number(address.octets()));
        if let Some(delay) = number.and_then(|number| extra_delay.get_mut(number)) {
            *delay = extra_us * 1000 / 2;
        }
    }
    Ok(LinkConfig { down, up, extra_delay })
}

/// The link as far as a few probes can tell it: nothing is lost at random, and where packets leave at the times of a trace,
/// which a probe meets at any point, only the delay is there.
fn measurable(link: &LinkConfig) -> LinkConfig {
    let way = |way: &DirectionConfig| {
        let rate = match &way.rate {
            Rate::Trace(_) => Rate::Unlimited,
            rate => rate.clone(),
        };
        DirectionConfig { rate, loss: Loss::NONE, ..way.clone() }
    };
    LinkConfig { down: way(&link.down), up: way(&link.up), extra_delay: link.extra_delay.clone() }
}

/// A key for the origins' cookies that the seed decides, so that a run can be repeated to the bit.
fn cookie_key(seed: u64) -> [u32; 4] {
    let [high, low] = [(seed >> 32) as u32, seed as u32];
    [high ^ 0x6661_7374, low ^ 0x6f70_656e, high.rotate_left(7), low.rotate_left(11)]
}
