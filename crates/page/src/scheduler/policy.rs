//! Defines how a client loads pages: the order of its requests, and its limits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Nanos, Origin, Phase};

/// The order of a client's requests, and the limits of its connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The kind of client, which determines the order of its requests.
    pub profile: Profile,
    /// Maximum number of parallel connections to one server.
    pub connections_per_host: usize,
    /// Maximum number of parallel connections to all servers.
    pub connections_total: usize,
    /// Limits for servers whose connections carry several requests at once. For all other servers,
    /// `connections_per_host` is the limit.
    pub multiplexed: BTreeMap<Origin, Limits>,
    /// HTTP/3 servers with a TCP fallback. If the QUIC handshake takes longer than the given time in
    /// nanoseconds, the client also opens a TCP connection, and uses the connection that is ready first.
    pub fallback_after: BTreeMap<Origin, Nanos>,
    /// True if the client looks up a host's name between [`Action::Open`](crate::Action::Open) and the
    /// handshake of the connection ([`Event::ConnectionBegins`](crate::Event::ConnectionBegins)).
    pub lookups: bool,
    /// True if a connection may carry more than one request.
    pub keep_alive: bool,
    /// Factor by which the page's processing times are multiplied; 0 for a client without processing times.
    pub processing_scale: f64,
    /// The phases whose resources are requested. `load` must be among them.
    pub phases: Vec<Phase>,
    /// Seed to shuffle requests discovered at the same byte of a response; `None` for the page's order.
    pub order_seed: Option<u64>,
}

/// Limits of the connections to one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum number of requests in flight on each connection.
    pub streams: usize,
}

/// A kind of client, which determines the order of its requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Like a browser: requests each resource after its discovery and processing, the most urgent first.
    #[default]
    Browser,
    /// Like a parallel downloader: requests the root document and its redirects, then all other resources at
    /// once in the order of the page, without processing times.
    Mget,
}

impl Policy {
    /// Maximum number of images that a frame has in flight from servers without multiplexing: Chromium's
    /// limit of delayable requests. A larger [`Policy::connections_per_host`] replaces this limit.
    pub const DELAYABLE_REQUESTS: usize = 10;
    /// Time in nanoseconds that a browser waits for the first connection to a server before it opens a second
    /// connection: Chromium's `kMaxConnectRetryInterval`.
    pub const BACKUP_AFTER_NS: Nanos = 250_000_000;

    /// Returns Chromium's policy: at most six persistent connections to each server, and 256 in all.
    pub fn browser() -> Self {
        Self {
            profile: Profile::Browser,
            connections_per_host: 6,
            connections_total: 256,
            multiplexed: BTreeMap::new(),
            fallback_after: BTreeMap::new(),
            lookups: false,
            keep_alive: true,
            processing_scale: 1.0,
            phases: vec![Phase::Load, Phase::Async],
            order_seed: None,
        }
    }

    /// Returns the policy of a parallel downloader: at most five connections at once, each for one request.
    pub fn mget() -> Self {
        Self {
            profile: Profile::Mget,
            connections_per_host: 5,
            connections_total: 5,
            keep_alive: false,
            ..Self::browser()
        }
    }

    /// Returns the maximum numbers of connections to a server, and of simultaneous requests on a connection.
    pub fn limits(&self, server: &Origin) -> Limits {
        let usual = Limits { connections: self.connections_per_host, streams: 1 };
        let Limits { connections, streams } = self.multiplexed.get(server).copied().unwrap_or(usual);
        Limits { connections, streams: if self.keep_alive { streams } else { 1 } }
    }

    /// Scales a processing time of the page, `us` microseconds, for this client. Returns nanoseconds.
    pub fn processing(&self, us: u64) -> Nanos {
        const NANOS_PER_US: u64 = 1000;
        // Only the product is rounded: a valid page's time is at most 10^15 ns, which a double holds exactly.
        ((us * NANOS_PER_US) as f64 * self.processing_scale).round() as Nanos
    }
}
