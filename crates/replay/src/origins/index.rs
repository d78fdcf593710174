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
    /// For each resource: number of requests that were matched to it by URL, not by [`RESOURCE_HEADER`].
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
            // Prefer the first resource that was not found yet, then the last one.
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
mod tests {
    use fastopen_link::ip::Addresses;
    use hyper::Request;

    use super::*;
    use crate::body::SizedBody;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 19, 0, 1));

    fn served(port: u16, method: &str, target: &str) -> ServedResource {
        ServedResource {
            host: Addresses { preferred: HOST, other: None },
            port,
            method: method.into(),
            target: target.into(),
            normalized_target: target.into(),
            alternatives: Vec::new(),
            status: 200,
            mime: String::new(),
            head: None,
            location: None,
            header_bytes: 0,
            body: SizedBody::default(),
            think_ns: 0,
            cache_policy: None,
            refuses_preflight: false,
        }
    }

    fn found(index: &Index, port: u16, method: Method, target: &str) -> Option<(usize, bool)> {
        let request = Request::builder().method(method).uri(target).body(()).expect("a request");
        index.find(SocketAddr::new(HOST, port), &request.into_parts().0)
    }

    fn index(accepts_similar_urls: bool) -> Index {
        Index::of(
            &[
                served(80, "GET", "/a?x=1&_=111"),
                served(80, "GET", "/a?x=2&_=112"),
                served(80, "GET", "/a"),
                served(443, "GET", "/a?x=1&_=111"),
                served(80, "POST", "/a"),
                served(80, "GET", "/p;r=1;s=2"),
                served(80, "GET", "/same"),
                served(80, "GET", "/same"),
            ],
            accepts_similar_urls,
        )
    }

    #[test]
    fn the_exact_url_is_found_first_then_the_one_with_most_parameters_in_common() {
        let index = index(true);
        let get = |target| found(&index, 80, Method::GET, target);
        assert_eq!(get("/a?x=2&_=112"), Some((1, true)));
        assert_eq!(get("/a?_=999&x=2"), Some((1, false)));
        assert_eq!(get("/a?x=1&_=999"), Some((0, false)));
        assert_eq!(get("/a?y=1"), Some((2, false)));
        assert_eq!(get("/p;r=7;s=2"), Some((5, false)));
        assert_eq!(get("/b"), None);
        assert_eq!(found(&index, 80, Method::POST, "/a?x=1"), Some((4, false)));
        assert_eq!(found(&index, 80, Method::PUT, "/a"), None);
    }

    #[test]
    fn a_beacon_is_answered_by_a_get_of_its_path_where_the_recording_has_no_post_of_it() {
        let beacon = |index: &Index, method, target, mode| {
            let request = Request::builder().method(method).uri(target);
            let request = request.header("sec-fetch-mode", mode).header("sec-fetch-dest", "empty").body(());
            index.find(SocketAddr::new(HOST, 80), &request.expect("a request").into_parts().0)
        };
        let index = index(true);
        assert_eq!(beacon(&index, Method::POST, "/p;r=1;s=2", "no-cors"), Some((5, false)));
        assert_eq!(
            beacon(&index, Method::POST, "/a?x=1", "no-cors"),
            Some((4, false)),
            "its own method first"
        );
        assert_eq!(beacon(&index, Method::POST, "/p;r=1;s=2", "cors"), None, "a script reads the answer");
        assert_eq!(beacon(&index, Method::PUT, "/p;r=1;s=2", "no-cors"), None);
        assert_eq!(beacon(&self::index(false), Method::POST, "/p;r=1;s=2", "no-cors"), None);
    }

    #[test]
    fn the_same_port_is_nearer_than_another_and_another_is_found_where_there_is_none() {
        let index = index(true);
        assert_eq!(found(&index, 443, Method::GET, "/a?x=1&_=111"), Some((3, true)));
        assert_eq!(found(&index, 443, Method::GET, "/a?x=2&_=112"), Some((3, false)));
        assert_eq!(found(&index, 8080, Method::GET, "/same"), Some((6, false)));
    }

    #[test]
    fn requests_that_are_equally_near_get_one_resource_after_another_and_then_the_last() {
        let index = index(true);
        for expected in [6, 7, 7] {
            assert_eq!(found(&index, 80, Method::GET, "/same"), Some((expected, true)));
        }
        index.reset();
        for expected in [6, 7, 7] {
            assert_eq!(found(&index, 80, Method::GET, "/same?_=1"), Some((expected, false)));
        }
    }

    #[test]
    fn another_choice_of_a_picture_gets_the_recorded_one_and_what_was_recorded_itself() {
        let alternative = |target: &str| (SocketAddr::new(HOST, 80), target.to_owned());
        let mut picture = served(80, "GET", "/2x.png");
        picture.alternatives =
            vec![alternative("/1x.png"), alternative("/scaled?i=1&w=1"), alternative("/own.png")];
        let resources = [picture, served(80, "GET", "/own.png"), served(80, "GET", "/scaled?i=2&w=1")];
        let index = Index::of(&resources, true);
        let get = |target| found(&index, 80, Method::GET, target);
        assert_eq!(get("/1x.png"), Some((0, false)));
        assert_eq!(get("/own.png"), Some((1, true)));
        assert_eq!(get("/scaled?i=1&w=1"), Some((0, false)));
        assert_eq!(get("/scaled?i=3&w=1"), Some((2, false)));
        assert_eq!(found(&Index::of(&resources, false), 80, Method::GET, "/1x.png"), None);
    }

    #[test]
    fn without_nearness_port_and_query_have_to_be_the_resources() {
        let index = index(false);
        assert_eq!(found(&index, 80, Method::GET, "/a?x=2&_=112"), Some((1, true)));
        assert_eq!(found(&index, 80, Method::GET, "/a?x=2&_=999"), None);
        assert_eq!(found(&index, 8080, Method::GET, "/same"), None);
    }
}
