//! Sets up name resolution and the trusted certificate authority for programs in the emulated network.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, ToSocketAddrs};

use fastopen_link::ip::Addresses;
use fastopen_netns::namespace;
use fastopen_page::{alias_host, is_name};
use fastopen_replay::tls::Authority;

use crate::contract::{Bodies, Fault, Job};
use crate::failure::Failure;

/// Files for name resolution and trusted certificates, mounted over the machine's files until dropped.
pub struct HostsOverlay(Vec<&'static str>);

impl HostsOverlay {
    /// Mounts a hosts file and other settings over the machine's files. Fails if names do not resolve as in
    /// the hosts file. `resolver` is a DNS server's address, and a flag: true if programs query it over TCP.
    /// Without a DNS server, the hosts file lists all `hosts`. Programs trust only `authority`, if given.
    pub fn mount(
        hosts: &BTreeMap<String, Addresses>,
        authority: Option<&Authority>,
        resolver: Option<(IpAddr, bool)>,
    ) -> Result<Self, Failure> {
        // `localhost` and addresses are always in the file, because programs never query a resolver for them.
        let in_file = |host: &str| resolver.is_none() || host == "localhost" || !is_name(host);
        let mut file = String::new();
        // The page may have a host `localhost` with another address.
        if !hosts.contains_key("localhost") {
            file.push_str("127.0.0.1 localhost\n");
        }
        for (host, addresses) in hosts.iter().filter(|(host, _)| in_file(host)) {
            for address in addresses.iter() {
                let _ = writeln!(file, "{address} {host}");
            }
        }
        let root = authority.map(Authority::root_pem);
        let by_name = resolver.map(|(address, over_tcp)| {
            // `use-vc` makes the stub resolver use TCP (resolv.conf(5)).
            let options = if over_tcp { "options use-vc\n" } else { "" };
            format!("nameserver {address}\n{options}")
        });
        let switch = if resolver.is_some() { "hosts: files dns\n" } else { "hosts: files\n" };
        let mut files = vec![("/etc/hosts", file.as_str()), ("/etc/nsswitch.conf", switch)];
        files.extend(by_name.as_deref().map(|server| ("/etc/resolv.conf", server)));
        // The authorities that programs trust, on Debian and its derivatives.
        files.extend(root.as_deref().map(|root| ("/etc/ssl/certs/ca-certificates.crt", root)));
        let present = files.iter().map(|(path, _)| *path).filter(|path| std::path::Path::new(path).exists());
        let names = Self(present.collect());
        namespace::overlay_files(&files)?;
        for (host, Addresses { preferred: address, .. }) in hosts.iter().filter(|(host, _)| in_file(host)) {
            let found = (host.as_str(), 80).to_socket_addrs().ok().and_then(|mut found| found.next());
            // A host that is an IP address needs no lookup.
            if is_name(host) && found.is_none_or(|found| found.ip() != *address) {
                let found = found.map_or("nothing".to_owned(), |found| found.ip().to_string());
                let message = format!("the world resolves {host} to {found} instead of {address}");
                return Err(Failure::new(Fault::World, message));
            }
        }
        Ok(names)
    }
}

impl Drop for HostsOverlay {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = namespace::remove_overlay(path);
        }
    }
}

/// Returns `hosts` and the further [`names`] of the same hosts.
pub fn with_aliases(job: &Job, hosts: &BTreeMap<String, Addresses>) -> BTreeMap<String, Addresses> {
    let mut named = hosts.clone();
    for (host, addresses) in hosts {
        for name in names(job, host) {
            named.entry(name).or_insert(*addresses);
        }
    }
    named
}

/// Returns the names in the certificate of `host`: its own, a made-up name if [`uses_aliases`] is true and,
/// for recorded bodies, names outside the page that differ only in the first digit (`img2.a` for `img1.a`).
pub fn names(job: &Job, host: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::from([host.to_owned()]);
    if uses_aliases(job) {
        names.insert(alias_host(host));
    }
    if job.origins.bodies == Bodies::Recorded {
        let is_of_the_page = |name: &String| job.page.resources.iter().any(|one| one.url.host() == name);
        names.extend(siblings(host).filter(|name| !is_of_the_page(name)));
    }
    names
}

/// Returns the names that differ from `host` only in its first digit; none if `host` has no digit or is an
/// address. Scripts choose among such hosts at random, but a recording contains only one choice.
fn siblings(host: &str) -> impl Iterator<Item = String> {
    let at = host.find(|letter: char| letter.is_ascii_digit()).filter(|_| is_name(host));
    let others =
        at.map(|at| ('0'..='9').map(move |digit| format!("{}{digit}{}", &host[..at], &host[at + 1..])));
    others.into_iter().flatten().filter(move |name| name != host)
}

/// Returns true if two host names differ only in the values of digits; false if they are equal or addresses.
pub fn are_siblings(one: &str, other: &str) -> bool {
    let masked = |host: &str| -> String {
        host.chars().map(|letter| if letter.is_ascii_digit() { '#' } else { letter }).collect()
    };
    one != other && is_name(one) && is_name(other) && masked(one) == masked(other)
}

/// Returns true if the URLs in synthetic bodies contain made-up host names (aliases) instead of the page's.
/// For real names on its HSTS preload list, the client would replace `http` in URLs by `https`.
pub fn uses_aliases(job: &Job) -> bool {
    job.origins.bodies == Bodies::Synthetic && job.client.kind.capabilities().hsts_preloaded
}

#[cfg(test)]
#[path = "../../tests/unit/hosts_overlay.rs"]
mod tests;
