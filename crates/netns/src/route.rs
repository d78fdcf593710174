//! Sets up interfaces, addresses and routes of a network namespace (rtnetlink). Disables offloads (ethtool).

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::netlink::{Netlink, attribute, number, payloads, text, word, words};
use crate::{Doing, Operation, Result, check};

/// Maximum number of times to check that an interface is ready. The checks are a millisecond apart.
const CARRIER_TRIES: usize = 5000;

// Constants of include/uapi/linux/veth.h and rtnetlink.h.
const VETH_INFO_PEER: u16 = 1;
const RTAX_INITCWND: u16 = 11;
const RTAX_CC_ALGO: u16 = 16;
// Size of `struct ifinfomsg`, and the offset of its field `ifi_index`, in bytes.
const LINK_BYTES: usize = 16;
const LINK_INDEX: usize = 4;

/// One end of a new veth pair.
pub struct VethEnd<'a> {
    /// Interface name, at most 15 characters.
    pub name: &'a str,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Namespace in which the end is created.
    pub namespace: &'a crate::namespace::NetNs,
}

/// A route to `destination` through an interface.
pub struct Route<'a> {
    /// Network address and prefix length.
    pub destination: (IpAddr, u8),
    /// Interface to send through.
    pub interface: &'a str,
    /// Source address of connections that are not bound to an address; None if the kernel chooses. An IPv6
    /// address must belong to an interface.
    pub source: Option<IpAddr>,
    /// Congestion control algorithm of connections over the route; None for the default. A namespace's sysctl
    /// accepts only algorithms that the machine allows for all users, but a route accepts any.
    pub congestion_control: Option<&'a str>,
    /// Initial congestion window in segments; None for the kernel's default.
    pub initial_window: Option<u32>,
}

/// The routing socket of one namespace. Threads of any namespace can use it.
pub struct RouteSocket {
    pub(crate) netlink: Netlink,
    /// Cache of interface numbers, keyed by interface name.
    known: BTreeMap<String, u32>,
}

