//! Builds the emulated network: a client and its origins in network namespaces, with the link between them.
//!
//! ```text
//!  client namespace          link namespace (this program's)            origins namespace
//!  198.18.0.0/16  eth0 ──veth── client │ packets of `program_link` │ origins ──veth── eth0  198.19.0.0/16
//!  or 2001:2:0:18::/64                                                        or 2001:2:0:19::/64
//! ```
//! If the kernel emulates the link, two routers are between them instead (see `kernel_link`):
//! ```text
//!  client  eth0 ── client │ near router │ far ── near │ far router │ origins ── eth0  origins
//! ```
//! Each origin host has its own address. The client gets a new address for every load, so that no state that
//! the kernel keeps for an address (cookies, metrics, `TIME_WAIT`) passes from load to load. To flush
//! `tcp_metrics` instead, this program would have to be root of the whole machine.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::thread;

use fastopen_link::ip::{Addresses, Version, Versions};
use fastopen_netns::namespace::NetNs;
use fastopen_netns::packet::{PacketSocket, Tap};
use fastopen_netns::qdisc::Qdisc;
use fastopen_netns::route::{Route, RouteSocket, VethEnd, disable_offloads};
use fastopen_netns::{Result, sysctl};

use crate::contract::{BothEnds, ClientFastOpen, Job, LinkKind, ListenerFastOpen, Tcp};
use crate::network::addresses::{
    Prefix, client_address, client_addresses, client_network, origin_addresses, origin_network,
};
use crate::network::kernel_link::{Egress, RoutedPath, Routers};
use crate::network::link_config::LinkConfig;
use crate::network::sysctls::{BLACKHOLE_TIMEOUT, FASTOPEN, SLOW_START_AFTER_IDLE, SYNCOOKIES, sysctls};
use crate::sandbox::server_core::ServerCore;

const CLIENT_END: &str = "client";
const ORIGINS_END: &str = "origins";
const TO_FAR: &str = "far";
const TO_NEAR: &str = "near";
const INTERFACE: &str = "eth0";
const LOOPBACK: &str = "lo";
/// Ethernet address of the client's and the origins' interfaces. They do not use ARP, so the kernel uses this
/// address as both the source and the destination of the frames that they send.
const INNER_MAC: [u8; 6] = [0x02, 0xfa, 0x57, 0, 0, 1];
const OUTER_MAC: [u8; 6] = [0x02, 0xfa, 0x57, 0, 0, 2];
/// Maximum number of received frames that wait for the forwarder. A connection has at most 4 MB in flight
/// (`net.ipv4.tcp_wmem`), some 2,900 frames, so it never fills the ring, however late the forwarder is.
const RING_FRAMES: u32 = 4096;

/// The use of Fast Open by the client and the origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastOpenUse {
    Off,
    /// Both ends use Fast Open with its default settings, to fetch cookies as an earlier visit would.
    EarlierVisit,
    /// Both ends use Fast Open as the job requests.
    Asked,
}

/// The namespaces and interfaces of one emulated network. Dropping this value removes them.
pub struct Topology {
    pub client: NetNs,
    pub origins: NetNs,
    client_routes: RefCell<RouteSocket>,
    client_ipv6: Cell<Option<IpAddr>>,
    /// The router next to the client, or the namespace in which this program forwards the packets itself.
    near: NetNs,
    /// The router next to the origins; None if this program forwards the packets.
    far: Option<NetNs>,
    tcp: Tcp,
    /// True if an external server may use Fast Open to the origins, even if the client does not use it.
    upstream_tfo: bool,
    pub ip: Versions,
    pub mtu_bytes: u32,
}

