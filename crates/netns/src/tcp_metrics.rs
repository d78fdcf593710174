//! Reads a network namespace's Fast Open cookies from the kernel's `tcp_metrics` table (generic netlink).

use std::net::IpAddr;

use netlink_sys::protocols::NETLINK_GENERIC;

use crate::netlink::{Answer, Netlink, attribute, payloads, text};
use crate::route::family_and_octets;
use crate::{Doing, Result};

// `TCP_METRICS_CMD_GET` and attributes of `include/uapi/linux/tcp_metrics.h`.
const COMMAND_GET: u8 = 1;
const ATTRIBUTE_SERVER_V4: u16 = 1;
const ATTRIBUTE_SERVER_V6: u16 = 2;
const ATTRIBUTE_COOKIE: u16 = 10;
const ATTRIBUTE_CLIENT_V4: u16 = 11;
const ATTRIBUTE_CLIENT_V6: u16 = 12;
/// Version of the kernel's `tcp_metrics` messages: `TCP_METRICS_GENL_VERSION` of `linux/tcp_metrics.h`.
const VERSION: u8 = 1;
/// Size of a generic netlink header in bytes: `GENL_HDRLEN` of `include/uapi/linux/genetlink.h`.
const HEADER_BYTES: usize = 4;

/// The `tcp_metrics` table of a network namespace, in which the kernel stores cookies, keyed by addresses.
pub struct Table {
    netlink: Netlink,
    family: u16,
}

impl Table {
    /// Opens the table of the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        let mut netlink =
            Netlink::open(NETLINK_GENERIC).doing(|| "opening a generic netlink socket".into())?;
        let family = family_id(&mut netlink)?;
        Ok(Self { netlink, family })
    }

    /// Returns the Fast Open cookie (RFC 7413 section 4.1.1: 4 to 16 bytes) for connections from `client` to
    /// `server`; None if the kernel has no cookie. Requests only this entry, not the whole table.
    pub fn cookie(&mut self, client: IpAddr, server: IpAddr) -> Result<Option<Vec<u8>>> {
        let request = [
            header(COMMAND_GET),
            address(server, ATTRIBUTE_SERVER_V4, ATTRIBUTE_SERVER_V6),
            address(client, ATTRIBUTE_CLIENT_V4, ATTRIBUTE_CLIENT_V6),
        ];
        match self.netlink.exchange(self.family, 0, &request) {
            Ok(answers) => {
                let cookie = answers.iter().find_map(|answer| attribute_of(answer, ATTRIBUTE_COOKIE));
                Ok(cookie.map(<[u8]>::to_vec))
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error).doing(|| format!("reading the tcp_metrics of {server} for {client}")),
        }
    }
}

/// Returns the number of the generic netlink family `tcp_metrics`, which the kernel assigns at boot.
fn family_id(netlink: &mut Netlink) -> Result<u16> {
    let name = text(libc::CTRL_ATTR_FAMILY_NAME as u16, "tcp_metrics");
    let request = [header(libc::CTRL_CMD_GETFAMILY as u8), name];
    let doing = || "looking up the tcp_metrics family".into();
    let answers = netlink.exchange(libc::GENL_ID_CTRL as u16, 0, &request).doing(doing)?;
    let id = answers.iter().find_map(|answer| {
        let id = attribute_of(answer, libc::CTRL_ATTR_FAMILY_ID as u16)?;
        Some(u16::from_ne_bytes(*id.first_chunk()?))
    });
    id.ok_or_else(|| std::io::Error::other("the answer has no family number")).doing(doing)
}

fn attribute_of(answer: &Answer, kind: u16) -> Option<&[u8]> {
    payloads(answer.payload.get(HEADER_BYTES..)?, kind).next()
}

/// Returns a netlink attribute with an address, of type `v4` or `v6`.
fn address(address: IpAddr, v4: u16, v6: u16) -> Vec<u8> {
    attribute(if address.is_ipv4() { v4 } else { v6 }, family_and_octets(address).1)
}

/// Returns the header (`struct genlmsghdr`) of a message to `tcp_metrics` or the generic netlink controller.
fn header(command: u8) -> Vec<u8> {
    vec![command, VERSION, 0, 0]
}
