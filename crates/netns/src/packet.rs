//! Opens packet sockets, for the emulated link and for captures. They receive frames with the kernel's
//! timestamps through a ring shared with the kernel, and send frames in batches.
//!
//! They work on veth inside a user namespace, without `/dev/net/tun` or a kernel module.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::net::if_::if_nametoindex;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};
use nix::sys::socket::{AddressFamily, SockFlag, SockType};

use crate::clock::{Clocks, monotonic_ns};
use crate::{Doing, Result, check, socket};

/// Size of the Ethernet header at the start of each frame, in bytes.
pub const ETHERNET_HEADER: usize = 14;

// Sizes in bytes: of a received frame's slot in the ring, and of the memory blocks that contain the slots.
const FRAME_SIZE: usize = 2048;
const BLOCK_SIZE: usize = 64 * 1024;

/// The headers that the kernel writes at the start of a frame's slot in the ring.
#[repr(C)]
struct FrameHeader {
    packet: libc::tpacket2_hdr,
    address: libc::sockaddr_ll,
}

/// A packet socket bound to an interface, which receives the frames of one Ethernet type or of all types.
pub struct PacketSocket {
    /// The ring of received frames that the kernel and this process share.
    base: NonNull<u8>,
    frames: usize,
    next: usize,
    socket: OwnedFd,
}

// SAFETY: the mapping belongs only to this value; the kernel's side is synchronised through `tp_status`.
unsafe impl Send for PacketSocket {}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        // SAFETY: `open` made the mapping with this base and length.
        let _ = unsafe { munmap(self.base.cast(), self.frames * FRAME_SIZE) };
    }
}

