//! Interfaces, addresses and routes of a network namespace (rtnetlink), and the offloads of an interface
//! (ethtool).

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
    RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::netlink::Netlink;
use crate::{Doing, Operation, Result, check};

/// How often to look whether an interface is ready, a millisecond apart.
const CARRIER_TRIES: usize = 5000;

/// One end of a veth pair that is to be made.
pub struct VethEnd<'a> {
    /// Interface name, at most 15 characters.
    pub name: &'a str,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// The namespace that the end is born into.
    pub namespace: &'a crate::namespace::NetNs,
}

/// A route to `destination` through an interface.
pub struct Route<'a> {
    /// Network and prefix length.
    pub destination: (Ipv4Addr, u8),
    /// Interface to send through.
    pub interface: &'a str,
    /// Source address of connections that name none.
    pub source: Option<Ipv4Addr>,
    /// Congestion control of connections over the route. A namespace's own sysctl refuses what the machine
    /// does not allow to everybody; a route's does not.
    pub congestion_control: Option<&'a str>,
    /// Initial congestion window in segments.
    pub initial_window: Option<u32>,
}

/// The routing socket of one namespace, whichever thread uses it from where.
pub struct RouteSocket {
    netlink: Netlink,
    /// The kernel's numbers of interfaces that it was asked for.
    known: BTreeMap<String, u32>,
}

impl RouteSocket {
    /// Opens it in the calling thread's namespace.
    ///
    /// # Errors
    /// Where the kernel has no rtnetlink.
    pub fn open() -> Result<Self> {
        let netlink = Netlink::open(NETLINK_ROUTE).doing(|| "opening a routing socket".into())?;
        Ok(Self { netlink, known: BTreeMap::new() })
    }

    /// Makes a veth pair, each end in its namespace, both down.
    ///
    /// # Errors
    /// Where the kernel has no veth or the name is taken.
    pub fn add_veth(&mut self, one: &VethEnd, other: &VethEnd, mtu: u32) -> Result<()> {
        let end = |end: &VethEnd| {
            vec![
                LinkAttribute::IfName(end.name.to_owned()),
                LinkAttribute::Address(end.mac.to_vec()),
                LinkAttribute::Mtu(mtu),
                LinkAttribute::NetNsFd(end.namespace.as_fd().as_raw_fd()),
            ]
        };
        let mut peer = LinkMessage::default();
        peer.attributes = end(other);
        let mut link = LinkMessage::default();
        link.attributes = end(one);
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.ask(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
            .doing(|| format!("making the veth pair {} and {}", one.name, other.name))
    }

    /// Brings an interface up, without address resolution.
    ///
    /// # Errors
    /// Where there is no such interface.
    pub fn bring_up(&mut self, interface: &str) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = self.index(interface)?;
        link.header.flags = LinkFlags::Up | LinkFlags::Noarp;
        link.header.change_mask = LinkFlags::Up | LinkFlags::Noarp;
        self.ask(RouteNetlinkMessage::SetLink(link), 0).doing(|| format!("bringing {interface} up"))
    }

