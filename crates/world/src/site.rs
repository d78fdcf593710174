//! What the origins of a world serve: a page's resources with their bodies, in the clear or over TLS.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use bytes::Bytes;
use fastopen_page::{Body, PageUrl, Piece, Resource, Spelling, Structure};
use fastopen_replay::body::SizedBody;
use fastopen_replay::origins::{Served, Site};
use fastopen_replay::tls::{self, Authority};
use rustls::ServerConfig;

use crate::contract::{ClientKind, Fault, Http, Job};
use crate::failure::Failure;

/// The application protocols that both ends speak, the best first (RFC 7301).
pub fn alpn(http: Http) -> Vec<&'static [u8]> {
    match http {
        Http::Http10 | Http::Http11 => vec![b"http/1.1"],
    }
}

/// How each host speaks TLS.
///
/// # Errors
/// Where no certificate can be made.
pub fn servers(
    job: &Job,
    hosts: &BTreeMap<String, Ipv4Addr>,
    authority: &Authority,
) -> Result<BTreeMap<Ipv4Addr, Arc<ServerConfig>>, Failure> {
    let settings = job.tls.settings();
    let server = |(host, address): (&String, &Ipv4Addr)| {
        let identity = authority.identity(host, settings.chain_bytes)?;
        Ok((*address, Arc::new(tls::server(&settings, identity, &alpn(job.origins.http))?)))
    };
    hosts.iter().map(server).collect()
}

/// What is served, in the clear.
///
/// # Errors
/// Where the file of recorded bodies cannot be read or is too short.
pub fn site(
    job: &Job,
    hosts: &BTreeMap<String, Ipv4Addr>,
    structure: Option<&Structure>,
) -> Result<Site, Failure> {
    let bodies = match &job.origins.bodies_file {
        None => Bytes::new(),
        Some(path) => Bytes::from(fs::read(path).map_err(|error| {
            Failure::new(Fault::Input, format!("origins.bodies_file: {}: {error}", path.display()))
        })?),
    };
    let serve = |(number, resource): (usize, &Resource)| -> Result<Served, Failure> {
        let structural = structure.map(|structure| &structure.resources[number]);
        let body = match (structural, resource.body_offset) {
            (Some(structural), _) => sized(&structural.body),
            (None, None) => SizedBody::filler(resource.body_bytes),
            (None, Some(offset)) => {
                let end = offset.saturating_add(resource.body_bytes);
                if end > bytes_len(&bodies) {
                    let message = format!(
                        "page.resources[{number}].body_offset: the bodies file ends before byte {end}"
                    );
                    return Err(Failure::new(Fault::Input, message));
                }
                SizedBody::recorded(bodies.slice(offset as usize..end as usize))
            }
        };
        let scaled_ns = |us: u64| (us as f64 * 1000.0 * job.origins.think_scale) as u64;
        Ok(Served {
            origin: SocketAddrV4::new(hosts[resource.url.host()], resource.url.port()),
            method: resource.method.clone(),
            target: resource.url.target().to_owned(),
            normal_target: resource.url.normal_target(),
            status: resource.status,
            mime: structural.map_or(&resource.mime, |structural| &structural.mime).clone(),
            location: structural.map_or(&resource.redirect_to, |structural| &structural.location).clone(),
            header_bytes: resource.response_header_bytes as u32,
            body: body.spread(scaled_ns(resource.server_send_us)),
            think_ns: scaled_ns(resource.server_think_us),
            refuses: structural.is_some_and(|structural| structural.refuses),
        })
    };
    Ok(Site {
        resources: job.page.resources.iter().enumerate().map(serve).collect::<Result<_, _>>()?,
        ports: job.page.origins().iter().map(|origin| origin.port).collect(),
        keep_alive: job.origins.keep_alive,
        fastopen_queue: job.origins.tfo_queue.into(),
        tls: BTreeMap::new(),
    })
}

/// A browser would ask some of the real names by https alone.
pub fn spelling(job: &Job) -> Spelling {
    if job.client.kind == ClientKind::Chromium { PageUrl::staged } else { PageUrl::plain }
}

fn sized(body: &Body) -> SizedBody {
    body.pieces().iter().fold(SizedBody::default(), |sized, piece| match piece {
        Piece::Bytes(bytes) => sized.and_bytes(Bytes::copy_from_slice(bytes)),
        Piece::Filler(bytes) => sized.and_filler(*bytes),
    })
}

fn bytes_len(bytes: &Bytes) -> u64 {
    bytes.len() as u64
}