impl Topology {
    /// Creates a job's namespaces and interfaces. `link` selects whether the kernel or this program forwards
    /// packets. The origins process received packets on `core`.
    pub fn build(job: &Job, link: LinkKind, core: Option<&ServerCore>) -> Result<Self> {
        let (ip, mtu_bytes) = (job.network.ip, job.network.mtu_bytes);
        let near = NetNs::create()?;
        let far = (link == LinkKind::Kernel).then(NetNs::create).transpose()?;
        let (client, origins) = (NetNs::create()?, NetNs::create()?);
        let client_routes = RefCell::new(client.run(RouteSocket::open)?);
        let client_ipv6 = Cell::new(None);
        let (tcp, upstream_tfo) = (job.tcp.clone(), job.origins.upstream_tfo);
        let topology =
            Self { client, origins, client_routes, client_ipv6, near, far, tcp, upstream_tfo, ip, mtu_bytes };
        if let Some(core) = core {
            let others = [&topology.client, &topology.near].into_iter().chain(&topology.far);
            core.steer(&topology.origins, others);
        }
        topology.set_up_between()?;
        topology.client.run(|| topology.set_up_inner(client_network))?;
        topology.set_client_address(client_addresses(ip, 0))?;
        topology.origins.run(|| {
            topology.set_up_inner(origin_network)?;
            let mut routes = RouteSocket::open()?;
            for source in origin_addresses(ip, 0).iter() {
                if source.is_ipv6() {
                    routes.add_address(INTERFACE, source)?;
                }
                let near = client_network(Version::of(source));
                routes.replace_route(&topology.route(near, source))?;
            }
            topology.set_up_upstream(job.origins.upstream_rtt_us)
        })?;
        // Set before sockets listen, because a socket gets a Fast Open queue only when it begins to listen.
        topology.set_fastopen(FastOpenUse::Asked)?;
        for (namespace, interface) in topology.pairs().concat() {
            namespace.run(|| RouteSocket::open()?.wait_until_up(interface))?;
        }
        Ok(topology)
    }

    /// Returns the veth pairs between client and origins: the namespace and the interface of each end.
    fn pairs(&self) -> Vec<[(&NetNs, &'static str); 2]> {
        let to_client = [(&self.near, CLIENT_END), (&self.client, INTERFACE)];
        let between = self.far.as_ref().map(|far| [(&self.near, TO_FAR), (far, TO_NEAR)]);
        let far = self.far.as_ref().unwrap_or(&self.near);
        let to_origins = [(far, ORIGINS_END), (&self.origins, INTERFACE)];
        [to_client].into_iter().chain(between).chain([to_origins]).collect()
    }

    /// Creates all interfaces. Sets up those of the routers or, without routers, of this program's link.
    fn set_up_between(&self) -> Result<()> {
        self.near.run(|| {
            let mut routes = RouteSocket::open()?;
            for [(one, one_name), (other, other_name)] in self.pairs() {
                // Routers accept only frames to their own address (see `INNER_MAC`).
                let mac = if self.far.is_some() { INNER_MAC } else { OUTER_MAC };
                let outer = VethEnd { name: one_name, mac, namespace: one };
                let inner = VethEnd { name: other_name, mac: INNER_MAC, namespace: other };
                routes.add_veth(&outer, &inner, self.mtu_bytes)?;
            }
            if self.far.is_some() {
                return set_up_router(self.ip, CLIENT_END, TO_FAR);
            }
            for end in [CLIENT_END, ORIGINS_END] {
                // The link's namespace must not have link-local addresses.
                let _ = sysctl::set(&format!("net.ipv6.conf.{end}.disable_ipv6"), "1");
                disable_offloads(end)?;
                routes.bring_up(end)?;
            }
            Ok(())
        })?;
        self.far.as_ref().map_or(Ok(()), |far| far.run(|| set_up_router(self.ip, TO_NEAR, ORIGINS_END)))
    }

    /// Sets up the calling thread's namespace as one end of the link. This end owns all addresses in `own`.
    fn set_up_inner(&self, own: fn(Version) -> Prefix) -> Result<()> {
        set_up_ipv6(self.ip, &[LOOPBACK, INTERFACE])?;
        for (name, value) in sysctls(self.ip) {
            sysctl::set(name, value)?;
        }
        sysctl::set(SLOW_START_AFTER_IDLE, &u8::from(self.tcp.slow_start_after_idle).to_string())?;
        sysctl::set(BLACKHOLE_TIMEOUT, &self.tcp.blackhole_timeout_s.to_string())?;
        disable_offloads(INTERFACE)?;
        let mut routes = RouteSocket::open()?;
        routes.bring_up(LOOPBACK)?;
        routes.bring_up(INTERFACE)?;
        self.ip.all().iter().try_for_each(|version| routes.add_local_network(own(*version)))
    }

    /// Delays the packets between an external server and the origins behind it, which pass over loopback.
    fn set_up_upstream(&self, rtt_us: u64) -> Result<()> {
        let delay_ns = rtt_us * 1000 / 2;
        if delay_ns == 0 {
            return Ok(());
        }
        let mut routes = RouteSocket::open()?;
        // With the MTU of loopback, whole responses would fit into an initial window.
        routes.set_mtu(LOOPBACK, self.mtu_bytes)?;
        routes.add_qdiscs(LOOPBACK, &[Qdisc::Netem { delay_ns, byte_per_s: None, loss: 0, seed: 0 }])
    }

    fn route(&self, destination: Prefix, source: IpAddr) -> Route<'_> {
        Route {
            source: Some(source),
            congestion_control: Some(&self.tcp.congestion_control),
            initial_window: Some(self.tcp.initial_window_segments),
            ..plain_route(destination, INTERFACE)
        }
    }

