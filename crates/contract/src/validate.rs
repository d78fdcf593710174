//! Reads a job from JSON and checks the bounds of its values. The models in `python/fastopen/contract` check
//! the rules that concern several keys.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use fastopen_page::Phase;
use fastopen_replay::tls::{TICKETS_KEPT, Version};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::VERSION;
use crate::client::{ClientKind, ClientSettings};
use crate::job::{Job, LinkDirection, LoadPlan, Network};
use crate::transactions::{Arrivals, TransactionsPlan};

const HEAD_BYTES: u64 = 256 * 1024;
/// The longest path and query that hyper accepts, in bytes.
const TARGET_BYTES: u64 = 65_534;
/// Maximum length of a command's argument in bytes: the kernel's `MAX_ARG_STRLEN` without the final NUL.
const WORD_BYTES: u64 = 131_071;
const BLACKHOLE_TIMEOUT_S: u32 = 86_400;
const RTT_US: RangeInclusive<u64> = 0..=60_000_000;
/// Maximum of `tolerance.rtt_us` and `tolerance.late_us`, so that computations with them fit into 64 bits.
const MAX_US: u64 = 1_000_000_000_000;
const MAX_BYTES: u64 = 1 << 40;

/// The result of checking the values of a job. The error names the invalid key and the problem.
type Checked = Result<(), String>;

impl Job {
    /// Reads and checks a job. An error is one line: the invalid key and the problem (`network.rtt_us: …`).
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
        let tcp = &self.tcp;
        demand(is_algorithm(&tcp.congestion_control), || {
            "tcp.congestion_control: not 1 to 15 lower-case letters, digits, - or _".into()
        })?;
        within("tcp.initial_window_segments", tcp.initial_window_segments, 1..=1000)?;
        within("tcp.blackhole_timeout_s", tcp.blackhole_timeout_s, 0..=BLACKHOLE_TIMEOUT_S)?;
        self.client.validate()?;
        within("origins.think_scale", self.origins.think_scale, 0.0..=1000.0)?;
        within("origins.tfo_queue", self.origins.tfo_queue, 1..=u16::MAX)?;
        if let Some(words) = &self.origins.server {
            validate_words("origins.server", words)?;
        }
        let some_hosts = self.origins.server_hosts.as_ref().is_none_or(|hosts| !hosts.is_empty());
        demand(some_hosts, || "origins.server_hosts: is empty".into())?;
        within("origins.upstream_rtt_us", self.origins.upstream_rtt_us, RTT_US)?;
        // QUIC requires TLS 1.3 (RFC 9001 section 4.2). With another version, QUIC endpoints would panic.
        demand(self.quic().is_none() || self.tls.version == Version::Tls13, || {
            "tls.version: HTTP/3 runs over QUIC, which needs 1.3".into()
        })?;
        within("tls.chain_bytes", self.tls.chain_bytes, 0..=60_000)?;
        within("tls.tickets", self.tls.tickets, 0..=TICKETS_KEPT as u8)?;
        within("loads: their number", self.loads.len(), 1..=10_000)?;
        for (number, load) in self.loads.iter().enumerate() {
            load.validate().map_err(|problem| format!("loads[{number}].{problem}"))?;
        }
        within("tolerance.rtt_us", self.tolerance.rtt_us, 0..=MAX_US)?;
        within("tolerance.rate_fraction", self.tolerance.rate_fraction, 0.0..=1.0)?;
        within("tolerance.late_us", self.tolerance.late_us.unwrap_or_default(), 0..=MAX_US)?;
        within("load_timeout_us", self.load_timeout_us, 1..=3_600_000_000)?;
        within("start_phase_us", self.start_phase_us, 0..=60_000_000)
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
}

impl LoadPlan {
    fn validate(&self) -> Checked {
        not_empty("id", &self.id)?;
        // A Fast Open load without `cookies` would be valid even if it did not use Fast Open.
        demand(self.transport.is_fast_open() == self.cookies.is_some(), || {
            "cookies: required for tfo and tls+tfo, and not allowed for other transports".into()
        })?;
        self.transactions.as_ref().map_or(Ok(()), TransactionsPlan::validate)
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
        let some_traffic = self.cross.as_ref().is_none_or(|cross| !cross.is_empty());
        demand(some_traffic, || "network.cross: is empty".into())?;
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
        within("client.h3_fallback_us", self.h3_fallback_us.unwrap_or(0), RTT_US)?;
        if let Some(name) = &self.name {
            not_empty("client.name", name)?;
        }
        if self.kind == ClientKind::Command || self.command.is_some() {
            validate_words("client.command", self.command.as_deref().unwrap_or_default())?;
        }
        within("client.processing_scale", self.processing_scale.unwrap_or(1.0), 0.0..=1000.0)?;
        let has_document = self.phases.as_ref().is_none_or(|phases| phases.contains(&Phase::Load));
        demand(has_document, || "client.phases: lacks load, the phase of the root document".into())?;
        let some = |count: Option<usize>| count.unwrap_or(1);
        within("client.connections_per_host", some(self.connections_per_host), 1..=256)?;
        within("client.connections_total", some(self.connections_total), 1..=4096)
    }
}

fn validate_words(place: &str, words: &[String]) -> Checked {
    not_empty(&format!("{place}[0]"), words.first().map_or("", String::as_str))?;
    for (number, word) in words.iter().enumerate() {
        let place = format!("{place}[{number}]");
        demand(!word.contains('\0'), || format!("{place}: holds a NUL"))?;
        within(format!("{place}: its length"), word.len() as u64, 0..=WORD_BYTES)?;
    }
    Ok(())
}

/// Deserializes a `T` only from a JSON object. A derived `Deserialize` also accepts an array of field values.
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

pub(super) fn number<const N: u32, T: From<u32>>() -> T {
    N.into()
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

/// Shortens an error message to one line of printable text, because it may quote parts of the job.
fn one_line(problem: &str) -> String {
    const SHOWN: usize = 450;
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

/// Returns true if the kernel could have a congestion control algorithm with this name (`TCP_CA_NAME_MAX`).
fn is_algorithm(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
}
