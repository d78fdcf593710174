//! One job: a world is built, measured, loaded in, and taken down.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastopen_link::{DirectionConfig, Loss, Rate};
use fastopen_netns::clock::{exact_timers, realtime_ns};
use fastopen_netns::counters::Counters;
use fastopen_netns::{namespace, process, sysctl, tcp, tcp_metrics};
use fastopen_page::{Body, Origin, PageUrl, Piece, Policy, Resource, Spelling, Structure, stage_name};
use fastopen_replay::body::SizedBody;
use fastopen_replay::origins::{Origins, Served, Site};
use fastopen_replay::tls::{self, Authority};
use hyper::Version;
use rustls::{ClientConfig, ServerConfig};

use crate::clients::{Client, Loading};
use crate::contract::{
    Bodies, BothEnds, ClientKind, Cookies, Fault, Http, Job, LinkMaker, LinkRecord, LoadPlan, LoadRecord,
    Measured, Record, Transport, VERSION, WorldRecord,
};
use crate::engine::Engine;
use crate::evidence::{Known, judge};
use crate::link::{Link, LinkConfig};
use crate::measure;
use crate::routers::Routers;
use crate::topology::{Shape, TcpSettings, Topology, client_address, origin_address, recorded_sysctls};
use crate::wire::Wire;

/// How long the last packets of a load may take on a link that holds nothing up.
const SETTLING: Duration = Duration::from_secs(5);
/// More hosts than this would reach the addresses of probes.
const HOSTS: usize = 60_000;

/// Why a job could not be done.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Who is at fault.
    pub fault: Fault,
    /// What was wrong, and where.
    pub message: String,
    /// What to do about it; may be empty.
    pub remedy: String,
}

impl Failure {
    /// A failure without a remedy.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), remedy: String::new() }
    }
}

impl From<fastopen_netns::Error> for Failure {
    fn from(error: fastopen_netns::Error) -> Self {
        Self::new(Fault::Machine, error.to_string())
    }
}

