//! Datagram sockets with the kernel's receive timestamps, and sockets that handle many datagrams at once.

use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::check;
use crate::system_calls::{Answer, after_wait, defer, make_deferred};

/// A datagram socket with receive timestamps.
pub struct StampedSocket(UdpSocket);

impl StampedSocket {
    /// Enables timestamps (`SO_TIMESTAMPNS`).
    ///
    /// # Errors
    /// Errors of `setsockopt`.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        Ok(Self(socket))
    }

    /// Receives one datagram. Returns its length and its timestamp, in nanoseconds since 1970.
    ///
    /// # Errors
    /// Errors of `recvmsg`, or if a datagram has no timestamp.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, u64)> {
        let mut control = nix::cmsg_space!(TimeSpec);
        let mut slices = [IoSliceMut::new(buffer)];
        let message = recvmsg::<()>(self.0.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::empty())?;
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(time) => {
                Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
            }
            _ => None,
        });
        Ok((message.bytes, stamp.ok_or_else(|| io::Error::other("the kernel gave no time stamp"))?))
    }
}

/// Maximum number of received datagrams in one call.
const RECEIVE_BATCH: usize = 16;
/// Maximum number of sent datagrams in one call.
pub const SEND_BATCH: usize = 64;

/// Space for the control messages of a datagram, ECN codepoint and address of this machine, aligned as
/// `cmsghdr`.
type Control = [u64; 8];

/// The kernel's information about a received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// Length of the datagram.
    pub length: usize,
    /// Sender of the datagram.
    pub peer: SocketAddr,
    /// Destination address on this machine, if the socket requests it.
    pub own: Option<IpAddr>,
    /// ECN codepoint of the datagram (RFC 3168).
    pub ecn: u8,
}

impl Default for Received {
    fn default() -> Self {
        Self { length: 0, peer: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), own: None, ecn: 0 }
    }
}

/// The addresses and ECN codepoint of a datagram to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// Destination; None for a connected socket.
    pub peer: Option<SocketAddr>,
    /// Source address on this machine; None for the default of the route or connection.
    pub own: Option<IpAddr>,
    /// ECN codepoint.
    pub ecn: u8,
}

/// Numbers in which a socket's options and control messages differ between the versions of IP
/// (`include/uapi/linux/in.h`, `in6.h`).
struct FamilyOptions {
    level: libc::c_int,
    /// Options against fragmentation, and their values.
    no_fragments: &'static [(libc::c_int, libc::c_int)],
    receive_ecn: libc::c_int,
    receive_own: libc::c_int,
    /// Control message with the byte of the ECN codepoint.
    ecn: libc::c_int,
    /// Control message with an address of this machine.
    own: libc::c_int,
}

const V4_OPTIONS: FamilyOptions = FamilyOptions {
    level: libc::IPPROTO_IP,
    no_fragments: &[(libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)],
    receive_ecn: libc::IP_RECVTOS,
    receive_own: libc::IP_PKTINFO,
    ecn: libc::IP_TOS,
    own: libc::IP_PKTINFO,
};

const V6_OPTIONS: FamilyOptions = FamilyOptions {
    level: libc::IPPROTO_IPV6,
    no_fragments: &[(libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE), (libc::IPV6_DONTFRAG, 1)],
    receive_ecn: libc::IPV6_RECVTCLASS,
    receive_own: libc::IPV6_RECVPKTINFO,
    ecn: libc::IPV6_TCLASS,
    own: libc::IPV6_PKTINFO,
};

/// A UDP socket of a tokio runtime, without fragmentation, that sends and receives many datagrams in one
/// system call.
#[derive(Debug)]
pub struct BatchSocket {
    /// Registered only for readiness to receive. Otherwise epoll would report room to send after each
    /// datagram.
    socket: AsyncFd<UdpSocket>,
    local: SocketAddr,
}

