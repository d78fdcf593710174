//! The Fast Open cookies of a network namespace: the kernel's `tcp_metrics` table by generic netlink.

use std::net::Ipv4Addr;

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, Nla, NlasIterator, Parseable, ParseableParametrized,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::protocols::NETLINK_GENERIC;

use crate::netlink::Netlink;
use crate::{Doing, Result};

/// `TCP_METRICS_CMD_GET` and attributes of `include/uapi/linux/tcp_metrics.h`.
const COMMAND_GET: u8 = 1;
const ATTRIBUTE_SERVER: u16 = 1;
const ATTRIBUTE_COOKIE: u16 = 10;
const ATTRIBUTE_CLIENT: u16 = 11;

/// The table of the network namespace in which it was opened.
pub struct Table {
    netlink: Netlink,
    family: u16,
}

impl Table {
    /// Opens the table of the calling thread's network namespace.
    ///
    /// # Errors
    /// Where the kernel has no `tcp_metrics` family.
    pub fn open() -> Result<Self> {
        let mut netlink =
            Netlink::open(NETLINK_GENERIC).doing(|| "opening a generic netlink socket".into())?;
        let family = family_id(&mut netlink)?;
        Ok(Self { netlink, family })
    }
    /// The Fast Open cookie (RFC 7413 section 4.1.1: 4 to 16 bytes) for connections from `client` to
    /// `server`, if any. One hash lookup in the kernel, not a dump.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn cookie(&mut self, client: Ipv4Addr, server: Ipv4Addr) -> Result<Option<Vec<u8>>> {
        let attribute = |kind, address: Ipv4Addr| DefaultNla::new(kind, address.octets().to_vec());
        let asked = vec![attribute(ATTRIBUTE_SERVER, server), attribute(ATTRIBUTE_CLIENT, client)];
        let mut request = GenlMessage::from_payload(Metrics(asked));
        request.set_resolved_family_id(self.family);
        match self.netlink.exchange(request, 0) {
            Ok(answers) => Ok(answers.into_iter().find_map(|answer| answer.payload.cookie())),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error).doing(|| format!("reading the tcp_metrics of {server} for {client}")),
        }
    }
}

fn family_id(netlink: &mut Netlink) -> Result<u16> {
    let request = GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![GenlCtrlAttrs::FamilyName(Metrics::family_name().to_owned())],
    };
    let answers = netlink
        .exchange(GenlMessage::from_payload(request), 0)
        .doing(|| "looking up the tcp_metrics family".into())?;
    answers
        .iter()
        .flat_map(|answer| &answer.payload.nlas)
        .find_map(|attribute| match attribute {
            GenlCtrlAttrs::FamilyId(id) => Some(*id),
            _ => None,
        })
        .ok_or_else(|| std::io::Error::other("the answer has no family number"))
        .doing(|| "looking up the tcp_metrics family".into())
}

/// One message of the family: its attributes, unparsed.
#[derive(Debug, Clone)]
struct Metrics(Vec<DefaultNla>);

impl Metrics {
    fn cookie(&self) -> Option<Vec<u8>> {
        let attribute = self.0.iter().find(|attribute| attribute.kind() == ATTRIBUTE_COOKIE)?;
        let mut bytes = vec![0; attribute.value_len()];
        attribute.emit_value(&mut bytes);
        Some(bytes)
    }
}

impl GenlFamily for Metrics {
    fn family_name() -> &'static str {
        "tcp_metrics"
    }

    fn command(&self) -> u8 {
        COMMAND_GET
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for Metrics {
    fn buffer_len(&self) -> usize {
        self.0.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.0.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Metrics {
    fn parse_with_param(buffer: &[u8], _: GenlHeader) -> std::result::Result<Self, DecodeError> {
        NlasIterator::new(buffer)
            .map(|nla| DefaultNla::parse(&nla?))
            .collect::<std::result::Result<_, _>>()
            .map(Self)
    }
}
