//! Addresses of a world: one for each origin host, and one of the client's for each load.
//!
//! Both networks are of the block for benchmarks (RFC 2544, RFC 6890).

use std::net::Ipv4Addr;

pub use crate::contract::RESOLVER;

/// The network of client addresses, with its prefix length.
pub const CLIENT_NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 16);
/// The network of origin addresses, with its prefix length.
pub const ORIGIN_NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 19, 0, 0), 16);

/// Client addresses that loads and transactions may have are numbered below this: those above are cross
/// traffic's and a flood's.
pub const CLIENT_ADDRESSES: u16 = 64_000;

/// The client's address in its `number`th load (0 before the first), below 65,000.
pub fn client_address(number: u16) -> Ipv4Addr {
    numbered(CLIENT_NETWORK.0, number)
}

/// The address of the `number`th origin host, below 65,000.
pub fn origin_address(number: u16) -> Ipv4Addr {
    numbered(ORIGIN_NETWORK.0, number)
}

fn numbered(network: Ipv4Addr, number: u16) -> Ipv4Addr {
    let [one, two, ..] = network.octets();
    let [high, low] = (number + 1).to_be_bytes();
    Ipv4Addr::new(one, two, high, low)
}

/// The number of an origin from its address; None for other networks.
pub fn origin_number(address: [u8; 4]) -> Option<usize> {
    let [198, 19, high, low] = address else { return None };
    usize::from(u16::from_be_bytes([high, low])).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_known_by_its_address() {
        assert_eq!(origin_number(origin_address(0).octets()), Some(0));
        assert_eq!(origin_number(origin_address(300).octets()), Some(300));
        assert_eq!(origin_number(client_address(3).octets()), None);
    }
}
