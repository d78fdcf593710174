//! Socket options of TCP that the standard library and tokio lack: Fast Open, `TCP_INFO`.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

use crate::check;

/// `TCP_ESTABLISHED` of `include/net/tcp_states.h`, a value of `tcpi_state`.
pub const ESTABLISHED: u8 = 1;
/// `TCP_SYN_SENT`: also the state of a connection whose SYN waits for the first write.
pub const SYN_SENT: u8 = 2;

/// `TCPI_OPT_SYN_DATA` of include/uapi/linux/tcp.h: the SYN's data was acknowledged (client) or accepted
/// (server).
pub const OPT_SYN_DATA: u8 = 32;

/// The fields of a connection's `struct tcp_info` that evidence is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// `tcpi_state`.
    pub state: u8,
    /// `tcpi_options`, `TCPI_OPT`_* bits.
    pub options: u8,
    /// `tcpi_fastopen_client_fail`: 0 none, 1 cookie unavailable, 2 data not acknowledged, 3 SYN
    /// retransmitted.
    pub fastopen_client_fail: u8,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Least round-trip time seen, in microseconds.
    pub min_rtt_us: u32,
    /// Segments retransmitted over the connection's life.
    pub retransmits: u32,
    /// Bytes sent in data segments, retransmissions included.
    pub bytes_sent: u64,
    /// Bytes of this end that the other acknowledged, the SYN included: 0 unless the connection was
    /// established.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments sent, those without data included.
    pub segments_out: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Congestion window in segments.
    pub congestion_window: u32,
    /// Maximum segment size for sending, in bytes.
    pub send_mss: u32,
    /// `tcpi_rcv_space`, in bytes: 0 unless the connection was established.
    pub receive_space: u32,
}

impl TcpInfo {
    /// Whether data in the SYN was acknowledged.
    pub fn syn_data_acked(&self) -> bool {
        self.options & OPT_SYN_DATA != 0
    }

    /// Parses a `struct tcp_info`; fields that an older kernel lacks are 0.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut raw = RawTcpInfo::default();
        let length = bytes.len().min(mem::size_of::<RawTcpInfo>());
        // SAFETY: both are at least `length` bytes long, and RawTcpInfo consists of integers, which any bytes
        // make.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut raw).cast::<u8>(), length) };
        raw.into()
    }
}

impl From<RawTcpInfo> for TcpInfo {
    fn from(raw: RawTcpInfo) -> Self {
        Self {
            state: raw.state,
            options: raw.options,
            fastopen_client_fail: (raw.limited_and_fail >> 1) & 3,
            rtt_us: raw.rtt,
            min_rtt_us: raw.min_rtt,
            retransmits: raw.total_retrans,
            bytes_sent: raw.bytes_sent,
            bytes_acked: raw.bytes_acked,
            bytes_received: raw.bytes_received,
            segments_out: raw.segs_out,
            segments_in: raw.segs_in,
            congestion_window: raw.snd_cwnd,
            send_mss: raw.snd_mss,
            receive_space: raw.rcv_space,
        }
    }
}

/// The fields of `struct tcp_info` (include/uapi/linux/tcp.h of Linux 4.19) up to the last that is used.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawTcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    wscale: u8,
    /// Bit 0: `delivery_rate_app_limited`; bits 1 and 2: `fastopen_client_fail`.
    limited_and_fail: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
}

/// `TCP_INFO` of a socket.
///
/// # Errors
/// Where the socket is not a TCP socket.
pub fn info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = RawTcpInfo::default();
    let mut length = mem::size_of::<RawTcpInfo>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `raw`, which is plain data.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut raw).cast(),
            &raw mut length,
        )
    })?;
    Ok(raw.into())
}

/// Sets how many connections with data in the SYN and without the final ACK a listener may hold
/// (`TCP_FASTOPEN`).
///
/// # Errors
/// As `setsockopt`.
pub fn set_fastopen_queue(listener: impl AsFd, queue: i32) -> io::Result<()> {
    set_option(listener, libc::TCP_FASTOPEN, queue)
}

/// Sets `TCP_FASTOPEN_CONNECT`: with a cookie at hand `connect` returns at once and the first write sends SYN
/// and data; without one the SYN of `connect` requests it.
///
/// # Errors
/// EOPNOTSUPP where the namespace's `net.ipv4.tcp_fastopen` lacks the client bit; EINVAL unless in
/// `TCP_CLOSE`.
pub fn set_fastopen_connect(socket: impl AsFd) -> io::Result<()> {
    set_option(socket, libc::TCP_FASTOPEN_CONNECT, 1)
}

fn set_option(socket: impl AsFd, option: libc::c_int, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads the value during the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            mem::size_of::<i32>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// The congestion control of a socket (`TCP_CONGESTION`), as the kernel names it.
///
/// # Errors
/// As `getsockopt`.
pub fn congestion_control(socket: impl AsFd) -> io::Result<String> {
    let name = nix::sys::socket::getsockopt(&socket.as_fd(), nix::sys::socket::sockopt::TcpCongestion)?;
    Ok(name.to_string_lossy().trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_fresh_connection_is_established_and_carried_no_syn_data() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
        let stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let info = info(&stream).expect("it is a TCP socket");
        assert_eq!((info.state, info.syn_data_acked()), (ESTABLISHED, false));
        assert!(info.segments_out >= 1 && info.send_mss >= 536);
    }
}
