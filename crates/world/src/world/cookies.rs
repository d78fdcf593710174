//! Fetches Fast Open cookies before a page load: the client's cookies for all hosts, as after an earlier
//! visit, and an external server's cookies for the origins to which it forwards requests.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fastopen_netns::namespace::NetNs;
use fastopen_netns::{Error, Result, tcp};
use socket2::{Domain, Socket, Type};

use super::Servers;
use super::load::SETTLE_TIMEOUT;
use crate::server;

impl Servers {
    /// Fetches the client's Fast Open cookies from all hosts, and from the DNS resolver if it uses TCP.
    pub(super) fn fetch_cookies(&self, client: &NetNs) -> Result<()> {
        let addresses = self.addresses.iter().chain(&self.other_addresses).copied();
        self.fetch(client, one_per_host(addresses.chain(self.resolver)))
    }

    /// Fetches a cookie from the page's first origin for each of these addresses of the namespace `client`.
    pub(super) fn fetch_cookies_of(&self, client: &NetNs, addresses: &[IpAddr]) -> Result<()> {
        self.fetch(client, addresses.iter().map(|address| (Some(*address), self.addresses[0])))
    }

    /// Fetches the origins' Fast Open cookies for an external server, as if it had connected to them before.
    pub(super) fn fetch_upstream_cookies(&self, origins: &NetNs) -> Result<()> {
        let of_server = self.addresses.iter().filter(|address| address.port() == server::PORT);
        let behind = of_server.map(|address| SocketAddr::new(address.ip(), server::UPSTREAM_PORT));
        self.fetch(origins, one_per_host(behind))
    }

    /// Makes the kernel fetch a Fast Open cookie for each pair of a source address (None: any) and a server.
    fn fetch(
        &self,
        namespace: &NetNs,
        pairs: impl IntoIterator<Item = (Option<IpAddr>, SocketAddr)>,
    ) -> Result<()> {
        self.origins.log().clear();
        namespace.run(|| {
            let mut asked = 0;
            for (from, address) in pairs {
                let failed = |source| Error::other(format!("fetching a cookie from {address}"), source);
                let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).map_err(failed)?;
                if let Some(from) = from {
                    socket.bind(&SocketAddr::new(from, 0).into()).map_err(failed)?;
                }
                tcp::set_fastopen_connect(&socket).map_err(failed)?;
                socket.connect_timeout(&address.into(), SETTLE_TIMEOUT).map_err(failed)?;
                socket.set_linger(Some(Duration::ZERO)).map_err(failed)?;
                // Wait until the connection is accepted. Otherwise it could be counted in the load, or its
                // reset could overtake the handshake's last packet, which another processor handles.
                let accepted = match self.server.as_ref().filter(|_| address.port() == server::PORT) {
                    None => {
                        asked += 1;
                        self.origins.log().wait_until_accepted(asked, SETTLE_TIMEOUT)
                    }
                    Some(server) => {
                        let own = socket.local_addr().map_err(failed)?.as_socket();
                        let own = own.ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?;
                        server.sockets.wait_until_established(own, SETTLE_TIMEOUT)?
                    }
                };
                if !accepted {
                    return Err(failed(io::ErrorKind::TimedOut.into()));
                }
            }
            Ok(())
        })
    }
}

/// Returns one socket address for each IP address, because all ports of an IP address share one cookie. Pairs
/// each with None, which stands for any source address.
fn one_per_host(
    addresses: impl Iterator<Item = SocketAddr>,
) -> impl Iterator<Item = (Option<IpAddr>, SocketAddr)> {
    let mut fetched = BTreeSet::new();
    addresses.filter(move |address| fetched.insert(address.ip())).map(|address| (None, address))
}