    /// Sets the largest packet that an interface takes.
    ///
    /// # Errors
    /// Where there is no such interface, or it takes none of that size.
    pub fn set_mtu(&mut self, interface: &str, mtu: u32) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = self.index(interface)?;
        link.attributes.push(LinkAttribute::Mtu(mtu));
        self.ask(RouteNetlinkMessage::SetLink(link), 0).doing(|| format!("setting the MTU of {interface}"))
    }

    /// Waits until an interface that was brought up, as its other end was, sends packets: before that the
    /// kernel drops them.
    ///
    /// # Errors
    /// Where there is no such interface, or it does not become ready within seconds.
    pub fn wait_until_up(&mut self, interface: &str) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = self.index(interface)?;
        let up = LinkAttribute::OperState(State::Up);
        for _ in 0..CARRIER_TRIES {
            let answers = self.exchange(RouteNetlinkMessage::GetLink(link.clone()), 0);
            let is_up = answers.doing(|| format!("asking for {interface}"))?.iter().any(|answer| {
                matches!(answer, RouteNetlinkMessage::NewLink(state) if state.attributes.contains(&up))
            });
            if is_up {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err(io::Error::from(io::ErrorKind::TimedOut)).doing(|| format!("waiting for {interface} to be ready"))
    }

    /// Takes an interface (and with it a veth's other end) away.
    ///
    /// # Errors
    /// Where there is no such interface.
    pub fn delete(&mut self, interface: &str) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = self.index(interface)?;
        self.known.remove(interface);
        self.ask(RouteNetlinkMessage::DelLink(link), 0).doing(|| format!("deleting {interface}"))
    }

    /// Makes every address of a network local to the namespace, without configuring each (a route of type
    /// `local`).
    ///
    /// # Errors
    /// Where loopback is missing.
    pub fn add_local_network(&mut self, network: (Ipv4Addr, u8)) -> Result<()> {
        let mut route = route_to(network, self.index("lo")?);
        route.header.table = 255;
        route.header.scope = RouteScope::Host;
        route.header.kind = RouteType::Local;
        self.ask(RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_REPLACE)
            .doing(|| format!("adding the local network {}/{}", network.0, network.1))
    }

    /// Has whatever comes for a part of a local network vanish without an answer, or no longer.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn set_silent(&mut self, part: (Ipv4Addr, u8), silent: bool) -> Result<()> {
        let mut route = route_to(part, 0);
        route.attributes.truncate(1);
        route.header.table = 255;
        route.header.scope = RouteScope::Universe;
        route.header.kind = RouteType::BlackHole;
        let done = if silent {
            self.ask(RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_REPLACE)
        } else {
            self.ask(RouteNetlinkMessage::DelRoute(route), 0)
        };
        done.doing(|| format!("silencing {}/{}", part.0, part.1))
    }

    /// Adds a route, or replaces the one to the same destination.
    ///
    /// # Errors
    /// EINVAL where the kernel lacks the congestion control.
    pub fn replace_route(&mut self, route: &Route) -> Result<()> {
        let mut message = route_to(route.destination, self.index(route.interface)?);
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.scope = RouteScope::Link;
        message.header.kind = RouteType::Unicast;
        if let Some(source) = route.source {
            message.attributes.push(RouteAttribute::PrefSource(RouteAddress::Inet(source)));
        }
        let mut metrics = Vec::new();
        metrics.extend(route.initial_window.map(RouteMetric::InitCwnd));
        metrics.extend(route.congestion_control.map(|name| RouteMetric::CcAlgo(name.to_owned())));
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.ask(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE).operation(|| {
            Operation::AddRoute {
                destination: route.destination,
                congestion_control: route.congestion_control.map(str::to_owned),
            }
        })
    }

    pub(crate) fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.exchange(message, flags).map(drop)
    }

    pub(crate) fn exchange(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.netlink.exchange(message, flags)
    }

    /// The kernel's number of an interface of this namespace.
    pub(crate) fn index(&mut self, interface: &str) -> Result<u32> {
        if let Some(index) = self.known.get(interface) {
            return Ok(*index);
        }
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(interface.to_owned()));
        let answers = self.exchange(RouteNetlinkMessage::GetLink(link), 0);
        let answers = answers.doing(|| format!("looking up the interface {interface}"))?;
        let index = answers.iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link.header.index),
            _ => None,
        });
        let index = index.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData));
        let index = index.doing(|| format!("looking up the interface {interface}"))?;
        self.known.insert(interface.to_owned(), index);
        Ok(index)
    }
}

fn route_to((network, length): (Ipv4Addr, u8), interface: u32) -> RouteMessage {
    let mut route = RouteMessage::default();
    route.header.address_family = AddressFamily::Inet;
    route.header.destination_prefix_length = length;
    route.header.protocol = RouteProtocol::Static;
    route.attributes =
        vec![RouteAttribute::Destination(RouteAddress::Inet(network)), RouteAttribute::Oif(interface)];
    route
}

/// The kernel's number of an interface of the calling thread's namespace.
///
/// # Errors
/// Where there is no such interface.
pub fn interface_index(name: &str) -> Result<u32> {
    nix::net::if_::if_nametoindex(name).doing(|| format!("looking up the interface {name}"))
}

/// The offloads that merge or split packets, or leave checksums to a card that is not there: commands of
/// include/uapi/linux/ethtool.h, with names for errors.
const OFFLOADS: [(u32, &str); 5] = [
    (0x0000_0017, "transmit checksums"),           // ETHTOOL_STXCSUM
    (0x0000_0019, "scatter and gather"),           // ETHTOOL_SSG
    (0x0000_001f, "TCP segmentation offload"),     // ETHTOOL_STSO
    (0x0000_0024, "generic segmentation offload"), // ETHTOOL_SGSO
    (0x0000_002c, "generic receive offload"),      // ETHTOOL_SGRO
];

/// Turns off every offload that merges or splits packets, so that what crosses the link is what a wire would
/// carry.
///
/// # Errors
/// Names the offload that the kernel does not let go.
pub fn disable_offloads(interface: &str) -> Result<()> {
    #[repr(C)]
    struct EthtoolValue {
        command: u32,
        value: u32,
    }
    // Any socket of the namespace will do (`dev_ioctl`).
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
