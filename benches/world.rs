//! Measures how accurate and how fast a world's network is. `make bench` runs this benchmark;
//! docs/measurements/speed.md shows the output.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use fastopen_link::ip::{Addresses, Version, Versions};
use fastopen_link::{DirectionConfig, Rate};
use fastopen_netns::clock::exact_timers;
use fastopen_netns::namespace::{self, NetNs};
use fastopen_netns::route::{Route, RouteSocket, VethEnd, disable_offloads};
use fastopen_netns::sandbox::View;
use fastopen_netns::{process, sysctl, tcp};
use fastopen_page::{Page, Policy, Schemes};
use fastopen_replay::body::SizedBody;
use fastopen_replay::log::OriginLog;
use fastopen_replay::origins::{Origins, ServedResource, Site};
use fastopen_world::clients::loader::Loader;
use fastopen_world::clients::tls::Secure;
use fastopen_world::clients::{Loading, UserAgent};
use fastopen_world::contract::{Engine, Job, LinkKind};
use fastopen_world::engine;
use fastopen_world::network::addresses::{client_address, client_network, origin_address, origin_network};
use fastopen_world::network::link_config::LinkConfig;
use fastopen_world::network::program_link::Forwarder;
use fastopen_world::network::topology::{FastOpenUse, Topology};

const MS: u64 = 1_000_000;

fn main() {
    // `cargo test` also runs benchmarks, without --bench, to check that they build.
    if !env::args().any(|argument| argument == "--bench") {
        return;
    }
    process::raise_priority();
    namespace::enter_sandbox().expect("namespaces are allowed");
    std::process::exit(
        process::run_in_child(|| {
            run();
            0
        })
        .expect("a child can be made"),
    );
}

fn run() {
    println!("| what | measured | goal |\n|---|---|---|");
    let chosen: Vec<_> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let parts: [(&str, fn()); 7] = [
        ("round-trips", round_trips),
        ("goodput", goodput),
        ("saving", one_packet_saving),
        ("capacity", capacity),
        ("cost", cost_of_the_world),
        ("set-up", set_up),
        ("sandbox", sandbox),
    ];
    for (name, measure) in parts {
        if chosen.is_empty() || chosen.iter().any(|choice| choice == name) {
            measure();
        }
    }
}

fn row(what: &str, measured: &str, target: &str) {
    println!("| {what} | {measured} | {target} |");
}

fn link(rtt_ns: u64, rate: &Rate) -> LinkConfig {
    let direction = DirectionConfig { delay: rtt_ns / 2, rate: rate.clone(), ..DirectionConfig::default() };
    LinkConfig { down: direction.clone(), up: direction, ..LinkConfig::default() }
}

/// A world's network, without a page or origins.
struct Bare {
    forwarder: Forwarder,
    topology: Topology,
}

impl Bare {
    fn build(config: LinkConfig) -> Self {
        let topology = Topology::build(&job(1, 1, 0), LinkKind::Program, None);
        let topology = topology.expect("a topology can be made");
        let (client, origins) = topology.packet_sockets().expect("packet sockets can be had");
        let forwarder =
            Forwarder::start(client, origins, engine::spin_ns(Engine::Host)).expect("it can be started");
        forwarder.configure(config);
        Self { forwarder, topology }
    }

    fn listen(&self) -> TcpListener {
        self.topology
            .origins
            .run(|| Ok(TcpListener::bind(address()).expect("the port is free")))
            .expect("the namespace stands")
    }

    fn connect(&self) -> TcpStream {
        self.topology
            .client
            .run(|| Ok(TcpStream::connect(address()).expect("somebody listens")))
            .expect("the namespace stands")
    }
}

