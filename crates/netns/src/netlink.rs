//! Blocking netlink exchanges: a request, and its answers up to the acknowledgement or the end of the dump.

use std::fmt::Debug;
use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};

/// A netlink socket of the network namespace in which it was opened.
pub(crate) struct Netlink(Socket, Vec<u8>);

/// The kernel's datagrams are smaller: `NLMSG_GOODSIZE`, and 32 KiB at most in a dump.
const DATAGRAM_BYTES: usize = 1 << 16;

impl Netlink {
    /// Opens a socket of `protocol` in the calling thread's namespace.
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket, Vec::with_capacity(DATAGRAM_BYTES)))
    }

    /// Sends `request` and collects the answers. `flags` are added to `NLM_F_REQUEST` and `NLM_F_ACK`.
    pub(crate) fn exchange<M>(&mut self, request: M, flags: u16) -> io::Result<Vec<M>>
    where
        M: NetlinkSerializable + NetlinkDeserializable + Debug + Into<NetlinkPayload<M>>,
    {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut message = NetlinkMessage::new(header, request.into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;

        let mut answers = Vec::new();
        loop {
            self.1.clear();
            self.0.recv(&mut self.1, 0)?;
            let mut rest = self.1.as_slice();
            while !rest.is_empty() {
                let answer = NetlinkMessage::<M>::deserialize(rest).map_err(io::Error::other)?;
                rest = &rest[(answer.header.length as usize).next_multiple_of(4).min(rest.len())..];
                match answer.payload {
                    NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                    _ => {}
                }
            }
        }
    }
}
