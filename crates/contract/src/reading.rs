//! A job out of JSON: what it must be beyond its form, and what is said of one that is not.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use fastopen_page::{Resource, Scheduler, Schemes};
use fastopen_replay::HttpVersion;
use fastopen_replay::quic::{CongestionControl, DATAGRAM_BYTES, UDP_HEADER_BYTES};
use fastopen_replay::tls::{CertificateCompression, Certificates, SessionStart, Settings, Version};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::VERSION;
use crate::client::{ClientSettings, RequestHeads, View};
use crate::job::{Bodies, Job, LinkDirection, LinkMaker, LoadPlan, Network, OriginSettings, Way};
use crate::transactions::{Arrivals, TransactionsPlan};

/// The longest head of a request or response: what HTTP servers accept at most.
const HEAD_BYTES: u64 = 256 * 1024;
/// The longest path and query: hyper allows no more.
const TARGET_BYTES: u64 = 65_534;
/// The longest word of a command line: the kernel's `MAX_ARG_STRLEN` without the closing NUL.
const WORD_BYTES: u64 = 131_071;
/// The most session tickets of an origin: what rustls keeps of a host.
const TICKETS: u8 = 8;
/// The longest time for which the kernel may turn Fast Open off: a day.
const BLACKHOLE_TIMEOUT_S: u32 = 86_400;
const RTT_US: RangeInclusive<u64> = 0..=60_000_000;
/// A time or a size that nobody asks for, as of pages: sums over all resources stay within 64 bits.
const MAX_US: u64 = 1_000_000_000_000;
const MAX_BYTES: u64 = 1 << 40;

/// What cannot be, with its place.
type Checked = Result<(), String>;