fn address() -> SocketAddr {
    SocketAddr::from((origin_address(Version::V4, 3), 8000))
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn round_trips() {
    let bare = Bare::build(link(0, &Rate::Unlimited));
    let listener = bare.listen();
    thread::spawn(move || listener.incoming().for_each(drop));
    for (rtt_ms, count) in [(20, 500), (100, 150), (200, 100)] {
        bare.forwarder.configure(link(rtt_ms * MS, &Rate::Unlimited));
        let mut off: Vec<f64> = (0..count)
            .map(|_| {
                let rtt_us = tcp::info(bare.connect()).expect("it is a TCP socket").rtt_us;
                f64::from(rtt_us) / 1000.0 - rtt_ms as f64
            })
            .collect();
        off.sort_by(f64::total_cmp);
        row(
            &format!("handshake RTT, {rtt_ms} ms asked ({count} handshakes, kernel's measure)"),
            &format!(
                "{:+.3} ms at the median, {:+.3} ms at the 99th percentile",
                quantile(&off, 0.5),
                quantile(&off, 0.99)
            ),
            "within 0.1 and 0.5 ms",
        );
    }
}

/// Measures a bulk transfer from origin to client over one connection. The highest possible goodput is the
/// rate times the fraction of payload in a full packet.
fn goodput() {
    const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;
    for (name, rate, bytes) in [
        ("256 kbit/s", 256_000, 200_000),
        ("4 Mbit/s", 4_000_000, 2_500_000),
        ("100 Mbit/s", 100_000_000, 60_000_000),
    ] {
        let bare = Bare::build(link(20 * MS, &Rate::BitPerS(rate)));
        let listener = bare.listen();
        let sender = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client comes");
            io::copy(&mut io::Read::take(io::repeat(b'.'), bytes), &mut stream).expect("it takes it all");
        });
        let mut stream = bare.connect();
        // Measure in steady state, which is after the first tenth of the bytes.
        let mut buffer = vec![0; 1 << 16];
        let (mut received, mut mark) = (0_u64, None);
        while let Ok(count @ 1..) = io::Read::read(&mut stream, &mut buffer) {
            received += count as u64;
            if mark.is_none() && received > bytes / 10 {
                mark = Some((received, Instant::now()));
            }
        }
        let (at, since) = mark.expect("more than a tenth came");
        let measured = (received - at) as f64 * 8.0 / since.elapsed().as_secs_f64();
        let allowed = rate as f64 * PAYLOAD_SHARE;
        row(
            &format!("goodput at {name} of {:.4} Mbit/s possible", allowed / 1e6),
            &format!("{:.4} Mbit/s ({:+.2} %)", measured / 1e6, (measured / allowed - 1.0) * 100.0),
            "within 0.5 %",
        );
        sender.join().expect("the sender does not panic");
    }
}

/// Returns a job with a page over an unlimited link.
fn job(resources: usize, hosts: usize, body_bytes: u64) -> Job {
    let resource = |number: usize| {
        let host = number % hosts;
        let initiator = if number == 0 { "null" } else { "0" };
        format!(
            r#"{{"url":"http://h{host}.test/{number}","type":"{}",
            "body_bytes":{body_bytes},"initiator":{initiator}}}"#,
            if number == 0 { "document" } else { "image" },
        )
    };
    let resources: Vec<_> = (0..resources).map(resource).collect();
    let json = format!(
        r#"{{"contract":2,"id":"bench","seed":1,"loads":[],"page":{{"format":"fastopen-page/1","name":"bench",
        "url":"http://h0.test/0","source":"made here","initiators":"declared","resources":[{}]}},
        "network":{{"rtt_us":0,"down":{{"rate_bit_per_s":null,"queue_bytes":null}},
        "up":{{"rate_bit_per_s":null,"queue_bytes":null}}}}}}"#,
        resources.join(",")
    );
    serde_json::from_str(&json).expect("it is a job")
}

fn serve(page: &Page, namespace: &NetNs) -> (Origins, Vec<SocketAddr>) {
    let origins = page.origins();
    let address = |host: &str| {
        let number = origins.iter().position(|origin| origin.host == host).expect("it is the page's own");
        SocketAddr::new(origin_address(Version::V4, number as u16), 80)
    };
    let site = Site {
        resources: page
            .resources
            .iter()
            .map(|resource| ServedResource {
                host: Addresses { preferred: address(resource.url.host()).ip(), other: None },
                port: 80,
                method: resource.method.clone(),
                target: resource.url.target().to_owned(),
                normalized_target: resource.url.target().to_owned(),
                alternatives: Vec::new(),
                status: 200,
                mime: resource.mime.clone(),
                head: None,
                location: None,
                header_bytes: 300,
                body: SizedBody::default().and_filler(resource.body_bytes),
                think_ns: 0,
                cache_policy: None,
                refuses_preflight: false,
            })
            .collect(),
        ip: Versions::V4,
        ports: [80].into(),
        keep_alive: true,
        single_threaded: false,
        fastopen_queue: 4096,
        versions: BTreeMap::new(),
        tls: None,
        accepts_similar_urls: false,
        alt_svc: false,
        names: None,
    };
    let addresses = origins.iter().map(|origin| address(&origin.host)).collect();
    (Origins::start(namespace, site).expect("the origins start"), addresses)
}

/// Loads the page and returns the page load time in nanoseconds.
fn plt(job: &Job, client: &NetNs, addresses: &[SocketAddr], fastopen: bool) -> u64 {
    let policy = Policy::browser();
    let loading = Loading {
        resolver: None,
        recorded_date: None,
        schemes: Schemes::Http,
        secure: Secure::default(),
        tap: None,
        authority: None,
        job,
        policy: &policy,
        addresses,
        hosts: &BTreeMap::new(),
        link: &LinkConfig::default(),
        fastopen,
        log: &OriginLog::default(),
        synthetic_page: None,
        engine: Engine::Host,
    };
    client
        .run(|| {
            exact_timers();
            let loaded = Loader.load(&loading, &mut || ()).expect("the loader runs");
            Ok(loaded.plt_ns.expect("the page loads"))
        })
        .expect("the namespace stands")
}