impl BatchSocket {
    /// Binds a socket to `local` (port 0: the kernel's choice), and connects it to `peer`. Without a peer the
    /// socket reports the address of each datagram. The kernel buffers `buffer_bytes`, or the maximum of
    /// `net.core.rmem_max`. Call it inside the runtime.
    ///
    /// # Errors
    /// Errors of `bind`, `connect` and `setsockopt`.
    pub fn bind(local: SocketAddr, peer: Option<SocketAddr>, buffer_bytes: usize) -> io::Result<Self> {
        let socket = UdpSocket::bind(local)?;
        socket.set_nonblocking(true)?;
        // SO_RCVBUFFORCE works for the machine's root, as in a virtual engine.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &buffer_bytes)
            .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &buffer_bytes));
        let _ = setsockopt(&socket, sockopt::SndBuf, &buffer_bytes);
        let options = if local.is_ipv4() { &V4_OPTIONS } else { &V6_OPTIONS };
        let set = |name, value: libc::c_int| crate::socket::set(&socket, options.level, name, &value);
        set(options.receive_ecn, 1)?;
        for (name, value) in options.no_fragments {
            set(*name, *value)?;
        }
        match peer {
            Some(peer) => socket.connect(peer)?,
            None => set(options.receive_own, 1)?,
        }
        let local = socket.local_addr()?;
        // SAFETY: the AsyncFd owns the socket, whose descriptor stays open and unchanged while it lives.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
        Ok(Self { socket: socket.map_err(io::Error::from)?, local })
    }

    /// Returns the local address and port.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Receives waiting datagrams, one in each buffer and at most the length of `received`. Returns their
    /// number.
    ///
    /// # Errors
    /// If the runtime has ended.
    pub fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut],
        received: &mut [Received],
    ) -> Poll<io::Result<usize>> {
        loop {
            let ready = self.socket.poll_read_ready(context)?;
            if let Some((count, emptied)) = self.take_prefetched(buffers, received) {
                if let (true, Poll::Ready(mut ready)) = (emptied, ready) {
                    ready.clear_ready();
                }
                return Poll::Ready(Ok(count));
            }
            let Poll::Ready(mut ready) = ready else {
                PREFETCHED
                    .with_borrow_mut(|prefetched| prefetched.expect(self.descriptor(), context.waker()));
                return Poll::Pending;
            };
            match self.receive(buffers, received) {
                Ok((count, emptied)) => {
                    if emptied {
                        // epoll reports later datagrams, so no call has to return EAGAIN.
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                // Errors of earlier datagrams (ICMP), which this call clears.
                Err(_) => {}
            }
        }
    }

    /// Receives waiting datagrams. Returns their number, and true if no more were waiting.
    fn receive(&self, buffers: &mut [IoSliceMut], received: &mut [Received]) -> io::Result<(usize, bool)> {
        let most = buffers.len().min(received.len()).min(RECEIVE_BATCH);
        let mut arrivals = Arrivals::zeroed();
        for (number, buffer) in buffers.iter_mut().take(most).enumerate() {
            arrivals.vectors[number] = vector(buffer);
        }
        let [fd, messages, count, flags] = arrivals.arguments(self.descriptor(), most);
        // SAFETY: the arguments point to `arrivals` and to the buffers, which live until the call ends.
        let count = check(unsafe {
            libc::recvmmsg(fd as _, messages as *mut _, count as _, flags as _, ptr::null_mut())
        })? as usize;
        for (number, received) in received.iter_mut().take(count).enumerate() {
            *received = arrivals.received(number);
        }
        PREFETCHED.with_borrow_mut(|prefetched| prefetched.follow(self.descriptor()));
        Ok((count, count < most))
    }

    /// Takes the datagrams received together with the last wait. Returns their number, and true if no more
    /// were waiting.
    fn take_prefetched(
        &self,
        buffers: &mut [IoSliceMut],
        received: &mut [Received],
    ) -> Option<(usize, bool)> {
        PREFETCHED.with_borrow_mut(|prefetched| {
            if prefetched.descriptor != self.descriptor() || prefetched.left.is_empty() {
                return None;
            }
            let mut count = 0;
            for ((buffer, received), number) in buffers.iter_mut().zip(received).zip(prefetched.left.clone())
            {
                *received = prefetched.arrivals.received(number);
                received.length = received.length.min(buffer.len());
                buffer[..received.length].copy_from_slice(&prefetched.buffers[number][..received.length]);
                count += 1;
            }
            prefetched.left.start += count;
            Some((count, prefetched.left.is_empty() && prefetched.left.end < RECEIVE_BATCH))
        })
    }

    fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Drop for BatchSocket {
    fn drop(&mut self) {
        let _ = PREFETCHED.try_with(|prefetched| {
            let Ok(mut prefetched) = prefetched.try_borrow_mut() else { return };
            if prefetched.descriptor == self.descriptor() {
                prefetched.left = 0..0;
                prefetched.follow(NO_DESCRIPTOR);
            }
        });
    }
}

/// Descriptor that belongs to no socket.
const NO_DESCRIPTOR: RawFd = -1;
/// Space for a datagram received together with a wait, in bytes, more than an MTU of 1500 admits.
const PREFETCH_BYTES: usize = 2048;

thread_local! {
    static PREFETCHED: RefCell<Box<Prefetched>> = RefCell::new(Box::new(Prefetched::new()));
}

/// Datagrams received together with a wait of the thread, for the socket that received last.
struct Prefetched {
    descriptor: RawFd,
    /// Waker of the task that waits for the socket.
    waker: Option<Waker>,
    answer: Answer,
    arrivals: Arrivals,
    buffers: Vec<[u8; PREFETCH_BYTES]>,
    /// Datagrams that were not taken yet.
    left: Range<usize>,
}

impl Prefetched {
    fn new() -> Self {
        Self {
            descriptor: NO_DESCRIPTOR,
            waker: None,
            answer: Answer::default(),
            arrivals: Arrivals::zeroed(),
            buffers: vec![[0; PREFETCH_BYTES]; RECEIVE_BATCH],
            left: 0..0,
        }
    }

    /// Makes later waits receive for this socket, unless another one's datagrams were not taken yet.
    fn follow(&mut self, descriptor: RawFd) {
        if self.descriptor != descriptor && self.left.is_empty() {
            (self.descriptor, self.waker) = (descriptor, None);
        }
    }

    /// Registers a task that waits for the socket.
    fn expect(&mut self, descriptor: RawFd, waker: &Waker) {
        if self.descriptor == descriptor {
            self.waker = Some(waker.clone());
        }
    }
}

/// Prepares the thread's next wait: the socket that received last also receives during it, if a task waits
/// for it and the kernel accepts several system calls at once.
pub fn receive_after_wait() {
    PREFETCHED.with_borrow_mut(|prefetched| {
        if prefetched.waker.is_none() || !prefetched.left.is_empty() {
            return;
        }
        let Prefetched { descriptor, arrivals, buffers, answer, .. } = &mut **prefetched;
        arrivals.names = Arrivals::zeroed().names;
        for (number, buffer) in buffers.iter_mut().enumerate() {
            arrivals.vectors[number] = vector(buffer);
        }
        let [fd, messages, count, flags] = arrivals.arguments(*descriptor, RECEIVE_BATCH);
        answer.set(None);
        // SAFETY: all data is in the thread's box, which nothing moves or reads before the thread has waited.
        unsafe { after_wait(libc::SYS_recvmmsg, [fd, messages, count, flags, 0, 0], answer) };
    });
}

/// Wakes the task whose datagrams were received during the thread's wait.
pub fn wake_receiver() {
    let waker = PREFETCHED.with_borrow_mut(|prefetched| {
        let count = prefetched.answer.take().filter(|count| *count > 0)?;
        prefetched.left = 0..count as usize;
        prefetched.waker.take()
    });
    waker.into_iter().for_each(Waker::wake);
}

/// The messages of a `recvmmsg` and the data that they point to, except for the bytes.
struct Arrivals {
    names: [Name; RECEIVE_BATCH],
    controls: [Control; RECEIVE_BATCH],
    vectors: [libc::iovec; RECEIVE_BATCH],
    messages: [libc::mmsghdr; RECEIVE_BATCH],
}

impl Arrivals {
    fn zeroed() -> Self {
        // SAFETY: all of these are valid if all their bytes are zero.
        unsafe { mem::zeroed() }
    }

    /// Returns the arguments, pointing into `self`, of a call that receives up to `most` datagrams.
    fn arguments(&mut self, descriptor: RawFd, most: usize) -> [usize; 4] {
        for number in 0..most {
            let header = &mut self.messages[number].msg_hdr;
            header.msg_name = (&raw mut self.names[number]).cast();
            header.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_iov = &raw mut self.vectors[number];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut self.controls[number]).cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        [descriptor as usize, self.messages.as_mut_ptr() as usize, most, libc::MSG_DONTWAIT as usize]
    }

    /// Returns the kernel's information about a datagram.
    fn received(&self, number: usize) -> Received {
        let message = &self.messages[number];
        // SAFETY: the kernel has filled the header, whose pointers are as `arguments` has set them.
        let (own, ecn) = unsafe { control_messages(&message.msg_hdr) };
        let length = (message.msg_len as usize).min(self.vectors[number].iov_len);
        Received { length, peer: self.names[number].address(), own, ecn }
    }
}

fn vector(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

/// Datagrams of one socket with equal addresses. They leave in order, together with the calling thread's next
/// system call, or at once if the thread does not defer calls (`system_calls`).
pub struct Departure {
    /// Keeps the socket open until the datagrams have left.
    _socket: Arc<BatchSocket>,
    _messages: Box<Departures>,
    _bytes: Vec<u8>,
    count: usize,
    answer: Answer,
}

/// The messages of a `sendmmsg` and the data that they point to, except for the bytes.
struct Departures {
    name: Name,
    control: Control,
    vectors: [libc::iovec; SEND_BATCH],
    messages: [libc::mmsghdr; SEND_BATCH],
}

impl Departure {
    /// Sends the datagrams that end at `ends` of `bytes`, at most [`SEND_BATCH`].
    pub fn new(socket: &Arc<BatchSocket>, leaving: Leaving, mut bytes: Vec<u8>, ends: &[usize]) -> Self {
        let count = ends.len().min(SEND_BATCH);
        // SAFETY: all of these are valid if all their bytes are zero.
        let mut all: Box<Departures> = Box::new(unsafe { mem::zeroed() });
        let Departures { name, control, vectors, messages } = &mut *all;
        let control_bytes = write_control_messages(leaving, socket.local.is_ipv4(), control);
        let name_bytes = leaving.peer.map(|peer| name.set(peer));
        let mut start = 0;
        for (number, &end) in ends.iter().take(count).enumerate() {
            vectors[number] = vector(&mut bytes[start..end]);
            start = end;
            let header = &mut messages[number].msg_hdr;
            header.msg_iov = &raw mut vectors[number];
            header.msg_iovlen = 1;
            if let Some(name_bytes) = name_bytes {
                header.msg_name = (&raw mut *name).cast();
                header.msg_namelen = name_bytes as libc::socklen_t;
            }
            if control_bytes > 0 {
                header.msg_control = control.as_mut_ptr().cast();
                header.msg_controllen = control_bytes as _;
            }
        }
        let first = messages.as_mut_ptr() as usize;
        let arguments = [socket.descriptor() as usize, first, count, libc::MSG_DONTWAIT as usize, 0, 0];
        let answer = Answer::default();
        // SAFETY: the data of the messages is on the heap, and stays with them until there is a result.
        unsafe { defer(libc::SYS_sendmmsg, arguments, count as isize, &answer) };
        Self { _socket: socket.clone(), _messages: all, _bytes: bytes, count, answer }
    }

    /// Returns the number of its datagrams.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of sent datagrams, or the error of the first one that failed; None before the call.
    pub fn left(&self) -> Option<io::Result<usize>> {
        let answer = self.answer.get()?;
        Some(usize::try_from(answer).map_err(|_| io::Error::from_raw_os_error(-answer as i32)))
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        if self.answer.get().is_none() {
            make_deferred();
        }
    }
}

/// A socket address for system calls.
#[repr(C)]
union Name {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    /// Returns the address; that of IPv4 if the kernel has written none.
    fn address(&self) -> SocketAddr {
        // SAFETY: both variants begin with the family, consist of integers only, and were zeroed.
        unsafe {
            if i32::from(self.v6.sin6_family) == libc::AF_INET6 {
                let address = Ipv6Addr::from(self.v6.sin6_addr.s6_addr);
                return SocketAddr::from((address, u16::from_be(self.v6.sin6_port)));
            }
            let address = Ipv4Addr::from(self.v4.sin_addr.s_addr.to_ne_bytes());
            SocketAddr::from((address, u16::from_be(self.v4.sin_port)))
        }
    }

    /// Sets the address. Returns its length.
    fn set(&mut self, address: SocketAddr) -> usize {
        let sin_port = address.port().to_be();
        match address.ip() {
            IpAddr::V4(ip) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port,
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>()
            }
            IpAddr::V6(ip) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: sin_port,
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                    sin6_scope_id: 0,
                };
                size_of::<libc::sockaddr_in6>()
            }
        }
    }
}

