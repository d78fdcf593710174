//! Name resolution and trust inside a world: the hosts file, and the certificate authority that programs
//! trust.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, ToSocketAddrs};

use fastopen_netns::namespace;
use fastopen_page::alias_host;
use fastopen_replay::tls::Authority;

use crate::contract::{Bodies, Fault, Job};
use crate::failure::Failure;

/// The world's hosts file and certificate authority, mounted over the machine's files. Dropping it unmounts
/// them.
pub struct HostsOverlay(Vec<&'static str>);

impl HostsOverlay {
    const HOSTS: &'static str = "/etc/hosts";
    const SWITCH: &'static str = "/etc/nsswitch.conf";
    /// The certificate authorities that programs trust, on Debian and its derivatives.
    const AUTHORITIES: &'static str = "/etc/ssl/certs/ca-certificates.crt";

    /// Mounts the files and looks each host up, as clients do. The authority, if any, is the only trusted
    /// one.
    ///
    /// # Errors
    /// If the files cannot be mounted, or a host resolves to another address.
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

/// The hosts and, if the world has them, their aliases.
pub fn with_aliases(job: &Job, hosts: &BTreeMap<String, Ipv4Addr>) -> BTreeMap<String, Ipv4Addr> {
    let mut named = hosts.clone();
    if uses_aliases(job) {
        named.extend(hosts.iter().map(|(host, address)| (alias_host(host), *address)));
    }
    named
}

/// A host and, if the world has aliases, its alias.
pub fn names(job: &Job, host: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::from([host.to_owned()]);
    if uses_aliases(job) {
        names.insert(alias_host(host));
    }
    names
}

/// Whether bodies name alias hosts, since the client contacts some hosts by https alone (HSTS preload list).
pub fn uses_aliases(job: &Job) -> bool {
    job.origins.bodies == Bodies::Synthetic && job.client.kind.capabilities().hsts_preloaded
}