fn one_packet_saving() {
    let job = job(1, 1, 1000);
    for rtt_ms in [20, 100, 200] {
        let bare = Bare::build(link(0, &Rate::Unlimited));
        let (origins, addresses) = serve(&job.page, &bare.topology.origins);
        // The first connection with Fast Open requests the cookie.
        bare.topology.set_fastopen(FastOpenUse::Asked).expect("sysctls can be set");
        plt(&job, &bare.topology.client, &addresses, true);
        bare.forwarder.configure(link(rtt_ms * MS, &Rate::Unlimited));
        let mut saved: Vec<f64> = (0..21)
            .map(|_| {
                let [with, without] =
                    [true, false].map(|on| plt(&job, &bare.topology.client, &addresses, on) as f64);
                (without - with) / (rtt_ms * MS) as f64
            })
            .collect();
        saved.sort_by(f64::total_cmp);
        drop(origins);
        row(
            &format!("saving for one packet each way, {rtt_ms} ms RTT (median of 21 pairs)"),
            &format!("{:.4} RTT ({:.4} to {:.4})", quantile(&saved, 0.5), saved[0], saved[saved.len() - 1]),
            "1.00 ± 1 %",
        );
    }
}

fn capacity() {
    let what = "forwarding capacity, iperf3, 1 ms each way (best of 3 runs of 5 s)";
    let bare = Bare::build(link(2 * MS, &Rate::Unlimited));
    let mut best = None::<f64>;
    for _ in 0..3 {
        let Ok(gbit_per_s) = iperf(&bare.topology) else { continue };
        best = Some(best.map_or(gbit_per_s, |best| best.max(gbit_per_s)));
    }
    let measured = best.map_or("iperf3 is not installed".to_owned(), |best| format!("{best:.2} Gbit/s"));
    row(what, &measured, "2 Gbit/s and more");
}

fn iperf(topology: &Topology) -> io::Result<f64> {
    let mut server = topology
        .origins
        .run(|| Ok(Command::new("iperf3").args(["-s", "-1", "--forceflush"]).stdout(Stdio::piped()).spawn()))
        .map_err(io::Error::other)??;
    let mut ready = [0; 1];
    // The server prints its first output when it listens.
    io::Read::read(server.stdout.as_mut().expect("it is piped"), &mut ready)?;
    let host = origin_address(Version::V4, 0).to_string();
    let client = ["-c", &host, "-t", "5", "-O", "1", "-R", "-J"];
    let output = topology
        .client
        .run(|| Ok(Command::new("iperf3").args(client).output()))
        .map_err(io::Error::other)??;
    // The server ends after one client; without a client it would wait for ever.
    let _ = server.kill();
    server.wait()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.map(|bits| bits / 1e9).ok_or_else(|| io::Error::other("iperf3 failed"))
}

/// Compares page loads over the world's link, with no delay set, with loads of the same page over a veth pair
/// that joins client and origins directly.
fn cost_of_the_world() {
    let job = job(100, 5, 10_000);
    let bare = Bare::build(link(0, &Rate::Unlimited));
    let (origins, addresses) = serve(&job.page, &bare.topology.origins);
    let (client, direct_origins) = direct();
    let (direct_serving, _) = serve(&job.page, &direct_origins);
    let mut ratios = Vec::new();
    let (mut through_link, mut directly) = (Vec::new(), Vec::new());
    for _ in 0..41 {
        let linked = plt(&job, &bare.topology.client, &addresses, false) as f64;
        let direct = plt(&job, &client, &addresses, false) as f64;
        ratios.push(linked / direct - 1.0);
        through_link.push(linked / MS as f64);
        directly.push(direct / MS as f64);
    }
    drop((origins, direct_serving));
    for values in [&mut ratios, &mut through_link, &mut directly] {
        values.sort_by(f64::total_cmp);
    }
    row(
        "cost of the link: 100 requests of 10 kB over 5 hosts, no delay (median of 41 pairs)",
        &format!(
            "{:+.1} % ({:.2} ms, {:.2} ms over plain veth)",
            quantile(&ratios, 0.5) * 100.0,
            quantile(&through_link, 0.5),
            quantile(&directly, 0.5)
        ),
        "under 10 %",
    );
}