    /// Opens the packet sockets of the link, one towards the client and one towards the origins. Fails if the
    /// topology has routers, because the interfaces are then in two namespaces.
    pub fn packet_sockets(&self) -> Result<(PacketSocket, PacketSocket)> {
        let (near, ether_type) = (&self.near, self.ip.ether_type());
        let open = |end| move || near.run(|| PacketSocket::open(end, RING_FRAMES, ether_type));
        // In parallel: each bind waits for all processors (synchronize_net in net/packet/af_packet.c).
        thread::scope(|scope| {
            let client = thread::Builder::new().spawn_scoped(scope, open(CLIENT_END));
            let client = client.map_err(|error| fastopen_netns::Error::other("starting a thread", error))?;
            let origins = open(ORIGINS_END)()?;
            Ok((client.join().expect("opening a packet socket does not panic")?, origins))
        })
    }

    /// Calls `read` in the client's and in the origins' namespace, and returns both results.
    pub fn at_both_ends<T>(&self, read: impl Fn() -> Result<T>) -> Result<BothEnds<T>> {
        Ok(BothEnds { client: self.client.run(&read)?, origins: self.origins.run(&read)? })
    }

    /// Opens a packet tap on the interface of the client or the origins, with room for `frames` frames.
    pub fn tap(end: &NetNs, frames: u32) -> Result<Tap> {
        end.run(|| Tap::open(INTERFACE, frames))
    }

    /// Returns the routers after removing their delay and rate limit; None if this program forwards packets.
    pub fn routers(&self) -> Result<Option<Routers>> {
        let (near, Some(far)) = (&self.near, &self.far) else { return Ok(None) };
        let egress = |router: &NetNs, interface| Ok(Egress::new(router.run(RouteSocket::open)?, interface));
        let down = RoutedPath { queue: egress(far, TO_NEAR)?, wire: egress(near, CLIENT_END)? };
        let up = RoutedPath { queue: egress(near, TO_FAR)?, wire: egress(far, ORIGINS_END)? };
        let mut routers = Routers { down, up, mtu_bytes: self.mtu_bytes };
        routers.configure(&LinkConfig::default())?;
        Ok(Some(routers))
    }

    /// Makes the client look connected, because otherwise its programs would skip DNS lookups for a version
    /// of IP. For IPv4, adds an address to the client's interface, which has one for IPv6 anyway. For IPv6,
    /// adds a default route, because Chromium looks up IPv6 addresses only if it has a route to the Internet.
    pub fn show_connectivity(&self) -> Result<()> {
        let mut routes = self.client_routes.borrow_mut();
        self.ip.all().iter().try_for_each(|version| match version {
            Version::V4 => routes.add_address(INTERFACE, client_address(*version, 0)),
            Version::V6 => routes.replace_route(&plain_route((version.unspecified(), 0), INTERFACE)),
        })
    }

    /// Sets the addresses, one of each version of IP, from which the client opens its next connections.
    pub fn set_client_address(&self, addresses: Addresses) -> Result<()> {
        let mut routes = self.client_routes.borrow_mut();
        for address in addresses.iter() {
            // The source of an IPv6 route must be an address of an interface. The interface has only one,
            // because programs would choose among several.
            if address.is_ipv6() && self.client_ipv6.get() != Some(address) {
                routes.add_address(INTERFACE, address)?;
            }
            routes.replace_route(&self.route(origin_network(Version::of(address)), address))?;
            if address.is_ipv6() {
                let earlier = self.client_ipv6.replace(Some(address));
                if let Some(earlier) = earlier.filter(|earlier| *earlier != address) {
                    routes.remove_address(INTERFACE, earlier)?;
                }
            }
        }
        Ok(())
    }

