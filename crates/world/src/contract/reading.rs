//! A job out of JSON: what it must be beyond its form, and what is said of one that is not.

use fastopen_page::Scheduler;
use serde_json::value::RawValue;

use super::VERSION;
use super::job::{ClientKind, Job, LinkDirection, LinkMaker, Tls};
use crate::link_config::LinkConfig;
use crate::routers::Routers;

/// The longest head of a request or response: what HTTP servers accept at most.
const HEAD_BYTES: u64 = 256 * 1024;

/// The longest path and query, which hyper allows no more.
const TARGET_BYTES: usize = 65_534;

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

    fn validate(&self) -> Result<(), String> {
        let demand = |holds: bool, problem: &str| if holds { Ok(()) } else { Err(problem.to_owned()) };
        demand(self.contract == VERSION, &format!("contract: {} is not {VERSION}", self.contract))?;
        demand(i64::try_from(self.seed).is_ok(), "seed: not within 0 and 2^63 - 1")?;
        self.page.validate().map_err(|error| format!("page.{error}"))?;
        demand(self.network.rtt_us <= 60_000_000, "network.rtt_us: more than a minute")?;
        let model = |way: &str, direction: &LinkDirection| {
            direction.model(way, 0, 0).map_err(|problem| format!("network.{problem}"))
        };
        let link = LinkConfig {
            down: model("down", &self.network.down)?,
            up: model("up", &self.network.up)?,
            extra_delay: self.network.host_extra_rtt_us.values().copied().collect(),
        };
        if let Some(feature) = Routers::unsupported(&link).filter(|_| self.network.link == LinkMaker::Kernel)
        {
            return Err(format!("network.link: the kernel's link has no {feature}"));
        }
        for (host, extra) in &self.network.host_extra_rtt_us {
            let place = format!("network.host_extra_rtt_us.{host}");
            demand(*extra <= 60_000_000, &format!("{place}: more than a minute"))?;
            let known = self.page.resources.iter().any(|resource| resource.url.host() == host);
            demand(known, &format!("{place}: the page has no such host"))?;
        }
        demand((576..=1500).contains(&self.network.mtu_bytes), "network.mtu_bytes: not within 576 and 1500")?;
        self.client.validate()?;
        Scheduler::new(&self.page, &self.policy()).map_err(|error| format!("client: {error}"))?;
        for (number, resource) in self.page.resources.iter().enumerate() {
            let longest = resource.request_header_bytes.max(resource.response_header_bytes);
            let place =
                format!("page.resources[{number}]: a head of {longest} bytes is longer than {HEAD_BYTES}");
            demand(longest <= HEAD_BYTES, &place)?;
            let target = resource.url.target().len();
            let place = format!(
                "page.resources[{number}].url: path and query of {target} bytes are longer than {TARGET_BYTES}"
            );
            demand(target <= TARGET_BYTES, &place)?;
        }
        demand(
            is_algorithm(&self.tcp.congestion_control),
            "tcp.congestion_control: not 1 to 15 letters, digits, - or _",
        )?;
        demand(
            (1..=1000).contains(&self.tcp.initial_window_segments),
            "tcp.initial_window_segments: not within 1 and 1000",
        )?;
        let scale = self.origins.think_scale;
        demand((0.0..=1000.0).contains(&scale), "origins.think_scale: not within 0 and 1000")?;
        demand(
            self.tls.chain_bytes <= Tls::CHAIN_BYTES,
            &format!("tls.chain_bytes: more than {}", Tls::CHAIN_BYTES),
        )?;
        for host in &self.origins.http2_hosts {
            let known = self.page.resources.iter().any(|resource| resource.url.host() == host);
            demand(known, &format!("origins.http2_hosts: the page has no host {host}"))?;
        }
        let http2 = self.origins.speak_http2();
        demand(
            self.origins.keep_alive || !http2,
            "origins.keep_alive: with HTTP/2 origins keep connections; client.keep_alive can be false",
        )?;
        demand((1..=10_000).contains(&self.loads.len()), "loads: not within 1 and 10000 loads")?;
        for (number, load) in self.loads.iter().enumerate() {
            let fits = load.transport.is_fast_open() == load.cookies.is_some();
            let problem =
                format!("loads[{number}].cookies: needed with transports of tfo, and only with them");
            demand(fits, &problem)?;
            demand(
                load.transport.is_encrypted() || !http2 || self.client.kind != ClientKind::Chromium,
                &format!("loads[{number}].transport: chromium speaks HTTP/2 over TLS alone"),
            )?;
        }
        demand(
            (0.0..=1.0).contains(&self.tolerance.rate_fraction),
            "tolerance.rate_fraction: not within 0 and 1",
        )?;
        demand(
            (1..=3_600_000_000).contains(&self.load_timeout_us),
            "load_timeout_us: not within 1 and an hour",
        )
    }
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

/// Whether the kernel could have a congestion control of this name (`TCP_CA_NAME_MAX` is 16 with the closing NUL).
fn is_algorithm(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