/// Returns a namespace for a client and one for origins, joined by a veth pair.
fn direct() -> (NetNs, NetNs) {
    let made = || NetNs::create().expect("a namespace can be made");
    let (client, origins) = (made(), made());
    let join = || -> fastopen_netns::Result<()> {
        let mac = [2, 0, 0, 0, 0, 1];
        let mut routes = RouteSocket::open()?;
        let end = |namespace| VethEnd { name: "eth0", mac, namespace };
        routes.add_veth(&end(&client), &end(&origins), 1500)
    };
    client.run(join).expect("a veth pair can be made");
    let (near, far) = (client_network(Version::V4), origin_network(Version::V4));
    for (namespace, own, other, source) in [
        (&client, near, far, client_address(Version::V4, 0)),
        (&origins, far, near, origin_address(Version::V4, 0)),
    ] {
        let set_up = || -> fastopen_netns::Result<()> {
            sysctl::set("net.ipv4.conf.all.rp_filter", "0")?;
            disable_offloads("eth0")?;
            let mut routes = RouteSocket::open()?;
            routes.bring_up("lo")?;
            routes.bring_up("eth0")?;
            routes.add_local_network(own)?;
            routes.replace_route(&Route {
                destination: other,
                interface: "eth0",
                source: Some(source),
                congestion_control: Some("cubic"),
                initial_window: Some(10),
            })
        };
        namespace.run(set_up).expect("the namespace can be set up");
    }
    (client, origins)
}

fn set_up() {
    let mut built = Vec::new();
    let mut taken_down = Vec::new();
    for _ in 0..21 {
        let started = Instant::now();
        let bare = Bare::build(link(20 * MS, &Rate::Unlimited));
        built.push(started.elapsed().as_secs_f64() * 1e3);
        let ending = Instant::now();
        drop(bare);
        taken_down.push(ending.elapsed().as_secs_f64() * 1e3);
        thread::sleep(Duration::from_millis(50));
    }
    built.sort_by(f64::total_cmp);
    taken_down.sort_by(f64::total_cmp);
    let (up, down) = (quantile(&built, 0.5), quantile(&taken_down, 0.5));
    row(
        "set-up and tear-down of a world (medians of 21)",
        &format!("{up:.0} + {down:.0} ms"),
        "under 100 ms together",
    );
}

/// Measures the cost of a world's sandbox: the time to enter its view of the machine's files, once for each
/// world, and the time of a load whose command does nothing.
fn sandbox() {
    let view = View { all: false, files: Vec::new(), writable: Vec::new(), scratch_bytes: 1 << 30 };
    let mut entered: Vec<_> = (0..21).map(|_| entering(&view)).collect();
    entered.sort_by(f64::total_cmp);
    row(
        "making a world's view of the machine's files (median of 21)",
        &format!("{:.1} ms", quantile(&entered, 0.5)),
        "under 5 ms",
    );
    let mut bare: Vec<_> = (0..41)
        .map(|_| {
            let started = Instant::now();
            Command::new("/bin/true").status().expect("it is there");
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    bare.sort_by(f64::total_cmp);
    let mut loads = loads_of_true();
    loads.sort_by(f64::total_cmp);
    let (bare, load) = (quantile(&bare, 0.5), quantile(&loads, 0.5));
    row(
        "a load whose command does nothing, and the same command outside of a world (medians of 41)",
        &format!("{load:.1} ms, {bare:.1} ms"),
        "no longer",
    );
}

/// Returns the milliseconds that a new process takes to enter a view of the machine's files.
fn entering(view: &View) -> f64 {
    let (out, write) = process::pipe().expect("there are descriptors");
    let (mut out, mut write) = (File::from(out), File::from(write));
    process::run_in_child(|| {
        namespace::enter_sandbox().expect("namespaces are allowed");
        process::run_in_child(|| {
            let started = Instant::now();
            view.enter().expect("mounts are allowed");
            let took = started.elapsed().as_secs_f64() * 1e3;
            write.write_all(&took.to_ne_bytes()).expect("it is open");
            0
        })
        .expect("a child can be made")
    })
    .expect("a child can be made");
    let mut took = [0; 8];
    out.read_exact(&mut took).expect("the child has written");
    f64::from_ne_bytes(took)
}

/// Returns the page load times, in milliseconds, of a command that ends at once.
fn loads_of_true() -> Vec<f64> {
    let minimal = include_str!("../tests/contract/job-minimal.json");
    let mut job: serde_json::Value = serde_json::from_str(minimal).expect("it is JSON");
    job["client"] = serde_json::json!({"kind": "command", "command": ["/bin/true"]});
    let load = |number| serde_json::json!({"id": format!("{number}"), "transport": "tcp"});
    job["loads"] = (0..41).map(load).collect();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fastopen-world"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was built");
    child.stdin.take().expect("it is piped").write_all(job.to_string().as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends").stdout;
    let records = String::from_utf8(output).expect("records are text");
    let parsed = records.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
    parsed
        .filter_map(|record: serde_json::Value| record["plt_ns"].as_u64())
        .map(|ns| ns as f64 / 1e6)
        .collect()
}
