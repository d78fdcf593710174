//! Sends netlink requests and collects the answers, for `route`, `qdisc`, `sock_diag` and `tcp_metrics`.
//!
//! A message is a family's header followed by attributes. Messages are built and parsed here, because the
//! project uses only a few kinds (docs/decisions/dependencies.md).

use std::io;

use netlink_packet_core::{
    DefaultNla, Emitable, NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
    NlasIterator,
};
use netlink_sys::{Socket, SocketAddr};

/// A netlink socket of the network namespace in which it was opened, and its receive buffer.
pub(crate) struct Netlink(Socket, Vec<u8>);

/// Size of the receive buffer. The kernel's datagrams are smaller: `NLMSG_GOODSIZE`, or 32 KiB in a dump.
const DATAGRAM_BYTES: usize = 1 << 16;
/// Size of a netlink header in bytes: `NLMSG_HDRLEN` of `include/uapi/linux/netlink.h`.
const HEADER_BYTES: usize = 16;

pub(crate) struct Answer {
    /// Type of the message (`nlmsg_type`).
    pub(crate) kind: u16,
    /// Data after `struct nlmsghdr`: the family's header and attributes.
    pub(crate) payload: Vec<u8>,
}

impl Netlink {
    /// Opens a socket of a netlink protocol (`NETLINK_*`) in the calling thread's namespace.
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket, Vec::with_capacity(DATAGRAM_BYTES)))
    }

    /// Sends a request of message type `kind` with `parts` as payload, and returns the kernel's answers.
    pub(crate) fn exchange(
        &mut self,
        kind: u16,
        flags: u16,
        parts: &[impl AsRef<[u8]>],
    ) -> io::Result<Vec<Answer>> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend(parts.iter().flat_map(AsRef::as_ref));
        let length = bytes.len() as u32;
        let mut header = NetlinkBuffer::new(&mut bytes);
        header.set_length(length);
        header.set_message_type(kind);
        header.set_flags(NLM_F_REQUEST | NLM_F_ACK | flags);
        self.0.send(&bytes, 0)?;

        let mut answers = Vec::new();
        loop {
            self.1.clear();
            self.0.recv(&mut self.1, 0)?;
            let mut rest = self.1.as_slice();
            while !rest.is_empty() {
                let answer = NetlinkBuffer::new_checked(rest).map_err(io::Error::other)?;
                rest = &rest[(answer.length() as usize).next_multiple_of(4).min(rest.len())..];
                let payload = answer.payload();
                match (answer.message_type(), word(payload, 0).map(|error| error as i32)) {
                    // `struct nlmsgerr`: a negated errno, or 0 for an acknowledgement.
                    (NLMSG_ERROR, Some(error)) if error != 0 => {
                        return Err(io::Error::from_raw_os_error(error.saturating_neg()));
                    }
                    (NLMSG_ERROR | NLMSG_DONE, _) => return Ok(answers),
                    (kind, _) => answers.push(Answer { kind, payload: payload.to_vec() }),
                }
            }
        }
    }
}

/// Encodes a netlink attribute of type `kind` (`struct nlattr`), with its padding.
pub(crate) fn attribute(kind: u16, payload: impl Into<Vec<u8>>) -> Vec<u8> {
    let attribute = DefaultNla::new(kind, payload.into());
    let mut bytes = vec![0; attribute.buffer_len()];
    attribute.emit(&mut bytes);
    bytes
}

/// Encodes a netlink attribute of type `kind` that contains `text` as a C string.
pub(crate) fn text(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, [text.as_bytes(), &[0]].concat())
}

/// Encodes a netlink attribute of type `kind` that contains a 32-bit number.
pub(crate) fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, value.to_ne_bytes())
}

pub(crate) fn words(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// Returns the payloads of the attributes of type `kind` in `bytes`, up to the first invalid attribute.
pub(crate) fn payloads(bytes: &[u8], kind: u16) -> impl Iterator<Item = &[u8]> {
    let attributes = NlasIterator::new(bytes).map_while(Result::ok);
    attributes.filter(move |attribute| attribute.kind() == kind).filter_map(|attribute| {
        let length = attribute.length() as usize;
        attribute.into_inner().get(NLA_HEADER_SIZE..length)
    })
}

pub(crate) fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}