    /// Sets the origins' Fast Open cookie keys (four 32-bit words). The first key generates cookies; all keys
    /// accept them.
    pub fn set_cookie_keys(&self, keys: &[[u32; 4]]) -> Result<()> {
        let keys: Vec<_> = keys.iter().map(|key| key.map(|word| format!("{word:08x}")).join("-")).collect();
        self.origins.run(|| sysctl::set("net.ipv4.tcp_fastopen_key", &keys.join(",")))
    }

    /// Sets the origins' use of SYN cookies: 0 never, 1 when a queue is full, 2 always.
    pub fn set_syncookies(&self, when: u8) -> Result<()> {
        self.origins.run(|| sysctl::set(SYNCOOKIES, &when.to_string()))
    }

    /// Makes the client drop packets for addresses in the prefix `part`, without replying with resets.
    pub fn silence(&self, part: Prefix) -> Result<()> {
        self.client_routes.borrow_mut().set_silent(part, true)
    }

    /// Sets the use of Fast Open by both ends. Ends a pause of Fast Open after a suspected black hole.
    pub fn set_fastopen(&self, used: FastOpenUse) -> Result<()> {
        let Tcp { client_fastopen, listener_fastopen, blackhole_timeout_s, .. } = self.tcp;
        let (client, listener) = match used {
            FastOpenUse::Off => (0, 0),
            FastOpenUse::EarlierVisit => {
                (ClientFastOpen::default() as u32, ListenerFastOpen::default() as u32)
            }
            FastOpenUse::Asked => (client_fastopen as u32, listener_fastopen as u32),
        };
        // Bits for an external server's connections, and for the listeners of the origins behind it.
        let upstream = if self.upstream_tfo {
            ClientFastOpen::default() as u32
                | if listener == 0 { ListenerFastOpen::default() as u32 } else { 0 }
        } else {
            0
        };
        for (namespace, bits) in [(&self.client, client), (&self.origins, listener | upstream)] {
            namespace.run(|| {
                if blackhole_timeout_s > 0 {
                    sysctl::set(BLACKHOLE_TIMEOUT, &blackhole_timeout_s.to_string())?;
                }
                sysctl::set(FASTOPEN, &bits.to_string())
            })?;
        }
        Ok(())
    }
}

fn set_up_router(ip: Versions, to_client: &str, to_origins: &str) -> Result<()> {
    set_up_ipv6(ip, &[to_client, to_origins])?;
    let mut routes = RouteSocket::open()?;
    // Otherwise IPv6 routers would join multicast groups, and report this over the link.
    for interface in [to_client, to_origins].iter().filter(|_| ip.has(Version::V6)) {
        routes.disable_multicast(interface)?;
    }
    for interface in [to_client, to_origins] {
        disable_offloads(interface)?;
        routes.bring_up(interface)?;
    }
    for version in ip.all() {
        let forwarding = match version {
            Version::V4 => "net.ipv4.ip_forward",
            Version::V6 => "net.ipv6.conf.all.forwarding",
        };
        sysctl::set(forwarding, "1")?;
        let networks = [(to_client, client_network(*version)), (to_origins, origin_network(*version))];
        for (interface, destination) in networks {
            routes.replace_route(&plain_route(destination, interface))?;
        }
    }
    Ok(())
}

fn plain_route(destination: Prefix, interface: &str) -> Route<'_> {
    Route { destination, interface, source: None, congestion_control: None, initial_window: None }
}

/// Enables IPv6 in this thread's namespace, without router solicitations; disables it if `ip` is only IPv4.
fn set_up_ipv6(ip: Versions, interfaces: &[&str]) -> Result<()> {
    if !ip.has(Version::V6) {
        // A kernel without IPv6 does not have the setting.
        let _ = sysctl::set("net.ipv6.conf.all.disable_ipv6", "1");
        return Ok(());
    }
    sysctl::set("net.ipv6.conf.all.disable_ipv6", "0")?;
    for interface in interfaces {
        // Without a link-local address, the kernel sends no router solicitations.
        sysctl::set(&format!("net.ipv6.conf.{interface}.addr_gen_mode"), "1")?;
        sysctl::set(&format!("net.ipv6.conf.{interface}.accept_ra"), "0")?;
    }
    Ok(())
}