impl Job {
    /// Reads one job from JSON.
    ///
    /// # Errors
    /// One line that names the place (`network.down.loss: …`).
    pub fn read(json: &RawValue) -> Result<Self, String> {
        let mut reader = serde_json::Deserializer::from_str(json.get());
        let job: Self = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| one_line(&format!("{}: {}", error.path(), error.inner())))?;
        job.validate().map_err(|problem| one_line(&problem))?;
        Ok(job)
    }

    fn validate(&self) -> Checked {
        demand(self.contract == VERSION, || format!("contract: {} is not {VERSION}", self.contract))?;
        not_empty("id", &self.id)?;
        within("seed", self.seed, 0..=i64::MAX as u64)?;
        self.validate_page()?;
        self.network.validate()?;
        self.validate_hosts()?;
        let tcp = &self.tcp;
        demand(is_algorithm(&tcp.congestion_control), || {
            "tcp.congestion_control: not 1 to 15 lower-case letters, digits, - or _".into()
        })?;
        within("tcp.initial_window_segments", tcp.initial_window_segments, 1..=1000)?;
        within("tcp.blackhole_timeout_s", tcp.blackhole_timeout_s, 0..=BLACKHOLE_TIMEOUT_S)?;
        self.client.validate()?;
        let able = self.network.names.alpn().is_none() || self.client.kind.capabilities().encrypts_lookups;
        demand(able, || {
            format!("network.names: {} asks the resolver in the clear; use do53 or tcp", self.client.kind)
        })?;
        Scheduler::new(&self.page, &self.policy()).map_err(|error| format!("client: {error}"))?;
        within("origins.think_scale", self.origins.think_scale, 0.0..=1000.0)?;
        within("origins.tfo_queue", self.origins.tfo_queue, 1..=u16::MAX)?;
        self.validate_address()?;
        self.validate_server()?;
        demand(self.origins.keep_alive || !self.origins.multiplex(), || {
            "origins.keep_alive: with HTTP/2 and HTTP/3 origins keep connections; client.keep_alive \
             can be false"
                .into()
        })?;
        demand(
            self.origins.bodies != Bodies::Recorded || self.client.kind.capabilities().reads_bodies,
            || format!("origins.bodies: {} does not read bodies", self.client.kind),
        )?;
        within("tls.chain_bytes", self.tls.chain_bytes, 0..=60_000)?;
        within("tls.tickets", self.tls.tickets, 0..=TICKETS)?;
        self.validate_session()?;
        self.validate_versions()?;
        within("loads: their number", self.loads.len(), 1..=10_000)?;
        for (number, load) in self.loads.iter().enumerate() {
            self.validate_load(load).map_err(|problem| format!("loads[{number}].{problem}"))?;
        }
        within("tolerance.rtt_us", self.tolerance.rtt_us, 0..=MAX_US)?;
        within("tolerance.rate_fraction", self.tolerance.rate_fraction, 0.0..=1.0)?;
        within("tolerance.late_us", self.tolerance.late_us.unwrap_or_default(), 0..=MAX_US)?;
        within("load_timeout_us", self.load_timeout_us, 1..=3_600_000_000)?;
        within("start_phase_us", self.start_phase_us, 0..=60_000_000)
    }

    fn validate_server(&self) -> Checked {
        let Some(words) = &self.origins.server else {
            let OriginSettings { server_hosts, server_listen, upstream_tfo, upstream_rtt_us, .. } =
                &self.origins;
            let set = [
                ("server_hosts", server_hosts.is_some()),
                ("server_listen", *server_listen),
                ("upstream_tfo", *upstream_tfo),
                ("upstream_rtt_us", *upstream_rtt_us > 0),
            ];
            return match set.into_iter().find(|(_, set)| *set) {
                Some((key, _)) => Err(format!("origins.{key}: there is no server")),
                None => Ok(()),
            };
        };
        demand(self.origins.server_hosts.as_ref().is_none_or(|hosts| !hosts.is_empty()), || {
            "origins.server_hosts: is empty".into()
        })?;
        within("origins.upstream_rtt_us", self.origins.upstream_rtt_us, RTT_US)?;
        validate_words("origins.server", words)?;
        demand(self.client.kind.capabilities().meets_servers, || {
            format!("origins.server: {} is not run against servers of others", self.client.kind)
        })?;
        demand(!self.tcp_trace, || "tcp_trace: a server of others has no trace".into())?;
        let encrypted = |load: &LoadPlan| load.transport.is_encrypted();
        match self.loads.iter().position(encrypted) {
            Some(number) => {
                Err(format!("loads[{number}].transport: servers of others speak in the clear alone"))
            }
            None => Ok(()),
        }
    }

    fn validate_session(&self) -> Checked {
        let Settings { session, tickets, version, ticket_state, certificates, .. } = self.tls;
        demand(version == Version::Tls13 || certificates.is_none_or(Certificates::fit_tls12), || {
            "tls.certificates: post-quantum certificates need tls.version 1.3".into()
        })?;
        let compressed = self.tls.certificate_compression != CertificateCompression::None;
        demand(version == Version::Tls13 || !compressed, || {
            "tls.certificate_compression: needs tls.version 1.3".into()
        })?;
        demand(session == SessionStart::None || tickets > 0, || {
            "tls.session: with tls.tickets 0 there is none to resume".into()
        })?;
        demand(session != SessionStart::Early || version == Version::Tls13, || {
            "tls.session: early data needs tls.version 1.3".into()
        })?;
        demand(self.client.kind.capabilities().sessions.contains(&session), || {
            format!("tls.session: {} cannot begin with a session of an earlier visit", self.client.kind)
        })?;
        let ours = !self.client.kind.capabilities().is_foreign;
        demand(ours || ticket_state.client_ahead().is_zero(), || {
            format!("tls.ticket_state: {} has the machine's clock", self.client.kind)
        })
    }

    fn validate_versions(&self) -> Checked {
        let kind = self.client.kind;
        let versions = self.page.origins().into_iter().map(|origin| self.origins.http_of(&origin.host));
        let able = kind.capabilities().versions;
        if let Some(unknown) = versions.clone().find(|one| !able.contains(one)) {
            return Err(format!("origins.http: {kind} does not speak HTTP/{unknown}"));
        }
        if !versions.into_iter().any(HttpVersion::is_quic) {
            return Ok(());
        }
        demand(self.tls.version == Version::Tls13, || {
            "tls.version: HTTP/3 runs over QUIC, which needs 1.3".into()
        })?;
        demand(CongestionControl::named(&self.tcp.congestion_control).is_some(), || {
            "tcp.congestion_control: QUIC has cubic and reno".into()
        })?;
        let least = u32::from(DATAGRAM_BYTES) + UDP_HEADER_BYTES;
        demand(self.network.mtu_bytes >= least, || {
            format!("network.mtu_bytes: QUIC needs {least} (RFC 9000 section 14)")
        })
    }

    fn validate_page(&self) -> Checked {
        self.page.validate().map_err(|error| format!("page.{error}"))?;
        for (number, resource) in self.page.resources.iter().enumerate() {
            let place = |key: &str| format!("page.resources[{number}].{key}");
            within(place("request_header_bytes"), resource.request_header_bytes, 0..=HEAD_BYTES)?;
            within(place("response_header_bytes"), resource.response_header_bytes, 0..=HEAD_BYTES)?;
            let target = resource.url.target().len() as u64;
            within(place("url: the length of path and query"), target, 1..=TARGET_BYTES)?;
        }
        Ok(())
    }

    /// On one address hosts are told apart by the loader's requests alone, not by certificates.
    fn validate_address(&self) -> Checked {
        if !self.origins.one_address {
            return Ok(());
        }
        demand(!self.client.kind.capabilities().is_foreign, || {
            format!("origins.one_address: {} does not name the resources that it asks for", self.client.kind)
        })?;
        let encrypted = self.loads.iter().position(|load| load.transport.is_encrypted());
        encrypted.map_or(Ok(()), |number| {
            Err(format!("loads[{number}].transport: hosts of one address speak in the clear alone"))
        })
    }

    /// Hosts that are named besides the page's.
    fn validate_hosts(&self) -> Checked {
        let known = |host: &str| self.page.resources.iter().any(|resource| resource.url.host() == host);
        for (place, named) in [
            ("network.host_extra_rtt_us", self.network.host_extra_rtt_us.keys().collect::<Vec<_>>()),
            ("network.path_hosts", self.network.path_hosts.iter().flatten().collect()),
            ("origins.http2_hosts", self.origins.http2_hosts.iter().collect()),
            ("origins.http3_hosts", self.origins.http3_hosts.iter().collect()),
            ("origins.server_hosts", self.origins.server_hosts.iter().flatten().collect()),
        ] {
            if let Some(host) = named.into_iter().find(|host| !known(host)) {
                return Err(format!("{place}.{host}: the page has no such host"));
            }
        }
        let OriginSettings { http2_hosts, http3_hosts, .. } = &self.origins;
        match http2_hosts.intersection(http3_hosts).next() {
            Some(host) => Err(format!("origins.http3_hosts.{host}: is in http2_hosts, too")),
            None => Ok(()),
        }
    }

    fn validate_load(&self, load: &LoadPlan) -> Checked {
        not_empty("id", &load.id)?;
        let encrypted = load.transport.is_encrypted();
        let renamed = |one: &Resource| {
            one.url.is_encrypted(self.schemes(encrypted)) != one.url.is_encrypted(Schemes::Recorded)
        };
        demand(self.origins.bodies != Bodies::Recorded || !self.page.resources.iter().any(renamed), || {
            "transport: recorded bodies name URLs with the schemes that they were recorded with".into()
        })?;
        demand(load.transport.is_fast_open() == load.cookies.is_some(), || {
            "cookies: needed with transports of tfo, and only with them".into()
        })?;
        if let Some(transactions) = &load.transactions {
            demand(!encrypted, || "transactions: are made in the clear alone".into())?;
            transactions.validate()?;
        }
        let kind = self.client.kind;
        let clear = kind.capabilities().clear_versions;
        let schemes = self.schemes(encrypted);
        let in_the_clear =
            self.page.resources.iter().map(|one| &one.url).filter(|url| !url.is_encrypted(schemes));
        let mut versions = in_the_clear.map(|url| self.origins.http_at(url, schemes));
        if let Some(version) = versions.find(|one| !clear.contains(one)) {
            return Err(format!("transport: {kind} speaks HTTP/{version} over TLS alone"));
        }
        demand(!load.transport.is_fast_open() || !self.origins.http.is_quic(), || {
            "transport: HTTP/3 runs over QUIC, which has no SYN for TCP Fast Open".into()
        })
    }
}

