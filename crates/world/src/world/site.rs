//! Builds the configuration of a job's origin servers: the page's resources, TLS and the resolver.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use fastopen_link::ip::Addresses;
use fastopen_page::{FidelityGaps, Piece, Resource, Runtime, SyntheticBody, SyntheticPage, UrlRewrite};
use fastopen_replay::body::SizedBody;
use fastopen_replay::caching::CachePolicy;
use fastopen_replay::names::{Names, TlsNames};
use fastopen_replay::origins::{ServedResource, Site, TlsSite};
use fastopen_replay::recorded_head;
use fastopen_replay::tls::{self, Authority, KeyLines, Sessions};
use rustls::ServerConfig;

use crate::contract::{Bodies, Fault, Job, View};
use crate::failure::{Blame, Failure};
use crate::sandbox::hosts_overlay::{are_siblings, names, uses_aliases, with_aliases};
use crate::server::UPSTREAM_PORT;

fn servers(
    job: &Job,
    hosts: &BTreeMap<String, Addresses>,
    authority: &Authority,
    sessions: &Arc<Sessions>,
    keys: Option<&Arc<KeyLines>>,
) -> Result<BTreeMap<IpAddr, Arc<ServerConfig>>, Failure> {
    let server = |(host, addresses): (&String, &Addresses)| {
        let identity = authority.identity(&names(job, host), job.tls.chain_bytes.into())?;
        let version = job.origins.http_of(host);
        // For HTTP/3, QUIC clients offer `h3`, and clients that fall back to TCP offer `h2`.
        let alpn: Vec<_> = BTreeSet::from([version.alpn(), version.over_tcp().alpn()]).into_iter().collect();
        let config = Arc::new(tls::server(&job.tls, identity, &alpn, sessions.clone(), keys.cloned())?);
        Ok(addresses.iter().map(move |address| (address, config.clone())))
    };
    let servers = hosts.iter().map(server).collect::<Result<Vec<_>, Failure>>()?;
    Ok(servers.into_iter().flatten().collect())
}

fn names_tls(
    job: &Job,
    address: SocketAddr,
    authority: Option<&Authority>,
    keys: Option<&Arc<KeyLines>>,
) -> Result<Option<TlsNames>, Failure> {
    let Some(alpn) = job.network.names.alpn() else { return Ok(None) };
    let sessions = Arc::<Sessions>::default();
    // The resolver's certificate contains its address, like the certificates of public resolvers.
    let names = BTreeSet::from([address.ip().to_string()]);
    let authority = authority.expect("a world with TLS has an authority");
    let identity = authority.identity(&names, job.tls.chain_bytes.into())?;
    let config = tls::server(&job.tls, identity, &[alpn], sessions.clone(), keys.cloned())?;
    Ok(Some(TlsNames { config: Arc::new(config), sessions }))
}

/// Two pages whose generated bodies make a browser request the job's resources: the first for loads in
/// cleartext, and the second for loads over TLS. The schemes of their URLs may differ.
pub struct SyntheticPages([SyntheticPage; 2]);

impl SyntheticPages {
    /// Returns the synthetic pages of a job; None if its response bodies are not synthetic (generated).
    pub fn of(job: &Job) -> Option<Self> {
        let policy = job.policy();
        let injected = job.client.kind.capabilities().runs_scripts;
        let runtime = if injected { Runtime::Injected } else { Runtime::InBodies };
        let synthetic_page = |encrypted| {
            let schemes = job.schemes(encrypted);
            let rewrite = UrlRewrite { aliased: uses_aliases(job), schemes };
            SyntheticPage::of(&job.page, &policy, rewrite, runtime)
        };
        (job.origins.bodies == Bodies::Synthetic).then(|| Self([false, true].map(synthetic_page)))
    }

    /// Returns the page for a load over TLS (`encrypted`) or in cleartext.
    pub fn select(&self, encrypted: bool) -> &SyntheticPage {
        &self.0[usize::from(encrypted)]
    }

    /// Returns the resources that a browser requests too early, too late or not at all in at least one load.
    pub fn gaps(&self, job: &Job) -> FidelityGaps {
        let of_loads = job.loads.iter().map(|load| self.select(load.transport.is_encrypted()).gaps.clone());
        of_loads.fold(FidelityGaps::default(), FidelityGaps::union)
    }
}

