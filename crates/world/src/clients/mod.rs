//! What loads pages: the seam between a world and its client.
//!
//! A client is made once for a world and then asked for each load: it is given a [`Loading`] and answers with a [`Loaded`]. Whether
//! what it says counts is not its business (see `evidence`).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use fastopen_page::{Page, Policy, SyntheticPage};
use fastopen_replay::log::Log;
use fastopen_replay::stream::Ends;
use fastopen_replay::tls::Authority;
use hyper::Version;
use rustls::ClientConfig;

use crate::contract::{
    BrowserRecord, ClientKind, ConnectionRecord, Fault, Http, Job, OriginSettings, RequestRecord, SeenAt,
};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::link_config::LinkConfig;

pub mod at_origins;
pub mod chromium;
pub mod command;
pub mod loader;

/// What to load, and how.
pub struct Loading<'a> {
    /// The page.
    pub page: &'a Page,
    /// How the client behaves, as far as it can be told.
    pub policy: &'a Policy,
    /// Address of each of the page's origins, in its own order.
    pub addresses: &'a [SocketAddrV4],
    /// Hosts of the page, and the address of each.
    pub hosts: &'a BTreeMap<String, Ipv4Addr>,
    /// The link that is asked for.
    pub link: &'a LinkConfig,
    /// Whether to ask the kernel for Fast Open. The namespace's setting says the same.
    pub fastopen: bool,
    /// How the origins serve.
    pub origins: &'a OriginSettings,
    /// How to speak TLS with every origin, from first to last as one client; none: in the clear.
    pub tls: Option<Arc<ClientConfig>>,
    /// Whom to trust, in a job that has TLS, in this load or another.
    pub authority: Option<&'a Authority>,
    /// The port of the first connection, from which the others count on; none: the kernel chooses.
    pub first_port: Option<u16>,
    /// Give up after this long, in nanoseconds.
    pub timeout_ns: u64,
    /// What the origins see of this load.
    pub log: &'a Log,
    /// The page as it is served, if its bodies are synthetic.
    pub synthetic_page: Option<&'a SyntheticPage>,
    /// Whose clock runs.
    pub engine: Engine,
}

impl Loading<'_> {
    /// Which HTTP to speak with a host.
    pub fn version(&self, host: &str) -> Version {
        match self.origins.http_of(host) {
            Http::Http10 => Version::HTTP_10,
            Http::Http11 => Version::HTTP_11,
            Http::Http2 => Version::HTTP_2,
        }
    }
}

/// What happened in a load; times in nanoseconds since it began.
#[derive(Debug)]
pub struct Loaded {
    /// Page load time; none when something that the load event waits for is missing.
    pub plt_ns: Option<u64>,
    /// Why it did not finish, if it did not.
    pub unfinished: Option<String>,
    /// Where the times below were seen.
    pub seen_at: SeenAt,
    /// Requests for what the page does not have.
    pub strange_requests: usize,
    /// The requests.
    pub requests: Vec<RequestRecord>,
    /// Every connection, in order of opening. What the origins know of it is added later.
    pub connections: Vec<ConnectionRecord>,
    /// The addresses of each, by which the origins know it; none for one that never came about.
    pub ends: Vec<Option<Ends>>,
    /// What a browser measured beside.
    pub browser: Option<BrowserRecord>,
}

/// A client, for as long as its world stands.
pub enum Client {
    /// The built-in loader.
    Loader,
    /// A command, started for each load.
    Command(command::Command),
    /// A browser.
    Chromium(Box<chromium::Chromium>),
}

impl Client {
    /// The client that `job` asks for.
    pub fn of(job: &Job) -> Self {
        match (job.client.kind, &job.client.command) {
            (ClientKind::Command, Some(words)) => Self::Command(command::Command::new(words.clone())),
            (ClientKind::Chromium, _) => {
                Self::Chromium(Box::new(chromium::Chromium::new(job.client.screenshot)))
            }
            _ => Self::Loader,
        }
    }

    /// Visits the page for the first time, so that the next load is a repeat visit. To be called as [`Client::load`] is.
    ///
    /// # Errors
    /// Where it could not even be tried.
    pub fn visit(&mut self, loading: &Loading) -> Result<(), Failure> {
        match self {
            // They keep nothing: a job that asks them is refused.
            Self::Loader | Self::Command(_) => Ok(()),
            Self::Chromium(chromium) => chromium.visit(loading),
        }
    }

    /// Loads the page once. To be called on a thread inside the client's namespace. `after` is to be called once, as soon as the load
    /// is over, while sockets and counters still stand as it left them.
    ///
    /// # Errors
    /// Where it could not even be tried. What comes of trying is in the answer.
    pub fn load(&mut self, loading: &Loading, after: &mut dyn FnMut()) -> Result<Loaded, Failure> {
        match self {
            Self::Loader => loader::load(loading, after)
                .map_err(|error| Failure::new(Fault::Machine, format!("running the loader: {error}"))),
            Self::Command(command) => command.load(loading, after),
            Self::Chromium(chromium) => chromium.load(loading, after),
        }
    }
}