impl TransactionsPlan {
    fn validate(&self) -> Checked {
        let (Arrivals::RatePerS(count) | Arrivals::Clients(count)) = self.arrivals;
        within("transactions.arrivals", count, 1..=100_000)?;
        within("transactions.duration_us", self.duration_us, 1..=600_000_000)?;
        within("transactions.late_us", self.late_us, 0..=1_000_000)?;
        within("transactions.syncookies", self.syncookies, 0..=2)?;
        let flood = self.flood.map_or(1, |flood| flood.rate_per_s);
        within("transactions.flood.rate_per_s", flood, 1..=20_000)
    }
}

impl Network {
    fn validate(&self) -> Checked {
        within("network.rtt_us", self.rtt_us, RTT_US)?;
        let model = |way: &str, direction: &LinkDirection| {
            let place = format!("network.{way}.queue_bytes");
            within(place, direction.queue_bytes.unwrap_or(MAX_BYTES), 1..=MAX_BYTES)?;
            direction.model(way, 0, 0).map_err(|problem| format!("network.{problem}"))
        };
        model("down", &self.down)?;
        model("up", &self.up)?;
        if let Some(feature) = self.kernel_lacks().filter(|_| self.link == LinkMaker::Kernel) {
            return Err(format!("network.link: the kernel's link has no {feature}"));
        }
        if let Some(cross) = &self.cross {
            demand(!cross.is_empty(), || "network.cross: is empty".into())?;
            let endless = |way: &&Way| {
                let direction = if **way == Way::Down { &self.down } else { &self.up };
                direction.rate_bit_per_s.is_none() && direction.trace_ms.is_none()
            };
            demand(!cross.keys().any(|way| endless(&way)), || {
                "network.cross: a bulk flow needs a rate or a trace in its direction".into()
            })?;
        }
        for (host, extra) in &self.host_extra_rtt_us {
            within(format!("network.host_extra_rtt_us.{host}"), *extra, RTT_US)?;
        }
        within("network.resolver_rtt_us", self.resolver_rtt_us.unwrap_or(0), RTT_US)?;
        within("network.path_share", self.path_share, 0.0..=1.0)?;
        within("network.mtu_bytes", self.mtu_bytes, 576..=1500)
    }
}