impl From<tls::Error> for Failure {
    fn from(error: tls::Error) -> Self {
        Self::new(Fault::Internal, error.to_string())
    }
}

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
pub fn visit<T>(job: &Job, inside: impl FnOnce() -> T) -> Result<T, Failure> {
    let world = World::build(job, Engine::Host)?;
    world.topology.set_fastopen(job.loads.iter().any(|load| load.transport == Transport::Tfo))?;
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
    /// How the page is served, where its bodies are structural.
    structure: Option<Structure>,
    // In the order in which they must go: servers, then the link, then the namespaces.
    origins: Origins,
    /// Who vouches for the origins, in a job that has TLS.
    authority: Option<Authority>,
    link: Link,
    topology: Topology,
    _names: Names,
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
        let topology = Topology::build(tcp, shape).map_err(|error| explain(error, job))?;
        let link = make_link(&topology, engine)?;
        let addresses: Vec<_> = job
            .page
            .origins()
            .iter()
            .map(|origin| SocketAddrV4::new(hosts[&origin.host], origin.port))
            .collect();
        let structure = (job.origins.bodies == Bodies::Structural)
            .then(|| Structure::of(&job.page, &job.client.policy(), spelling(job)));
        let encrypted = job.loads.iter().any(|load| load.transport.is_encrypted());
        let authority = encrypted.then(|| Authority::new(realtime_ns())).transpose()?;
        let mut site = site(job, &hosts, structure.as_ref())?;
        if let Some(authority) = &authority {
            site.tls = servers(job, &hosts, authority)?;
        }
        let origins = Origins::start(&topology.origins, site)
            .map_err(|error| Failure::new(Fault::Machine, format!("starting the origins: {error}")))?;
        let names = Names::put_up(&on_stage(job, &hosts), authority.as_ref())?;
        let policy = job.client.policy();
        Ok(Self {
            job,
            engine,
            policy,
            asked,
            hosts,
            addresses,
            structure,
            origins,
            authority,
            link,
            topology,
            _names: names,
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
            structure: self.structure.as_ref().map(|structure| (&structure.shortcomings).into()),
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
        let fastopen = plan.transport.is_fast_open();
        // Before the link is made anew: that drops packets, and the resets of the last load must arrive.
        self.settle()?;
        self.link.configure(&open_link())?;
        self.topology.set_fastopen(fastopen)?;
        self.topology.set_client_address(address)?;
        if plan.cookies == Some(Cookies::Warm) {
            self.origins.log().begin();
            self.topology.client.run(|| self.fetch_cookies())?;
            // One that is accepted late would count as the load's.
            self.origins.log().wait_until_accepted(self.addresses.len(), SETTLING);
        }
        self.settle()?;
        self.origins.begin_load(plan.transport.is_encrypted());
        self.link.configure(&self.asked)?;
        let cookies = self.topology.client.run(|| self.cookies(address))?;
        let before = self.counters()?;
        self.engine.begin_load();
        let started_unix_ms = realtime_ns() / 1_000_000;
        let loading = Loading {
            page: &self.job.page,
            policy: &self.policy,
            addresses: &self.addresses,
            hosts: &self.hosts,
            fastopen,
            version: match self.job.origins.http {
                Http::Http10 => Version::HTTP_10,
                Http::Http11 => Version::HTTP_11,
            },
            tls: self.tls(plan.transport)?,
            first_port: self.engine.first_port(),
            timeout_ns: self.job.load_timeout_us * 1000,
            log: self.origins.log(),
            structure: self.structure.as_ref(),
            engine: self.engine,
        };
        let mut said = None;
        let loaded = self.topology.client.run(|| {
            exact_timers();
            Ok(client.load(&loading, &mut || {
                said = Some((self.link.report(), self.origins.connections().evidence(), self.counters()));
                // What is still under way belongs to no load; the resets that follow are to arrive at once.
                let _ = self.link.configure(&open_link());
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
            strange_requests: loaded.strange_requests,
            requests: loaded.requests,
            connections: loaded.connections,
            counters,
            link,
        })
    }

    /// How a client that has never been anywhere speaks TLS, if the transport has it.
    fn tls(&self, transport: Transport) -> Result<Option<Arc<ClientConfig>>, Failure> {
        let authority = self.authority.as_ref().filter(|_| transport.is_encrypted());
        let client =
            |authority| tls::client(&self.job.tls.settings(), authority, &alpn(self.job.origins.http));
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
        for address in &self.addresses {
            let doing =
                |source| fastopen_netns::Error { doing: format!("fetching a cookie from {address}"), source };
            let socket =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).map_err(doing)?;
            tcp::set_fastopen_connect(&socket).map_err(doing)?;
            let address = SocketAddr::V4(*address);
            socket.connect_timeout(&address.into(), SETTLING).map_err(doing)?;
            socket.set_linger(Some(Duration::ZERO)).map_err(doing)?;
        }
        Ok(())
    }

    /// The hosts of this world whose cookie the client at `address` holds.
    fn cookies(&self, address: Ipv4Addr) -> fastopen_netns::Result<Vec<Ipv4Addr>> {
        let mut table = tcp_metrics::Table::open()?;
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
            client: self.topology.client.run(Counters::read)?,
            origins: self.topology.origins.run(Counters::read)?,
        })
    }
}

/// The hosts file of the world and its certificate authority, bound over the machine's own for as long as this lives.
struct Names(Vec<&'static str>);

impl Names {
    const HOSTS: &'static str = "/etc/hosts";
    const SWITCH: &'static str = "/etc/nsswitch.conf";
    /// The authorities that programs trust, on Debian and what comes of it.
    const AUTHORITIES: &'static str = "/etc/ssl/certs/ca-certificates.crt";

    /// Puts the names up and looks each up, as any client would; where there is an authority, it is the only one trusted.
    fn put_up(hosts: &BTreeMap<String, Ipv4Addr>, authority: Option<&Authority>) -> Result<Self, Failure> {
        let mut file = String::new();
        // A page may be served as localhost.
        if !hosts.contains_key("localhost") {
            file.push_str("127.0.0.1 localhost\n");
        }
        for (host, address) in hosts {
            let _ = writeln!(file, "{address} {host}");
        }
        let root = authority.map(Authority::root_pem);
        let mut files = vec![(Self::HOSTS, file.as_str()), (Self::SWITCH, "hosts: files\n")];
        files.extend(root.as_deref().map(|root| (Self::AUTHORITIES, root)));
        let present = files.iter().map(|(path, _)| *path).filter(|path| std::path::Path::new(path).exists());
        let names = Self(present.collect());
        namespace::overlay_files(&files)?;
        for (host, address) in hosts {
            let found = (host.as_str(), 80).to_socket_addrs().ok().and_then(|mut found| found.next());
            // An address written as a host needs no name.
            let is_name = host.parse::<Ipv4Addr>().is_err() && !host.starts_with('[');
            if is_name && found.is_none_or(|found| found.ip() != *address) {
                let found = found.map_or("nothing".to_owned(), |found| found.ip().to_string());
                let message = format!("{host} is known inside as {found} instead of {address}");
                return Err(Failure::new(Fault::World, message));
            }
        }
        Ok(names)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = namespace::remove_overlay(path);
        }
    }
}

fn make_link(topology: &Topology, engine: Engine) -> Result<Link, Failure> {
    let wrong = |error: std::io::Error| Failure::new(Fault::Machine, format!("starting the link: {error}"));
    if let Some((down, up)) = topology.ways() {
        let mut routers = Routers::new(down, up, topology.mtu_bytes());
        routers.configure(&open_link()).map_err(no_discipline)?;
        return Ok(Link::Kernel(Mutex::new(routers)));
    }
    let (client, origins) = topology.ports()?;
    let wire = Wire::start(client, origins, open_link(), engine.spin_ns()).map_err(wrong)?;
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

/// A link that holds nothing up.
fn open_link() -> LinkConfig {
    let way = DirectionConfig {
        delay: 0,
        rate: Rate::Unlimited,
        queue_limit_bytes: None,
        loss: Loss::NONE,
        seed: 0,
    };
    LinkConfig { down: way.clone(), up: way, extra_delay: Vec::new() }
}

/// The application protocols that both ends speak, the best first (RFC 7301).
fn alpn(http: Http) -> Vec<&'static [u8]> {
    match http {
        Http::Http10 | Http::Http11 => vec![b"http/1.1"],
    }
}

/// How each host speaks TLS.
fn servers(
    job: &Job,
    hosts: &BTreeMap<String, Ipv4Addr>,
    authority: &Authority,
) -> Result<BTreeMap<Ipv4Addr, Arc<ServerConfig>>, Failure> {
    let settings = job.tls.settings();
    let server = |(host, address): (&String, &Ipv4Addr)| {
        let identity = authority.identity(host, settings.chain_bytes)?;
        Ok((*address, Arc::new(tls::server(&settings, identity, &alpn(job.origins.http))?)))
    };
    hosts.iter().map(server).collect()
}

fn site(
    job: &Job,
    hosts: &BTreeMap<String, Ipv4Addr>,
    structure: Option<&Structure>,
) -> Result<Site, Failure> {
    let bodies = match &job.origins.bodies_file {
        None => Bytes::new(),
        Some(path) => Bytes::from(fs::read(path).map_err(|error| {
            Failure::new(Fault::Input, format!("origins.bodies_file: {}: {error}", path.display()))
        })?),
    };
    let serve = |(number, resource): (usize, &Resource)| -> Result<Served, Failure> {
        let structural = structure.map(|structure| &structure.resources[number]);
        let body = match (structural, resource.body_offset) {
            (Some(structural), _) => sized(&structural.body),
            (None, None) => SizedBody::filler(resource.body_bytes),
            (None, Some(offset)) => {
                let end = offset.saturating_add(resource.body_bytes);
                if end > bytes_len(&bodies) {
                    let message = format!(
                        "page.resources[{number}].body_offset: the bodies file ends before byte {end}"
                    );
                    return Err(Failure::new(Fault::Input, message));
                }
                SizedBody::recorded(bodies.slice(offset as usize..end as usize))
            }
        };
        let scaled_ns = |us: u64| (us as f64 * 1000.0 * job.origins.think_scale) as u64;
        Ok(Served {
            origin: SocketAddrV4::new(hosts[resource.url.host()], resource.url.port()),
            method: resource.method.clone(),
            target: resource.url.target().to_owned(),
            normal_target: resource.url.normal_target(),
            status: resource.status,
            mime: structural.map_or(&resource.mime, |structural| &structural.mime).clone(),
            location: structural.map_or(&resource.redirect_to, |structural| &structural.location).clone(),
            header_bytes: resource.response_header_bytes as u32,
            body: body.spread(scaled_ns(resource.server_send_us)),
            think_ns: scaled_ns(resource.server_think_us),
            refuses: structural.is_some_and(|structural| structural.refuses),
        })
    };
    Ok(Site {
        resources: job.page.resources.iter().enumerate().map(serve).collect::<Result<_, _>>()?,
        ports: job.page.origins().iter().map(|origin| origin.port).collect(),
        keep_alive: job.origins.keep_alive,
        fastopen_queue: job.origins.tfo_queue.into(),
        tls: BTreeMap::new(),
    })
}

/// The hosts under all names that they have in this world.
fn on_stage(job: &Job, hosts: &BTreeMap<String, Ipv4Addr>) -> BTreeMap<String, Ipv4Addr> {
    let mut named = hosts.clone();
    if job.origins.bodies == Bodies::Structural && job.client.kind == ClientKind::Chromium {
        named.extend(hosts.iter().map(|(host, address)| (stage_name(host), *address)));
    }
    named
}

/// A browser would ask some of the real names by https alone.
fn spelling(job: &Job) -> Spelling {
    if job.client.kind == ClientKind::Chromium { PageUrl::staged } else { PageUrl::plain }
}

fn sized(body: &Body) -> SizedBody {
    body.pieces().iter().fold(SizedBody::default(), |sized, piece| match piece {
        Piece::Bytes(bytes) => sized.and_bytes(Bytes::copy_from_slice(bytes)),
        Piece::Filler(bytes) => sized.and_filler(*bytes),
    })
}

fn bytes_len(bytes: &Bytes) -> u64 {
    bytes.len() as u64
}

/// A key for the origins' cookies that the seed decides, so that a run can be repeated to the bit.
fn cookie_key(seed: u64) -> [u32; 4] {
    let [high, low] = [(seed >> 32) as u32, seed as u32];
    [high ^ 0x6661_7374, low ^ 0x6f70_656e, high.rotate_left(7), low.rotate_left(11)]
}

/// A kernel says "no such file" of a queueing discipline that it does not have.
fn no_discipline(error: fastopen_netns::Error) -> Failure {
    let missing = error.source.kind() == std::io::ErrorKind::NotFound;
    let Some(name) = ["netem", "tbf"].into_iter().find(|name| missing && error.doing.contains(name)) else {
        return error.into();
    };
    Failure {
        fault: Fault::Machine,
        message: format!("this kernel has no {name}, which a link of its own needs"),
        remedy: format!(
            "load it as root (modprobe sch_{name}), or leave the link to fastopen (--link program)"
        ),
    }
}

/// Says what to do where the kernel's word alone does not.
fn explain(error: fastopen_netns::Error, job: &Job) -> Failure {
    let algorithm = &job.tcp.congestion_control;
    let available = sysctl::get("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    if !error.doing.contains("congestion control") || available.split(' ').any(|name| name == algorithm) {
        return error.into();
    }
    Failure {
        fault: Fault::Machine,
        message: format!("this kernel has no congestion control {algorithm} (it has {available})"),
        remedy: format!("load it as root (modprobe tcp_{algorithm}) or choose another"),
    }
}