impl RouteSocket {
    /// Opens a netlink socket for routes and interfaces in the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        let netlink = Netlink::open(NETLINK_ROUTE).doing(|| "opening a routing socket".into())?;
        Ok(Self { netlink, known: BTreeMap::new() })
    }

    /// Creates a veth pair with each end in its own namespace. Both ends are down.
    pub fn add_veth(&mut self, one: &VethEnd, other: &VethEnd, mtu: u32) -> Result<()> {
        let end = |end: &VethEnd| {
            [
                link_header(0, 0),
                text(libc::IFLA_IFNAME, end.name),
                attribute(libc::IFLA_ADDRESS, end.mac),
                number(libc::IFLA_MTU, mtu),
                number(libc::IFLA_NET_NS_FD, end.namespace.as_fd().as_raw_fd() as u32),
            ]
            .concat()
        };
        let peer = attribute(libc::IFLA_INFO_DATA, attribute(VETH_INFO_PEER, end(other)));
        let pair = attribute(libc::IFLA_LINKINFO, [text(libc::IFLA_INFO_KIND, "veth"), peer].concat());
        self.ask(libc::RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &[end(one), pair])
            .doing(|| format!("making the veth pair {} and {}", one.name, other.name))
    }

    /// Brings an interface up, without address resolution (ARP).
    pub fn bring_up(&mut self, interface: &str) -> Result<()> {
        let link = link_header(self.index(interface)?, (libc::IFF_UP | libc::IFF_NOARP) as u32);
        self.ask(libc::RTM_SETLINK, 0, &[link]).doing(|| format!("bringing {interface} up"))
    }

    /// Stops the kernel from sending multicast packets of its own through an interface.
    pub fn disable_multicast(&mut self, interface: &str) -> Result<()> {
        // `struct ifinfomsg`: one word for `ifi_family` and `ifi_type`, then `ifi_index`, `ifi_flags` and
        // `ifi_change`.
        let link = words([0, self.index(interface)?, 0, libc::IFF_MULTICAST as u32]);
        self.ask(libc::RTM_SETLINK, 0, &[link]).doing(|| format!("disabling multicast on {interface}"))
    }

    /// Sets the MTU of an interface.
    pub fn set_mtu(&mut self, interface: &str, mtu: u32) -> Result<()> {
        let link = link_header(self.index(interface)?, 0);
        self.ask(libc::RTM_SETLINK, 0, &[link, number(libc::IFLA_MTU, mtu)])
            .doing(|| format!("setting the MTU of {interface}"))
    }

    /// Waits until an interface can send, after it and its peer were brought up. Packets sent before that are
    /// dropped. Fails after about five seconds.
    pub fn wait_until_up(&mut self, interface: &str) -> Result<()> {
        let link = link_header(self.index(interface)?, 0);
        for _ in 0..CARRIER_TRIES {
            let answers = self.netlink.exchange(libc::RTM_GETLINK, 0, &[&link]);
            let is_up = answers.doing(|| format!("asking for {interface}"))?.iter().any(|answer| {
                let attributes = answer.payload.get(LINK_BYTES..).unwrap_or_default();
                payloads(attributes, libc::IFLA_OPERSTATE).any(|state| state == [libc::IF_OPER_UP as u8])
            });
            if is_up {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err(io::ErrorKind::TimedOut).doing(|| format!("waiting for {interface} to be ready"))
    }

    /// Makes every address of a network local to the namespace with one route of type `local`, instead of
    /// adding each address to an interface.
    pub fn add_local_network(&mut self, network: (IpAddr, u8)) -> Result<()> {
        let mut route = route_to(network, libc::RT_TABLE_LOCAL, libc::RT_SCOPE_HOST, libc::RTN_LOCAL);
        route.extend(number(libc::RTA_OIF, self.index("lo")?));
        self.ask(libc::RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &[route])
            .doing(|| format!("adding the local network {}/{}", network.0, network.1))
    }

    /// Adds an IP address to an interface.
    pub fn add_address(&mut self, interface: &str, address: IpAddr) -> Result<()> {
        let message = self.address(interface, address)?;
        self.ask(libc::RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &message)
            .doing(|| format!("adding {address} to {interface}"))
    }

    /// Removes an address from an interface.
    pub fn remove_address(&mut self, interface: &str, address: IpAddr) -> Result<()> {
        let message = self.address(interface, address)?;
        self.ask(libc::RTM_DELADDR, 0, &message).doing(|| format!("removing {address} from {interface}"))
    }

    /// Encodes an address of an interface: returns a `struct ifaddrmsg` and the attributes that follow it.
    fn address(&mut self, interface: &str, address: IpAddr) -> Result<Vec<Vec<u8>>> {
        let (family, octets) = family_and_octets(address);
        // `struct ifaddrmsg`: ifa_family, ifa_prefixlen, ifa_flags, ifa_scope, and then ifa_index.
        let mut header = vec![family, octets.len() as u8 * 8, 0, libc::RT_SCOPE_UNIVERSE];
        header.extend(self.index(interface)?.to_ne_bytes());
        let mut message = vec![header, attribute(libc::IFA_LOCAL, octets)];
        if address.is_ipv6() {
            // No other host has the address, so the kernel need not look for duplicates. Until the address
            // has its own route, a prefix route would send packets for the address out of the machine.
            message.push(number(libc::IFA_FLAGS, libc::IFA_F_NODAD | libc::IFA_F_NOPREFIXROUTE));
        }
        Ok(message)
    }

    /// If `silent` is true, makes the kernel drop all packets to a subnet of a local network without a reply.
    /// Otherwise makes it reply again. `part` is the subnet's address and prefix length.
    pub fn set_silent(&mut self, part: (IpAddr, u8), silent: bool) -> Result<()> {
        let (kind, flags) =
            if silent { (libc::RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE) } else { (libc::RTM_DELROUTE, 0) };
        let route = route_to(part, libc::RT_TABLE_LOCAL, libc::RT_SCOPE_UNIVERSE, libc::RTN_BLACKHOLE);
        self.ask(kind, flags, &[route]).doing(|| format!("silencing {}/{}", part.0, part.1))
    }

    /// Adds a route, or replaces the existing one to the same destination. Fails with EINVAL if the kernel
    /// lacks the congestion control algorithm.
    pub fn replace_route(&mut self, route: &Route) -> Result<()> {
        let mut message =
            route_to(route.destination, libc::RT_TABLE_MAIN, libc::RT_SCOPE_LINK, libc::RTN_UNICAST);
        message.extend(number(libc::RTA_OIF, self.index(route.interface)?));
        if let Some(source) = route.source {
            message.extend(attribute(libc::RTA_PREFSRC, family_and_octets(source).1));
        }
        let mut metrics = Vec::new();
        metrics.extend(route.initial_window.into_iter().flat_map(|window| number(RTAX_INITCWND, window)));
        metrics.extend(route.congestion_control.into_iter().flat_map(|name| text(RTAX_CC_ALGO, name)));
        if !metrics.is_empty() {
            message.extend(attribute(libc::RTA_METRICS, metrics));
        }
        self.ask(libc::RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &[message]).operation(|| {
            Operation::AddRoute {
                destination: route.destination,
                congestion_control: route.congestion_control.map(str::to_owned),
            }
        })
    }

    pub(crate) fn ask(&mut self, kind: u16, flags: u16, parts: &[impl AsRef<[u8]>]) -> io::Result<()> {
        self.netlink.exchange(kind, flags, parts).map(drop)
    }

    pub(crate) fn index(&mut self, interface: &str) -> Result<u32> {
        if let Some(index) = self.known.get(interface) {
            return Ok(*index);
        }
        let request = [link_header(0, 0), text(libc::IFLA_IFNAME, interface)];
        let answers = self.netlink.exchange(libc::RTM_GETLINK, 0, &request);
        let answers = answers.doing(|| format!("looking up the interface {interface}"))?;
        let link = answers.iter().find(|answer| answer.kind == libc::RTM_NEWLINK);
        let index = link.and_then(|link| word(&link.payload, LINK_INDEX)).ok_or(io::ErrorKind::InvalidData);
        let index = index.doing(|| format!("looking up the interface {interface}"))?;
        self.known.insert(interface.to_owned(), index);
        Ok(index)
    }
}

/// Returns a `struct ifinfomsg` for an interface number (0: no interface) with these flags.
fn link_header(index: u32, flags: u32) -> Vec<u8> {
    // One word for ifi_family and ifi_type, then ifi_index, ifi_flags and ifi_change.
    words([0, index, flags, flags])
}

/// Returns a `struct rtmsg` for a route to a network, and the attribute with the network's address. `table`,
/// `scope` and `kind` are constants `RT_TABLE_*`, `RT_SCOPE_*` and `RTN_*`.
fn route_to((network, length): (IpAddr, u8), table: u8, scope: u8, kind: u8) -> Vec<u8> {
    let (family, octets) = family_and_octets(network);
    // rtm_family, rtm_dst_len, rtm_src_len, rtm_tos, rtm_table, rtm_protocol, rtm_scope, rtm_type, rtm_flags
    let header = [family, length, 0, 0, table, libc::RTPROT_STATIC, scope, kind, 0, 0, 0, 0];
    [header.to_vec(), attribute(libc::RTA_DST, octets)].concat()
}

pub(crate) fn family_and_octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (libc::AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets().to_vec()),
    }
}

