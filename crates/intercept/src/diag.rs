//! What the kernel says of TCP sockets without anybody holding them: of each when it ends, and of all that live (`sock_diag`).
//!
//! Both are open to ordinary users. Keeping a duplicate of each socket instead would keep it from being closed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use fastopen_netns::tcp::TcpInfo;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NlasIterator};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use crate::descriptor;

/// `enum sknetlink_groups` and `SOCK_DIAG_BY_FAMILY` of `include/uapi/linux/sock_diag.h`.
const GROUPS: [u32; 2] = [1, 3];
const BY_FAMILY: u16 = 20;
/// `INET_DIAG_INFO` of `include/uapi/linux/inet_diag.h`.
const INFO: u16 = 2;
/// Of `struct inet_diag_msg` there: its length, and where the peer's port and the socket's cookie stand.
const MESSAGE: usize = 72;
const PEER_PORT: usize = 6;
const COOKIE: usize = 44;
/// `NLMSG_DONE` and `NLMSG_ERROR`.
const DONE: u16 = 3;
const ERROR: u16 = 2;

/// What the kernel said of a socket.
pub(crate) struct Word {
    /// `SO_COOKIE`.
    pub(crate) cookie: u64,
    pub(crate) fate: Fate,
}

/// What became of a connection.
pub(crate) enum Fate {
    Known(TcpInfo),
    /// It was never established, and what it sent is forgotten.
    Failed,
    /// It was established, but an abortive close (`SO_LINGER` 0) has wiped what it did; or its end was not told.
    Unknown,
}

/// Hears of every TCP socket that ends in this network namespace.
pub(crate) struct Ends {
    socket: Socket,
    buffer: Vec<u8>,
    /// Whether the kernel had more to say than there was room for.
    pub(crate) overrun: bool,
}

impl Ends {
    pub(crate) fn listen() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        // The kernel gives what it allows.
        let _ = socket.set_rx_buf_sz(4 << 20);
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        Ok(Self { socket, buffer: vec![0; 32 << 10], overrun: false })
    }

    /// The network namespace that is listened to.
    pub(crate) fn namespace(&self) -> u64 {
        descriptor::namespace(&self.socket)
    }

    /// The next socket that has ended, without waiting.
    pub(crate) fn next(&mut self) -> Option<Word> {
        loop {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => {
                    let message = NetlinkBuffer::new_checked(&self.buffer[..length]).ok();
                    if let Some(word) = message.and_then(|message| word(message.payload())) {
                        return Some(word);
                    }
                }
                Err(Errno::ENOBUFS) => self.overrun = true,
                Err(Errno::EINTR) => {}
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for Ends {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What the kernel says of all TCP sockets of this network namespace that have not ended.
pub(crate) fn living() -> io::Result<Vec<Word>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut words = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        socket.send(&request(family as u8), 0)?;
        while collect(&socket.recv_from_full()?.0, &mut words)? {}
    }
    Ok(words)
}

/// Reads one datagram of a dump; false: that was the last.
fn collect(datagram: &[u8], words: &mut Vec<Word>) -> io::Result<bool> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkBuffer::new_checked(rest).map_err(io::Error::other)?;
        match message.message_type() {
            DONE => return Ok(false),
            ERROR => return Err(io::Error::other("the kernel refuses to list TCP sockets")),
            _ => words.extend(word(message.payload())),
        }
        rest = &rest[(message.length() as usize).next_multiple_of(4).min(rest.len())..];
    }
    Ok(true)
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`: all TCP sockets of a family, with their `tcp_info`.
fn request(family: u8) -> [u8; 72] {
    let mut bytes = [0; 72];
    let mut header = NetlinkBuffer::new(&mut bytes);
    header.set_length(72);
    header.set_message_type(BY_FAMILY);
    header.set_flags(NLM_F_REQUEST | NLM_F_DUMP);
    bytes[16..19].copy_from_slice(&[family, libc::IPPROTO_TCP as u8, 1 << (INFO - 1)]);
    bytes[20..24].fill(0xff); // of whatever state
    bytes
}

/// Reads a `struct inet_diag_msg` and its attributes.
fn word(payload: &[u8]) -> Option<Word> {
    let (message, attributes) = payload.split_at_checked(MESSAGE)?;
    let cookie = u64::from_ne_bytes(message[COOKIE..COOKIE + 8].try_into().ok()?);
    let info =
        NlasIterator::new(attributes).filter_map(Result::ok).find(|attribute| attribute.kind() == INFO)?;
    let info = TcpInfo::from_bytes(info.value());
    // A connect that fails, and an abortive close, come by `tcp_disconnect` in net/ipv4/tcp.c, which forgets the peer's port together
    // with the counts.
    let wiped = info.segments_out == 0 && message[PEER_PORT..PEER_PORT + 2] == [0, 0];
    let fate = match (wiped, info.receive_space) {
        (false, _) => Fate::Known(info),
        (true, 0) => Fate::Failed,
        (true, _) => Fate::Unknown,
    };
    Some(Word { cookie, fate })
}

#[cfg(test)]
mod tests {
    use super::{Ends, Fate, TcpInfo, descriptor, living};
    use socket2::{Domain, SockRef, Socket, Type};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_living_connection_is_found_and_its_end_is_told_with_what_it_did() {
        let mut ends = Ends::listen().expect("anybody may");
        let listener = TcpListener::bind("[::1]:0").expect("loopback works");
        let stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let cookie = descriptor::cookie(&stream).expect("it is a socket");
        let living = living().expect("anybody may");
        let own = living.iter().find(|word| word.cookie == cookie).expect("it lives");
        assert!(matches!(own.fate, Fate::Known(TcpInfo { state: 1, .. })));
        drop((stream, listener.accept().expect("it connected")));
        let end = end_of(&mut ends, cookie);
        assert!(matches!(end, Fate::Known(info) if info.segments_out >= 2 && info.bytes_acked > 0));
    }

    #[test]
    fn a_refused_connection_is_told_from_one_that_was_established_and_aborted() {
        let mut ends = Ends::listen().expect("anybody may");
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("there are descriptors");
        let cookie = descriptor::cookie(&socket).expect("it is a socket");
        let nobody =
            TcpListener::bind("127.0.0.1:0").expect("loopback works").local_addr().expect("it is bound");
        assert!(socket.connect(&nobody.into()).is_err());
        drop(socket);
        assert!(matches!(end_of(&mut ends, cookie), Fate::Failed));

        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
        let stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let cookie = descriptor::cookie(&stream).expect("it is a socket");
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("it is a socket");
        drop(stream);
        assert!(matches!(end_of(&mut ends, cookie), Fate::Unknown));
    }

    /// Waits until the kernel tells that the socket has ended.
    fn end_of(ends: &mut Ends, cookie: u64) -> Fate {
        loop {
            fastopen_netns::poll::wait_readable(&[ends.as_fd()], None).expect("it can be waited for");
            while let Some(word) = ends.next() {
                if word.cookie == cookie {
                    return word.fate;
                }
            }
        }
    }
}