/// Returns the configuration of a job's origins at the addresses of `hosts`. `authority` signs certificates,
/// `keys` collects TLS secrets, and `resolver` is the DNS resolver's address (None if clients use no DNS).
pub fn site(
    job: &Job,
    hosts: &BTreeMap<String, Addresses>,
    synthetic_pages: Option<&SyntheticPages>,
    authority: Option<&Authority>,
    keys: Option<&Arc<KeyLines>>,
    resolver: Option<SocketAddr>,
) -> Result<Site, Failure> {
    let bodies = match &job.origins.bodies_file {
        None => Bytes::new(),
        Some(path) => {
            let place = format!("origins.bodies_file: {}", path.display());
            fs::read(path).blame(Fault::Input, place)?.into()
        }
    };
    let resources = |encrypted| {
        let synthetic_page = synthetic_pages.map(|pages| pages.select(encrypted));
        resources(job, hosts, synthetic_page, &bodies)
    };
    let over_tls = |authority| {
        let sessions = Arc::<Sessions>::default();
        let (servers, resources) = (servers(job, hosts, authority, &sessions, keys)?, resources(true)?);
        let (security, quic) = (job.tls.security, job.quic());
        Ok::<_, Failure>(TlsSite { servers, resources, security, sessions, quic })
    };
    let names = |address| {
        let lower = |(host, ip): (String, Addresses)| (host.to_lowercase(), ip);
        Ok::<_, Failure>(Names {
            address,
            zone: with_aliases(job, hosts).into_iter().map(lower).collect(),
            conduct: job.network.resolver,
            protocol: job.network.names,
            tls: names_tls(job, address, authority, keys)?,
        })
    };
    let encrypted = job.loads.iter().any(|load| load.transport.is_encrypted());
    let recorded = job.origins.bodies == Bodies::Recorded;
    // Scripts of a recorded page may make requests that were not recorded, to the ports of http and https.
    let usual_ports = recorded.then_some([80, 443]).into_iter().flatten();
    Ok(Site {
        resources: resources(false)?,
        ip: job.network.ip,
        ports: match job.origins.server {
            Some(_) => BTreeSet::from([UPSTREAM_PORT]),
            None => job.page.origins().iter().map(|origin| origin.port).chain(usual_ports).collect(),
        },
        keep_alive: job.origins.keep_alive && !job.origins.single_threaded,
        single_threaded: job.origins.single_threaded,
        versions: hosts
            .iter()
            .flat_map(|(host, addresses)| addresses.iter().map(|one| (one, job.origins.http_of(host))))
            .collect(),
        fastopen_queue: job.origins.tfo_queue.into(),
        tls: authority.filter(|_| encrypted).map(over_tls).transpose()?,
        accepts_similar_urls: recorded,
        alt_svc: job.client.kind.capabilities().reads_alt_svc,
        names: resolver.map(names).transpose()?,
    })
}

fn resources(
    job: &Job,
    hosts: &BTreeMap<String, Addresses>,
    synthetic_page: Option<&SyntheticPage>,
    bodies: &Bytes,
) -> Result<Vec<ServedResource>, Failure> {
    // Recorded responses may also be cached, for as long as the recorded headers allow.
    let cached = job.client.view == View::Repeat || job.origins.bodies == Bodies::Recorded;
    let serve = |(number, resource): (usize, &Resource)| -> Result<ServedResource, Failure> {
        let response = synthetic_page.map(|synthetic_page| &synthetic_page.responses[number]);
        let body = match (response, resource.body_offset) {
            (Some(response), _) => sized_body(&response.body),
            (None, None) => SizedBody::default().and_filler(resource.body_bytes),
            (None, Some(offset)) => {
                let end = offset.saturating_add(resource.body_bytes);
                if end > bodies.len() as u64 {
                    let message = format!(
                        "page.resources[{number}].body_offset: the bodies file ends before byte {end}"
                    );
                    return Err(Failure::new(Fault::Input, message));
                }
                SizedBody::default().and_bytes(bodies.slice(offset as usize..end as usize))
            }
        };
        let head = resource.head_offset.filter(|_| job.origins.bodies == Bodies::Recorded);
        let head = head.and_then(|offset| bodies.get(offset as usize..)).map(recorded_head::fields);
        let scaled_ns = |us: u64| (us as f64 * 1000.0 * job.origins.think_scale) as u64;
        let alternatives = resource.alternatives.iter().filter_map(|url| Some((hosts.get(url.host())?, url)));
        // Scripts choose at random among hosts that differ only in digits, so all of them serve the resource.
        let siblings = hosts.iter().filter(|(host, _)| are_siblings(host, resource.url.host()));
        let alternatives = alternatives.chain(siblings.map(|(_, addresses)| (addresses, &resource.url)));
        let alternatives = alternatives.flat_map(|(addresses, url)| {
            addresses.iter().map(|one| (SocketAddr::new(one, url.port()), url.normalized_target()))
        });
        // Only successful responses get a validator.
        let validator = resource.validator && (200..300).contains(&resource.status);
        let cache_policy = cached.then(|| CachePolicy::new(resource.fresh_s, validator, resource.body_bytes));
        Ok(ServedResource {
            host: hosts[resource.url.host()],
            port: job.origins.server.as_ref().map_or(resource.url.port(), |_| UPSTREAM_PORT),
            alternatives: alternatives.collect(),
            method: resource.method.clone(),
            target: resource.url.target().to_owned(),
            normalized_target: resource.url.normalized_target(),
            status: resource.status,
            head,
            mime: response.map_or(&resource.mime, |response| &response.mime).clone(),
            location: response.map_or(&resource.redirect_to, |response| &response.location).clone(),
            header_bytes: resource.response_header_bytes as u32,
            body: body.paced(scaled_ns(resource.server_send_us)),
            think_ns: scaled_ns(resource.server_think_us)
                + response.map_or(0, |response| response.processing_ns),
            cache_policy,
            refuses_preflight: response.is_some_and(|response| response.refuses_preflight),
        })
    };
    job.page.resources.iter().enumerate().map(serve).collect()
}

fn sized_body(body: &SyntheticBody) -> SizedBody {
    body.pieces().iter().fold(SizedBody::default(), |sized, piece| match piece {
        Piece::Bytes(bytes) => sized.and_bytes(Bytes::copy_from_slice(bytes)),
        Piece::Filler(bytes) => sized.and_filler(*bytes),
    })
}
