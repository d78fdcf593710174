//! Clients load pages: the interface between a world and its client.
//!
//! A world makes one [`UserAgent`] and calls it for each load: a [`Loading`] goes in, a [`Loaded`] comes out.
//! `evidence` decides whether the load is valid.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use fastopen_page::{Page, PageUrl, Policy, Schemes, SyntheticPage};
use fastopen_replay::HttpVersion;
use fastopen_replay::log::OriginLog;
use fastopen_replay::quic::QuicClient;
use fastopen_replay::sockets::FourTuple;
use fastopen_replay::tls::{Authority, Settings};
use rustls::ClientConfig;

use crate::capture::client_tap::ClientTap;
use crate::contract::{
    BrowserRecord, ClientKind, ConnectionRecord, Engine, Job, LookupRecord, NameLookup, OriginSettings,
    RequestRecord, SeenAt,
};
use crate::failure::Failure;
use crate::network::link_config::LinkConfig;

pub mod chromium;
pub mod command;
pub mod loader;
pub mod seen_at_origins;
pub mod tls;

/// What a client is to load, and how.
pub struct Loading<'a> {
    /// The page.
    pub page: &'a Page,
    /// How the loader behaves. Other clients only take its phases and processing times, by synthetic bodies.
    pub policy: &'a Policy,
    /// Addresses of the page's origins, in the page's order.
    pub addresses: &'a [SocketAddrV4],
    /// Addresses of the page's hosts.
    pub hosts: &'a BTreeMap<String, Ipv4Addr>,
    /// The link of the job.
    pub link: &'a LinkConfig,
    /// Whether the loader sets `TCP_FASTOPEN_CONNECT`. The sysctl of the namespace agrees.
    pub fastopen: bool,
    /// The settings of the origins.
    pub origins: &'a OriginSettings,
    /// The `Date` of the recorded document.
    pub recorded_date: Option<&'a str>,
    /// The schemes of the page's URLs.
    pub schemes: Schemes,
    /// The loader's TLS configuration with its session tickets; none in the clear.
    pub tls: Option<Arc<ClientConfig>>,
    /// How the loader's QUIC connections begin; none where no host speaks HTTP/3.
    pub quic: Option<QuicClient>,
    /// The TLS settings of the job.
    pub tls_settings: &'a Settings,
    /// QUIC packets at the client's interface, where its sockets are not ours.
    pub tap: Option<&'a ClientTap>,
    /// The certificate authority, if any load of the job uses TLS, or lookups do.
    pub authority: Option<&'a Authority>,
    /// The resolver of the world; none where clients know all addresses.
    pub resolver: Option<Resolver>,
    /// The client port of the first connection, which later ones continue; none for the kernel's choice.
    pub first_port: Option<u16>,
    /// Timeout of the load, in nanoseconds.
    pub timeout_ns: u64,
    /// The origins' log of this load.
    pub log: &'a OriginLog,
    /// The page as it is served, if its bodies are synthetic.
    pub synthetic_page: Option<&'a SyntheticPage>,
    /// The engine, whose clock runs.
    pub engine: Engine,
    /// How long after its engine's phase the load begins.
    pub start_phase: Duration,
}

/// The resolver of a world, as the loader asks it.
#[derive(Debug, Clone)]
pub struct Resolver {
    /// Its address.
    pub address: SocketAddrV4,
    /// Over which protocol it is asked.
    pub names: NameLookup,
    /// The loader's TLS configuration with its session tickets; none in the clear.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Loading<'_> {
    /// The version of HTTP that the server of a URL speaks in this load.
    pub fn http_at(&self, url: &PageUrl) -> HttpVersion {
        self.origins.http_at(url, self.schemes)
    }
}

/// A load; times in nanoseconds since its start.
#[derive(Debug)]
pub struct Loaded {
    /// When it started, on the monotonic clock.
    pub start_ns: u64,
    /// Page load time; none if a resource that the load event waits for is missing.
    pub plt_ns: Option<u64>,
    /// Why the load did not finish, if it did not.
    pub unfinished: Option<String>,
    /// Which end took the times.
    pub seen_at: SeenAt,
    /// The method and URL of each request for what the page does not have.
    pub unmatched: Vec<String>,
    /// The requests.
    pub requests: Vec<RequestRecord>,
    /// Every connection, in order of opening. The world adds the origins' evidence later.
    pub connections: Vec<ConnectionRecord>,
    /// The four-tuple of each connection; none for one that was never established.
    pub four_tuples: Vec<Option<FourTuple>>,
    /// The lookups of names, as the client saw them; the world adds what the resolver saw.
    pub lookups: Vec<LookupRecord>,
    /// The browser's own metrics.
    pub browser: Option<BrowserRecord>,
}

/// The client of a world (RFC 9110 section 3.5). The caller is on a thread inside the client's namespace.
pub trait UserAgent {
    /// The earlier visit: leaves what the next load begins with, session tickets and, for a repeat view, the
    /// cache; nothing for a client that keeps neither.
    ///
    /// # Errors
    /// If the client cannot start, or the visit fails.
    fn visit(&mut self, _: &Loading) -> Result<(), Failure> {
        Ok(())
    }

    /// Loads the page once. Calls `after` once, when the load is over, while sockets and counters are as the
    /// load left them.
    ///
    /// # Errors
    /// If the client cannot start. A load that fails is in the answer.
    fn load(&mut self, loading: &Loading, after: &mut dyn FnMut()) -> Result<Loaded, Failure>;
}

/// The client of `job`.
pub fn user_agent(job: &Job) -> Box<dyn UserAgent> {
    match job.client.kind {
        ClientKind::Loader => Box::new(loader::Loader),
        ClientKind::Command => Box::new(command::CommandLine::new(&job.client)),
        ClientKind::Chromium => Box::new(chromium::Chromium::new(&job.client)),
    }
}
