//! Assigns addresses in the emulated network: one to each origin host, and one to the client for each load.
//!
//! The networks belong to the address blocks reserved for benchmarks: `198.18.0.0/15` (RFC 2544) and
//! `2001:2::/48` (RFC 5180, with its erratum 1752).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastopen_link::ip::{Addresses, Version, Versions};

pub use crate::contract::resolver_address;

/// The first address of a network, and the length of the network's prefix in bits.
pub type Prefix = (IpAddr, u8);

/// Number of client addresses for loads and transactions. Cross traffic and floods use higher numbers.
pub const CLIENT_ADDRESSES: u16 = 64_000;

pub const fn client_network(ip: Version) -> Prefix {
    match ip {
        Version::V4 => (IpAddr::V4(Ipv4Addr::new(198, 18, 0, 0)), 16),
        Version::V6 => (IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0x18, 0, 0, 0, 0)), 64),
    }
}

pub const fn origin_network(ip: Version) -> Prefix {
    match ip {
        Version::V4 => (IpAddr::V4(Ipv4Addr::new(198, 19, 0, 0)), 16),
        Version::V6 => (IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0x19, 0, 0, 0, 0)), 64),
    }
}

/// Returns the client's address with this number. The client has address 0 before the first load, and address
/// n in load n, counted from 1. Transactions use the numbers after those, below [`CLIENT_ADDRESSES`].
pub fn client_address(ip: Version, number: u16) -> IpAddr {
    numbered(client_network(ip), number)
}

/// Returns the client's addresses with this number, one for each version of IP in `ip`.
pub fn client_addresses(ip: Versions, number: u16) -> Addresses {
    Addresses::of(ip, |version| client_address(version, number))
}

pub fn origin_addresses(ip: Versions, number: u16) -> Addresses {
    Addresses::of(ip, |version| origin_address(version, number))
}

/// Returns the address of the origin host with this number, which must be below 65,000.
pub fn origin_address(ip: Version, number: u16) -> IpAddr {
    numbered(origin_network(ip), number)
}

fn numbered((network, _): Prefix, number: u16) -> IpAddr {
    match network {
        IpAddr::V4(network) => Ipv4Addr::from_bits(network.to_bits() + u32::from(number) + 1).into(),
        IpAddr::V6(network) => Ipv6Addr::from_bits(network.to_bits() + u128::from(number) + 1).into(),
    }
}

/// Returns the number of the origin host with this address; None if the address belongs to another network.
pub fn origin_number(address: IpAddr) -> Option<usize> {
    let place = match (address, origin_network(Version::of(address)).0) {
        (IpAddr::V4(address), IpAddr::V4(network)) => (address.to_bits() ^ network.to_bits()).into(),
        (IpAddr::V6(address), IpAddr::V6(network)) => address.to_bits() ^ network.to_bits(),
        _ => return None,
    };
    usize::from(u16::try_from(place).ok()?).checked_sub(1)
}

#[cfg(test)]
#[path = "../../tests/unit/addresses.rs"]
mod tests;