/// Offloads to turn off: they merge or split packets, or leave checksums to hardware that a veth lacks. Each
/// entry is an ethtool command (include/uapi/linux/ethtool.h) and the offload's name in error messages.
const OFFLOADS: [(u32, &str); 5] = [
    (0x0000_0017, "transmit checksums"),           // ETHTOOL_STXCSUM
    (0x0000_0019, "scatter and gather"),           // ETHTOOL_SSG
    (0x0000_001f, "TCP segmentation offload"),     // ETHTOOL_STSO
    (0x0000_0024, "generic segmentation offload"), // ETHTOOL_SGSO
    (0x0000_002c, "generic receive offload"),      // ETHTOOL_SGRO
];

/// Turns off segmentation, receive and checksum offloads of an interface, so that it carries packets as a
/// wire would. Fails if the kernel keeps an offload on; the error names the offload.
pub fn disable_offloads(interface: &str) -> Result<()> {
    #[repr(C)]
    struct EthtoolValue {
        command: u32,
        value: u32,
    }
    // `dev_ioctl` accepts any socket of the namespace.
    let socket = UnixDatagram::unbound().doing(|| "opening a socket".into())?;
    for (command, offload) in OFFLOADS {
        let mut value = EthtoolValue { command, value: 0 };
        // SAFETY: ifreq is plain data; the kernel reads and writes `value` during the call only.
        let done = unsafe {
            let mut request: libc::ifreq = mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(libc::IFNAMSIZ - 1)) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_data = (&raw mut value).cast();
            check(libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request))
        };
        done.doing(|| format!("turning off {offload} of {interface}"))?;
    }
    Ok(())
}
