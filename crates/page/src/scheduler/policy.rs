//! How a client loads pages: its profile and its limits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Nanos, Phase};

/// How a client loads pages.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// In which order it asks.
    pub profile: Profile,
    /// How many connections to one server may be open at once.
    pub connections_per_host: usize,
    /// How many connections may be open at once.
    pub connections_total: usize,
    /// How many requests a connection may carry at once: one with HTTP/1, with HTTP/2 as many as servers allow.
    pub streams_per_connection: usize,
    /// The same of single hosts that are spoken to otherwise than the rest.
    pub of_host: BTreeMap<String, Limits>,
    /// Whether a connection may carry more than one request.
    pub keep_alive: bool,
    /// What processing times are multiplied by: 0 for a client that needs no time, 1 for one as in the page.
    pub processing_scale: f64,
    /// Which phases are loaded; `load` is always among them.
    pub phases: Vec<Phase>,
}

/// What limits the connections to one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many may be open at once.
    pub connections: usize,
    /// How many requests each may carry at once.
    pub streams: usize,
}

/// In which order a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// As a browser: each resource when its initiator has given it away and processing is over, the most urgent
    /// first.
    Browser,
    /// As a parallel downloader with a list: the root document and what it redirects to, then everything at once
    /// in the order of the page, without any processing.
    Mget,
}

/// What a policy asks for that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// Without a connection nothing can be loaded.
    #[error("{key} is 0, but a client needs at least one connection")]
    NoConnections {
        /// Which limit.
        key: &'static str,
    },
    /// The scale is not a number within 0 and [`Policy::MAX_PROCESSING_SCALE`].
    #[error("processing_scale of {scale} is not within 0 and {max}", max = Policy::MAX_PROCESSING_SCALE)]
    ProcessingScale {
        /// The scale asked for.
        scale: f64,
    },
    /// The root document is in phase `load`, so a load without that phase is empty.
    #[error("phases must hold `load`")]
    NoLoadPhase,
}

impl Policy {
    /// The largest [`Policy::processing_scale`].
    pub const MAX_PROCESSING_SCALE: f64 = 1000.0;

    /// A browser: six connections a server and 256 in all, as Chromium has, kept alive.
    pub fn browser() -> Self {
        Self {
            profile: Profile::Browser,
            connections_per_host: 6,
            connections_total: 256,
            streams_per_connection: 1,
            of_host: BTreeMap::new(),
            keep_alive: true,
            processing_scale: 1.0,
            phases: vec![Phase::Load, Phase::Async],
        }
    }

    /// A parallel downloader: five connections, each for one request.
    pub fn mget() -> Self {
        Self {
            profile: Profile::Mget,
            connections_per_host: 5,
            connections_total: 5,
            keep_alive: false,
            ..Self::browser()
        }
    }

    /// What limits the connections to a host. What carries one request in all carries one at a time.
    pub(crate) fn limits(&self, host: &str) -> Limits {
        let usual = Limits { connections: self.connections_per_host, streams: self.streams_per_connection };
        let Limits { connections, streams } = self.of_host.get(host).copied().unwrap_or(usual);
        Limits { connections, streams: if self.keep_alive { streams } else { 1 } }
    }

    pub(crate) fn validate(&self) -> Result<(), PolicyError> {
        let limits = [
            ("connections_per_host", self.connections_per_host),
            ("connections_total", self.connections_total),
        ];
        debug_assert!(self.streams_per_connection > 0, "no job says this number");
        if let Some(&(key, _)) = limits.iter().find(|limit| limit.1 == 0) {
            return Err(PolicyError::NoConnections { key });
        }
        if !(0.0..=Self::MAX_PROCESSING_SCALE).contains(&self.processing_scale) {
            return Err(PolicyError::ProcessingScale { scale: self.processing_scale });
        }
        if self.phases.contains(&Phase::Load) { Ok(()) } else { Err(PolicyError::NoLoadPhase) }
    }

    /// A processing time of the page, in microseconds, as this client needs it: in nanoseconds.
    pub fn processing(&self, us: u64) -> Nanos {
        const NANOS_PER_US: u64 = 1000;
        // Rounded once. A valid page has at most 10^15 ns here, which a double holds exactly.
        ((us * NANOS_PER_US) as f64 * self.processing_scale).round() as Nanos
    }
}