impl PacketSocket {
    fn header(&self) -> *mut FrameHeader {
        // SAFETY: `next` is below `frames`, so the offset is inside the mapping; frames are aligned to 2048.
        unsafe { self.base.add(self.next * FRAME_SIZE).cast().as_ptr() }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the frame is inside the mapping. The kernel and this process access its status atomically.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header()).packet.tp_status) }
    }

    /// Returns true if a frame is waiting.
    pub fn is_readable(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Passes the next frame to `take`, as [`Tap::take_each`] does, and frees the frame's slot in the ring.
    /// Returns false if no frame has arrived.
    fn take(&mut self, take: impl FnOnce(u64, bool, &[u8])) -> bool {
        if !self.is_readable() {
            return false;
        }
        let header = self.header();
        // SAFETY: the frame is inside the mapping, and with the status USER the kernel has released it.
        unsafe {
            let libc::tpacket2_hdr { tp_mac, tp_snaplen, tp_sec, tp_nsec, .. } = (*header).packet;
            let data = header.cast::<u8>().add(tp_mac.into());
            let length = (tp_snaplen as usize).min(FRAME_SIZE - usize::from(tp_mac));
            let outgoing = (*header).address.sll_pkttype == libc::PACKET_OUTGOING;
            let unix_ns = u64::from(tp_sec) * 1_000_000_000 + u64::from(tp_nsec);
            take(unix_ns, outgoing, std::slice::from_raw_parts(data, length));
        }
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.frames;
        true
    }

    /// Opens the socket in the calling thread's namespace, for frames of the type `ether_type` (`ETH_P_*`).
    /// The ring has room for `frames` frames, rounded up to a multiple of 32. Needs `CAP_NET_RAW` there.
    pub fn open(interface: &str, frames: u32, ether_type: u16) -> Result<Self> {
        let opened = Self::bind("packet socket", interface, frames, ether_type)?;
        // With `ETH_P_ALL`, the socket would also receive the frames that the interface sends.
        socket::set(&opened.socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)
            .doing(|| format!("opening a packet socket on {interface}"))?;
        Ok(opened)
    }

    /// Like [`PacketSocket::open`], but also receives outgoing frames. `kind` names the socket in errors.
    fn bind(kind: &str, interface: &str, frames: u32, ether_type: u16) -> Result<Self> {
        let index = if_nametoindex(interface).doing(|| format!("looking up the interface {interface}"))?;
        open(index as i32, frames, ether_type).doing(|| format!("opening a {kind} on {interface}"))
    }

    /// Passes at most `most` received frames to `take`, and returns their number. `take` gets the receive
    /// time in nanoseconds of the monotonic clock, and the frame from its Ethernet header on.
    pub fn receive(&mut self, most: usize, mut take: impl FnMut(u64, &[u8])) -> usize {
        // The ring's timestamps are of the real-time clock, which may be slewed or set, so both clocks are
        // read for every batch.
        let mut clocks = None;
        for count in 0..most {
            let taken = self.take(|unix_ns, _, frame| {
                let clocks = clocks.get_or_insert_with(Clocks::read);
                take(clocks.monotonic_of(unix_ns, monotonic_ns), frame);
            });
            if !taken {
                return count;
            }
        }
        most
    }

    /// Sends frames in order. Removes each sent frame from the front of `frames`.
    ///
    /// # Errors
    /// The kernel's error for the first frame that it refuses. A full buffer (EAGAIN, ENOBUFS) is temporary
    /// and not an error: the remaining frames stay in `frames`.
    pub fn send(&self, frames: &mut VecDeque<Vec<u8>>) -> io::Result<()> {
        const BATCH: usize = 64;
        while !frames.is_empty() {
            // SAFETY: zeroed mmsghdr and iovec are valid; the pointers live until the call ends.
            let count = unsafe {
                let mut vectors: [libc::iovec; BATCH] = mem::zeroed();
                let mut messages: [libc::mmsghdr; BATCH] = mem::zeroed();
                let batch = frames.len().min(BATCH);
                for (number, frame) in frames.iter().take(batch).enumerate() {
                    vectors[number] =
                        libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
                    messages[number].msg_hdr.msg_iov = &raw mut vectors[number];
                    messages[number].msg_hdr.msg_iovlen = 1;
                }
                check(libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    batch as u32,
                    libc::MSG_DONTWAIT,
                ))
            };
            match count {
                Ok(count) => drop(frames.drain(..count as usize)),
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the number of frames that the kernel dropped since the last call because the ring was full.
    pub fn take_overruns(&self) -> io::Result<u32> {
        // `struct tpacket_stats`: `tp_packets`, `tp_drops`.
        let [.., a, b, c, d]: [u8; 8] = socket::get(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        Ok(u32::from_ne_bytes([a, b, c, d]))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A frame that a [`Tap`] copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Time at which the frame passed the interface, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// True if the interface sent the frame, false if it received it.
    pub outgoing: bool,
    /// The frame from its Ethernet header on.
    pub bytes: Vec<u8>,
}

/// A packet socket that stores copies of an interface's frames until the caller reads them. It does not delay
/// or reorder traffic: the kernel copies each frame as it passes and wakes no thread.
pub struct Tap(PacketSocket);

impl Tap {
    /// Opens the tap in the calling thread's namespace. It has room for `frames` frames, rounded up to a
    /// multiple of 32. While it is full, further frames are dropped. Needs `CAP_NET_RAW` in the namespace.
    pub fn open(interface: &str, frames: u32) -> Result<Self> {
        PacketSocket::bind("tap", interface, frames, libc::ETH_P_ALL as u16).map(Self)
    }

    /// Discards all stored frames, and resets the count of dropped frames.
    pub fn clear(&mut self) {
        self.take_each(|_, _, _| ());
        let _ = self.0.take_overruns();
    }

    /// Returns the stored frames with times up to `unix_ns` (nanoseconds since 1970), and the number of
    /// frames dropped since [`Self::clear`] or the last call. Discards later frames.
    pub fn take(&mut self, unix_ns: u64) -> io::Result<(Vec<Captured>, u32)> {
        let dropped = self.0.take_overruns()?;
        let mut captured = Vec::new();
        self.take_each(|unix_ns, outgoing, bytes| {
            captured.push(Captured { unix_ns, outgoing, bytes: bytes.to_vec() });
        });
        captured.retain(|frame| frame.unix_ns <= unix_ns);
        Ok((captured, dropped))
    }

    /// Removes all stored frames, and passes each to `take`: its time in nanoseconds since 1970, true if the
    /// interface sent it, and its bytes from the Ethernet header on.
    pub fn take_each(&mut self, mut take: impl FnMut(u64, bool, &[u8])) {
        while self.0.take(&mut take) {}
    }
}

fn open(index: i32, frames: u32, ether_type: u16) -> io::Result<PacketSocket> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    // With a protocol, the socket would receive frames of all interfaces until it is bound to one.
    let socket = nix::sys::socket::socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
    socket::set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V2)?;
    socket::set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
    let per_block = (BLOCK_SIZE / FRAME_SIZE) as u32;
    let request = libc::tpacket_req {
        tp_block_size: BLOCK_SIZE as u32,
        tp_block_nr: frames.div_ceil(per_block),
        tp_frame_size: FRAME_SIZE as u32,
        tp_frame_nr: frames.next_multiple_of(per_block),
    };
    socket::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    let frames = request.tp_frame_nr as usize;
    let length = NonZeroUsize::new(frames * FRAME_SIZE).ok_or(io::ErrorKind::InvalidInput)?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a fresh shared mapping of the socket's ring; the kernel checks the length against the ring.
    let base = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, &socket, 0) }?;
    let opened = PacketSocket { base: base.cast(), frames, next: 0, socket };
    // Children do not need the mapping, and copying it makes a User-Mode Linux kernel fail (`Bad page map`).
    // SAFETY: base and length describe the mapping.
    unsafe { madvise(base, length.get(), MmapAdvise::MADV_DONTFORK) }?;
    // SAFETY: sockaddr_ll is plain data; the kernel reads it during the call.
    unsafe {
        let mut address: libc::sockaddr_ll = mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ether_type.to_be();
        address.sll_ifindex = index;
        let length = mem::size_of_val(&address) as libc::socklen_t;
        check(libc::bind(opened.socket.as_raw_fd(), (&raw const address).cast(), length))?;
    }
    Ok(opened)
}
