//! Finds the resource with which an origin answers a request: by host, method and path, then by port and
//! query. Optionally, an unknown URL gets the resource of a similar URL, such as a picture in another size.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Method;
use hyper::http::request::Parts;

use super::{RESOURCE_HEADER, ServedResource};

#[derive(Debug, Default)]
pub(super) struct Index {
    candidates: BTreeMap<(IpAddr, String, String), Vec<Candidate>>,
    /// For each resource: the number of requests that were matched to it by URL, not by [`RESOURCE_HEADER`].
    found: Vec<AtomicUsize>,
    /// True to also accept similar URLs, with another port or query, or for another size of a picture.
    accepts_similar_urls: bool,
}

#[derive(Debug)]
struct Candidate {
    resource: usize,
    port: u16,
    query: String,
    /// True if the URL is the resource's own and not one of its alternatives.
    own: bool,
}

/// The similarity of a resource to a request, as in Web Page Replay and Mahimahi. Earlier fields count more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Nearness {
    exact: bool,
    own: bool,
    same_port: bool,
    shared_parameters: usize,
    shared_names: usize,
    parameters: Reverse<usize>,
}

impl Index {
    pub(super) fn of(resources: &[ServedResource], accepts_similar_urls: bool) -> Self {
        let found = resources.iter().map(|_| AtomicUsize::new(0)).collect();
        let mut index = Self { found, accepts_similar_urls, ..Self::default() };
        for (resource, served) in resources.iter().enumerate() {
            let mut add = |origin: SocketAddr, target, own| {
                let (path, query) = split(target);
                let key = (origin.ip(), served.method.clone(), path.to_owned());
                let candidate = Candidate { resource, port: origin.port(), query: query.to_owned(), own };
                index.candidates.entry(key).or_default().push(candidate);
            };
            for target in BTreeSet::from([&served.target, &served.normalized_target]) {
                for address in served.host.iter() {
                    add(SocketAddr::new(address, served.port), target, true);
                }
            }
            for (origin, target) in served.alternatives.iter().filter(|_| accepts_similar_urls) {
                add(*origin, target, false);
            }
        }
        index
    }

    pub(super) fn reset(&self) {
        self.found.iter().for_each(|found| found.store(0, Ordering::Relaxed));
    }

    /// Returns the index of the resource that answers a request, and true if the request has exactly the
    /// method, port and query of the resource's own URL. Selects the resource that [`RESOURCE_HEADER`] names,
    /// or else the most similar one. If several are equally similar, successive requests get each of them
    /// once, in order, and then always the last. Returns `None` if no resource fits.
    pub(super) fn find(&self, origin: SocketAddr, request: &Parts) -> Option<(usize, bool)> {
        let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
        let (path, query) = split(target);
        let recorded = |method: &Method| {
            self.candidates.get(&(origin.ip(), method.as_str().to_owned(), path.to_owned()))
        };
        let of_method = recorded(&request.method);
        let of_beacon = || recorded(&Method::GET).filter(|_| self.accepts_similar_urls && is_beacon(request));
        let candidates = of_method.or_else(of_beacon)?;
        let ranked = candidates
            .iter()
            .map(|one| (one.nearness(of_method.is_some(), origin.port(), query), one))
            .filter(|(nearness, _)| nearness.exact || self.accepts_similar_urls);
        let named = request.headers.get(RESOURCE_HEADER).and_then(|name| name.to_str().ok()?.parse().ok());
        let named = ranked.clone().find(|(near, one)| near.exact && Some(one.resource) == named);
        let (nearness, chosen) = named.or_else(|| {
            let number = |one: &Candidate| self.found[one.resource].load(Ordering::Relaxed);
            // Of equally near resources, prefer those not found yet, then those with the most similar query,
            // then the first or, if all were found, the last.
            let chosen = ranked.max_by_key(|(nearness, one)| {
                let order = one.resource as isize;
                let order = if number(one) == 0 { (true, -order) } else { (false, order) };
                (*nearness, order.0, common_prefix(&one.query, query), order.1)
            })?;
            self.found[chosen.1.resource].fetch_add(1, Ordering::Relaxed);
            Some(chosen)
        })?;
        Some((chosen.resource, nearness.exact && nearness.own))
    }
}

impl Candidate {
    fn nearness(&self, same_method: bool, port: u16, query: &str) -> Nearness {
        let same_port = self.port == port;
        let own: Vec<_> = parameters(&self.query).collect();
        let shared = |one: fn(&str) -> &str| {
            let mut own: Vec<_> = own.iter().map(|parameter| one(parameter)).collect();
            parameters(query)
                .filter(|parameter| {
                    let at = own.iter().position(|other| *other == one(parameter));
                    at.map(|at| own.swap_remove(at)).is_some()
                })
                .count()
        };
        Nearness {
            exact: same_method && same_port && self.query == query,
            own: self.own,
            same_port,
            shared_parameters: shared(|parameter| parameter),
            shared_names: shared(|parameter| parameter.split('=').next().unwrap_or_default()),
            parameters: Reverse(own.len()),
        }
    }
}

/// Returns true for a POST whose response no script can read (`Navigator.sendBeacon`, `ping`). Browsers
/// without these features request an image instead, so a recording may contain the beacon as a GET.
fn is_beacon(request: &Parts) -> bool {
    let is = |name: &str, value: &str| request.headers.get(name).is_some_and(|field| field == value);
    request.method == Method::POST && is("sec-fetch-mode", "no-cors") && is("sec-fetch-dest", "empty")
}

/// Splits a target before its first `;` or `?` into the path and the rest, which holds parameters and query
/// (RFC 3986 sections 3.3 and 3.4).
fn split(target: &str) -> (&str, &str) {
    target.split_at(target.find([';', '?']).unwrap_or(target.len()))
}

fn parameters(query: &str) -> impl Iterator<Item = &str> {
    query.split([';', '?', '&']).filter(|parameter| !parameter.is_empty())
}

fn common_prefix(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
#[path = "../../tests/unit/index.rs"]
mod tests;