impl ClientSettings {
    fn validate(&self) -> Checked {
        let can = self.kind.capabilities();
        demand(!self.fixed_scripts || can.runs_scripts, || {
            format!("client.fixed_scripts: {} runs no scripts", self.kind)
        })?;
        if let Some(us) = self.h3_fallback_us {
            within("client.h3_fallback_us", us, RTT_US)?;
            demand(can.falls_back, || format!("client.h3_fallback_us: {} has a rule of its own", self.kind))?;
        }
        demand(!self.screenshot || can.screenshots, || {
            format!("client.screenshot: {} shows nothing", self.kind)
        })?;
        demand(!self.filmstrip || can.screenshots, || {
            format!("client.filmstrip: {} shows nothing", self.kind)
        })?;
        demand(self.view == View::First || can.cache, || {
            format!("client.view: {} has no cache for a repeat view", self.kind)
        })?;
        demand(self.request_heads == RequestHeads::Own || can.recorded_heads, || {
            format!("client.request_heads: those of {} cannot be set", self.kind)
        })?;
        if let Some(name) = &self.name {
            not_empty("client.name", name)?;
        }
        demand(can.runs_command == self.command.is_some(), || {
            "client.command: needed with kind command, and only with it".into()
        })?;
        if let Some(words) = &self.command {
            validate_words("client.command", words)?;
        }
        let some = |count: Option<usize>| count.unwrap_or(1);
        within("client.connections_per_host", some(self.connections_per_host), 1..=256)?;
        within("client.connections_total", some(self.connections_total), 1..=4096)
    }
}

/// The words of a command line.
fn validate_words(place: &str, words: &[String]) -> Checked {
    not_empty(&format!("{place}[0]"), words.first().map_or("", String::as_str))?;
    for (number, word) in words.iter().enumerate() {
        let place = format!("{place}[{number}]");
        demand(!word.contains('\0'), || format!("{place}: holds a NUL"))?;
        within(format!("{place}: its length"), word.len() as u64, 0..=WORD_BYTES)?;
    }
    Ok(())
}

/// Reads an object, and nothing else: what serde derives takes a list of a structure's values as well.
pub(super) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    from.deserialize_map(Object(PhantomData))
}

fn demand(holds: bool, problem: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(problem()) }
}

fn within<T: Copy + PartialOrd + Display>(
    place: impl Display,
    value: T,
    bounds: RangeInclusive<T>,
) -> Checked {
    demand(bounds.contains(&value), || {
        format!("{place}: {value} is not within {} and {}", bounds.start(), bounds.end())
    })
}

fn not_empty(place: &str, text: &str) -> Checked {
    demand(!text.is_empty(), || format!("{place}: is empty"))
}

/// What was found in a job may be long and have line ends in it; what is said of it must not.
fn one_line(problem: &str) -> String {
    const SHOWN: usize = 400;
    let mut line = String::new();
    for letter in problem.chars().take(SHOWN) {
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    if problem.chars().nth(SHOWN).is_some() {
        line.push('…');
    }
    line
}

/// Whether the kernel could have a congestion control of this name (`TCP_CA_NAME_MAX` is 16 with the closing
/// NUL).
fn is_algorithm(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
}
