//! What the hosts of a page are called inside a world, and whom programs trust there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, ToSocketAddrs};

use fastopen_netns::namespace;
use fastopen_page::alias_host;
use fastopen_replay::tls::Authority;

use crate::contract::{Bodies, ClientKind, Fault, Job};
use crate::failure::Failure;

/// The hosts file of the world and its certificate authority, bound over the machine's own for as long as this lives.
pub struct HostsOverlay(Vec<&'static str>);

impl HostsOverlay {
    const HOSTS: &'static str = "/etc/hosts";
    const SWITCH: &'static str = "/etc/nsswitch.conf";
    /// The authorities that programs trust, on Debian and what comes of it.
    const AUTHORITIES: &'static str = "/etc/ssl/certs/ca-certificates.crt";

    /// Puts the names up and looks each up, as any client would; where there is an authority, it is the only one trusted.
    ///
    /// # Errors
    /// Where the files cannot be bound, or a name is known as something else.
    pub fn mount(hosts: &BTreeMap<String, Ipv4Addr>, authority: Option<&Authority>) -> Result<Self, Failure> {
        let mut file = String::new();
        // A page may be served as localhost.
        if !hosts.contains_key("localhost") {
            file.push_str("127.0.0.1 localhost\n");
        }
        for (host, address) in hosts {
            let _ = writeln!(file, "{address} {host}");
        }
        let root = authority.map(Authority::root_pem);
        let mut files = vec![(Self::HOSTS, file.as_str()), (Self::SWITCH, "hosts: files\n")];
        files.extend(root.as_deref().map(|root| (Self::AUTHORITIES, root)));
        let present = files.iter().map(|(path, _)| *path).filter(|path| std::path::Path::new(path).exists());
        let names = Self(present.collect());
        namespace::overlay_files(&files)?;
        for (host, address) in hosts {
            let found = (host.as_str(), 80).to_socket_addrs().ok().and_then(|mut found| found.next());
            // An address written as a host needs no name.
            let is_name = host.parse::<Ipv4Addr>().is_err() && !host.starts_with('[');
            if is_name && found.is_none_or(|found| found.ip() != *address) {
                let found = found.map_or("nothing".to_owned(), |found| found.ip().to_string());
                let message = format!("{host} is known inside as {found} instead of {address}");
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

/// The hosts under all names that they have in this world.
pub fn with_aliases(job: &Job, hosts: &BTreeMap<String, Ipv4Addr>) -> BTreeMap<String, Ipv4Addr> {
    let mut named = hosts.clone();
    if uses_aliases(job) {
        named.extend(hosts.iter().map(|(host, address)| (alias_host(host), *address)));
    }
    named
}

/// The names of a host.
pub fn names(job: &Job, host: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::from([host.to_owned()]);
    if uses_aliases(job) {
        names.insert(alias_host(host));
    }
    names
}

/// Whether bodies call hosts by their stage names: a browser would ask some of the real ones by https alone.
pub fn uses_aliases(job: &Job) -> bool {
    job.origins.bodies == Bodies::Synthetic && job.client.kind == ClientKind::Chromium
}