/// Reads the destination address of a received datagram, and its ECN codepoint.
///
/// # Safety
/// The header is one that `recvmmsg` has filled.
unsafe fn control_messages(header: &libc::msghdr) -> (Option<IpAddr>, u8) {
    let (mut own, mut ecn) = (None, 0);
    // SAFETY: the kernel has written whole control messages and their total length.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(&libc::cmsghdr { cmsg_level, cmsg_type, .. }) = message.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (cmsg_level, cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => ecn = *data & 0b11,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    ecn = data.cast::<libc::c_int>().read_unaligned() as u8 & 0b11;
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    own = Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    own = Some(IpAddr::from(info.ipi6_addr.s6_addr));
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    (own, ecn)
}

/// Writes the control messages of a datagram. Returns their length.
fn write_control_messages(leaving: Leaving, v4: bool, control: &mut Control) -> usize {
    let options = if v4 { &V4_OPTIONS } else { &V6_OPTIONS };
    let mut used = 0;
    let mut push = |kind: libc::c_int, data: &[u8]| {
        let free = &mut control[used / size_of::<u64>()..];
        // SAFETY: both messages together have at most the 64 bytes, and CMSG_SPACE is a multiple of a word.
        unsafe {
            let message = free.as_mut_ptr().cast::<libc::cmsghdr>();
            (*message).cmsg_level = options.level;
            (*message).cmsg_type = kind;
            (*message).cmsg_len = libc::CMSG_LEN(data.len() as u32) as _;
            ptr::copy_nonoverlapping(data.as_ptr(), libc::CMSG_DATA(message), data.len());
            used += libc::CMSG_SPACE(data.len() as u32) as usize;
        }
    };
    if leaving.ecn != 0 {
        push(options.ecn, &libc::c_int::from(leaving.ecn).to_ne_bytes());
    }
    match leaving.own {
        None => {}
        Some(IpAddr::V4(own)) => {
            // `struct in_pktinfo`: interface (any), source address, and a destination that is not read.
            let mut info = [0; 12];
            info[4..8].copy_from_slice(&own.octets());
            push(options.own, &info);
        }
        Some(IpAddr::V6(own)) => {
            // `struct in6_pktinfo`: source address, interface (any).
            let mut info = [0; 20];
            info[..16].copy_from_slice(&own.octets());
            push(options.own, &info);
        }
    }
    used
}
