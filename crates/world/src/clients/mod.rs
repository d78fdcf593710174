//! Defines the interface between an emulated network (a "world") and its client, which loads pages.
//!
//! A world creates one [`UserAgent`], which turns a [`Loading`] into a [`Loaded`] for each load. The crate
//! `fastopen-evidence` decides if the load is valid.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fastopen_link::ip::Addresses;
use fastopen_page::{PageUrl, Policy, Schemes, SyntheticPage};
use fastopen_replay::HttpVersion;
use fastopen_replay::log::OriginLog;
use fastopen_replay::tls::Authority;

use crate::capture::client_tap::ClientTap;
use crate::clients::tls::Secure;
use crate::contract::{
    BrowserRecord, ClientKind, ConnectionRecord, Engine, Job, LookupRecord, RequestRecord, SeenAt,
};
use crate::failure::Failure;
use crate::network::link_config::LinkConfig;

pub mod chromium;
pub mod command;
pub mod loader;
pub mod seen_at_origins;
pub mod tls;

/// The input of a page load: its job, and the parts of the emulated network that a client needs.
pub struct Loading<'a> {
    pub job: &'a Job,
    /// The job's policy for the order and times of requests. The built-in client (loader) follows the policy.
    /// The Chromium client uses only its `processing_scale`.
    pub policy: &'a Policy,
    /// Addresses of the page's origins, in the page's order.
    pub addresses: &'a [SocketAddr],
    pub hosts: &'a BTreeMap<String, Addresses>,
    pub link: &'a LinkConfig,
    /// True if the load uses Fast Open. The loader must then set `TCP_FASTOPEN_CONNECT` on its sockets. The
    /// sysctl of the client's namespace is already set.
    pub fastopen: bool,
    /// The `Date` header of the page's first resource, if it was recorded.
    pub recorded_date: Option<&'a str>,
    pub schemes: Schemes,
    pub secure: Secure,
    /// Captures and counts QUIC packets if the client is an external program and a host uses QUIC; else None.
    pub tap: Option<&'a ClientTap>,
    /// The certificate authority; None if neither lookups nor any load of the job use TLS.
    pub authority: Option<&'a Authority>,
    /// The address of the DNS resolver to query; None if clients know all addresses.
    pub resolver: Option<SocketAddr>,
    pub log: &'a OriginLog,
    /// The page as it is served, if its response bodies are synthetic (generated).
    pub synthetic_page: Option<&'a SyntheticPage>,
    pub engine: Engine,
}

impl Loading<'_> {
    /// Returns the version of HTTP that the server of a URL uses in this load.
    pub fn http_at(&self, url: &PageUrl) -> HttpVersion {
        self.job.origins.http_at(url, self.schemes)
    }

    /// Returns the load timeout in nanoseconds, after which a client gives up.
    pub fn timeout_ns(&self) -> u64 {
        self.job.load_timeout_us * 1000
    }
}

/// The results of a load, with times in nanoseconds since its start.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The start of the load on the monotonic clock.
    pub start_ns: u64,
    /// Page load time; None if the load did not finish or lacks a resource that the load event waits for.
    pub plt_ns: Option<u64>,
    /// The reason why the load did not finish; None if it did.
    pub unfinished: Option<String>,
    /// The end that measured the times: the client or the origins.
    pub seen_at: SeenAt,
    /// The method and URL of each request that matches no resource of the page.
    pub unmatched: Vec<String>,
    pub requests: Vec<RequestRecord>,
    /// The connections, in the order in which they were opened. The caller adds the origins' view later.
    pub connections: Vec<ConnectionRecord>,
    /// The client's view of the DNS lookups. The caller adds the resolver's view later.
    pub lookups: Vec<LookupRecord>,
    /// The browser's own metrics; None for other clients.
    pub browser: Option<BrowserRecord>,
}

/// A client that loads pages (user agent, RFC 9110 section 3.5). Call its methods in the client's namespace.
pub trait UserAgent {
    /// Visits the page before the measured load, so that the client has session tickets and, for a repeat
    /// view, a filled cache. Does nothing for a client that keeps neither.
    fn visit(&mut self, _: &Loading) -> Result<(), Failure> {
        Ok(())
    }

    /// Loads the page once. Calls `after` once, when the load is over but its sockets are still open, so that
    /// the caller can read their state. A failure to load is not an error: see [`Loaded::unfinished`].
    fn load(&mut self, loading: &Loading, after: &mut dyn FnMut()) -> Result<Loaded, Failure>;
}

pub fn user_agent(kind: ClientKind) -> Box<dyn UserAgent> {
    match kind {
        ClientKind::Loader => Box::new(loader::Loader),
        ClientKind::Command => Box::<command::CommandLine>::default(),
        ClientKind::Chromium => Box::<chromium::Chromium>::default(),
    }
}
