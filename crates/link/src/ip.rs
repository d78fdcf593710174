//! Reads and changes headers of IPv4 and IPv6 packets in place (RFC 791 section 3.1, RFC 8200 section 3). All
//! code of this crate that depends on the IP version is here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;

/// Protocol number of TCP (IANA).
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

/// Size of an IPv4 header without options.
const V4_HEADER: usize = 20;
/// Size of an IPv6 header without extensions.
const V6_HEADER: usize = 40;

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Version {
    V4,
    V6,
}

impl Version {
    /// Returns the IP version of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns the wildcard address. A socket bound to this address receives packets for every local address.
    pub fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// Returns the size in bytes of a header without options and extensions.
    pub fn header_bytes(self) -> u64 {
        match self {
            Self::V4 => V4_HEADER as u64,
            Self::V6 => V6_HEADER as u64,
        }
    }
}

/// The versions of IP in an emulated network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum Versions {
    /// Only IPv4.
    #[default]
    #[serde(rename = "4")]
    V4,
    /// Only IPv6.
    #[serde(rename = "6")]
    V6,
    /// Both: each host has an address of each version.
    #[serde(rename = "4+6")]
    Both,
}

impl Versions {
    /// Returns the network's IP versions in the order in which clients prefer them (RFC 6724 section 2.1).
    pub fn all(self) -> &'static [Version] {
        match self {
            Self::V4 => &[Version::V4],
            Self::V6 => &[Version::V6],
            Self::Both => &[Version::V6, Version::V4],
        }
    }

    /// Returns the IP version that clients prefer.
    pub fn preferred(self) -> Version {
        self.all()[0]
    }

    /// Returns the `EtherType` of frames with packets of these versions (`ETH_P_*` in Linux's
    /// `include/uapi/linux/if_ether.h`); for [`Self::Both`], `ETH_P_ALL`, which matches every type.
    pub fn ether_type(self) -> u16 {
        match self {
            Self::V4 => 0x0800,
            Self::V6 => 0x86dd,
            Self::Both => 0x0003,
        }
    }

    /// Returns true if the emulated network has this IP version.
    pub fn has(self, version: Version) -> bool {
        self.all().contains(&version)
    }
}

/// The addresses of a host: one of each version of IP in the emulated network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addresses {
    /// The address that clients prefer.
    pub preferred: IpAddr,
    /// The IPv4 address of a host that also has an IPv6 address; `None` if the host has only one address.
    pub other: Option<IpAddr>,
}

impl Addresses {
    /// Creates the addresses of a host: calls `address` for each version in `versions`.
    pub fn of(versions: Versions, address: impl Fn(Version) -> IpAddr) -> Self {
        let mut all = versions.all().iter().map(|version| address(*version));
        Self { preferred: all.next().expect("a world has a version of IP"), other: all.next() }
    }

    /// Returns an iterator over the addresses, the preferred one first.
    pub fn iter(self) -> impl Iterator<Item = IpAddr> + Clone {
        std::iter::once(self.preferred).chain(self.other)
    }

    /// Returns the host's address of this version; the preferred address if the host has none.
    pub fn select(self, version: Version) -> IpAddr {
        self.iter().find(|one| Version::of(*one) == version).unwrap_or(self.preferred)
    }
}

/// The fields of an IPv4 or IPv6 header that the link and its middleboxes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol number of the payload. If an IPv6 packet has extension headers, the number of the first one.
    pub protocol: u8,
    /// True for an IPv4 fragment, including the first one.
    pub fragment: bool,
    /// True for an IPv4 fragment other than the first, which therefore has no transport header.
    pub later_fragment: bool,
    /// Length of the header in bytes, which is the offset of the payload.
    pub bytes: usize,
}

impl Header {
    /// Parses the fixed header of a packet; `None` if it is incomplete or invalid, or neither IPv4 nor IPv6.
    pub fn of(ip: &[u8]) -> Option<Self> {
        match ip.first()? >> 4 {
            4 => {
                let header = ip.first_chunk::<V4_HEADER>()?;
                let fragment = u16::from_be_bytes([header[6], header[7]]);
                let bytes = usize::from(header[0] & 0x0f) * 4;
                (bytes >= V4_HEADER).then_some(Self {
                    source: IpAddr::from(*header[12..].first_chunk::<4>()?),
                    destination: IpAddr::from(*header[16..].first_chunk::<4>()?),
                    protocol: header[9],
                    fragment: fragment & 0x3fff != 0,
                    later_fragment: fragment & 0x1fff != 0,
                    bytes,
                })
            }
            6 => {
                let header = ip.first_chunk::<V6_HEADER>()?;
                Some(Self {
                    source: IpAddr::from(*header[8..].first_chunk::<16>()?),
                    destination: IpAddr::from(*header[24..].first_chunk::<16>()?),
                    protocol: header[6],
                    // A fragment has an extension header, so its protocol is not TCP or UDP.
                    fragment: false,
                    later_fragment: false,
                    bytes: V6_HEADER,
                })
            }
            _ => None,
        }
    }
}

/// Returns the packet length in the IP header, in bytes; `None` if it is missing or the packet is not IP.
pub fn length(ip: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(usize::from(u16::from_be_bytes(*ip.get(at..)?.first_chunk()?)));
    match ip.first()? >> 4 {
        4 => word(2),
        6 => Some(word(4)? + V6_HEADER),
        _ => None,
    }
}

/// Writes `ip.len()` into the header of the IP packet `ip`, and updates the checksum of an IPv4 header.
pub(crate) fn set_length(ip: &mut [u8]) {
    let length = ip.len() as u16;
    if ip[0] >> 4 == 6 {
        ip[4..6].copy_from_slice(&(length - V6_HEADER as u16).to_be_bytes());
        return;
    }
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip[10..12].fill(0);
    let header = usize::from(ip[0] & 0x0f) * 4;
    let sum = checksum(0, &ip[..header]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Swaps the source and destination address in the header of an IP packet. The header must be complete.
pub(crate) fn swap_addresses(ip: &mut [u8]) {
    let (start, bytes) = addresses(ip);
    let (source, destination) = ip[start..start + 2 * bytes].split_at_mut(bytes);
    source.swap_with_slice(destination);
}

/// Computes the TCP or UDP checksum (RFC 9293 section 3.1, RFC 768, RFC 8200 section 8.1) of the packet `ip`,
/// and writes it at offset `at`. The header of the transport `protocol` begins at offset `start`.
pub fn sum_transport(ip: &mut [u8], protocol: u8, start: usize, at: usize) {
    ip[at..at + 2].fill(0);
    let (first, bytes) = addresses(ip);
    let pseudo_header =
        u32::from(protocol) + (ip.len() - start) as u32 + words(&ip[first..first + 2 * bytes]);
    let sum = checksum(pseudo_header, &ip[start..]);
    ip[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Returns the source address's offset and the size of an address in bytes. The destination address follows.
fn addresses(ip: &[u8]) -> (usize, usize) {
    if ip[0] >> 4 == 6 { (8, 16) } else { (12, 4) }
}

/// Returns the Internet checksum (RFC 1071) over `bytes` and other 16-bit words, whose sum is `others`.
fn checksum(others: u32, bytes: &[u8]) -> u16 {
    let mut sum = others + words(bytes);
    while sum > 0xffff {
        // Add the carries (ones' complement).
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

/// Returns the sum of the 16-bit words of `bytes`, padded with a zero byte if `bytes` has an odd length.
fn words(bytes: &[u8]) -> u32 {
    // The compiler vectorises loops over chunks of constant length.
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |&byte| u32::from(byte) << 8);
    last + words.map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>()
}
