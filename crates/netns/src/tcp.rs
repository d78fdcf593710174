//! Reads and sets TCP socket options that the standard library and tokio lack: Fast Open, `TCP_INFO`.

use std::io;
use std::os::fd::AsFd;

use serde::Serialize;

use crate::socket;

/// `TCP_ESTABLISHED` of `include/net/tcp_states.h`, a value of `tcpi_state`.
pub const ESTABLISHED: u8 = 1;
/// `TCP_SYN_SENT`: with Fast Open, also the state of a connection whose SYN waits for the first write.
pub const SYN_SENT: u8 = 2;
/// `TCP_LISTEN`: the state of a listener.
pub const LISTEN: u8 = 10;

/// `TCPI_OPT_SYN_DATA` of `uapi/linux/tcp.h`: the SYN's data was acknowledged (client) or accepted (server).
pub const OPT_SYN_DATA: u8 = 32;

/// The fields of a connection's `struct tcp_info` that show its use of Fast Open, its RTT and its traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TcpInfo {
    /// State of the socket (`tcpi_state`), such as [`ESTABLISHED`].
    pub state: u8,
    /// `tcpi_options`: a bit set of `TCPI_OPT_*`.
    pub options: u8,
    /// `tcpi_fastopen_client_fail`: 0 none, 1 no cookie, 2 data not acknowledged, 3 SYN retransmitted.
    pub fastopen_client_fail: u8,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Minimum round-trip time so far, in microseconds.
    pub min_rtt_us: u32,
    pub retransmits: u32,
    /// Bytes sent in data segments, including retransmissions.
    pub bytes_sent: u64,
    /// Bytes that the peer acknowledged, including one for the SYN; 0 unless the connection was established.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments sent, with or without data.
    pub segments_out: u32,
    pub segments_in: u32,
    pub congestion_window: u32,
    /// Segments in flight: neither acknowledged nor presumed lost, plus retransmitted ones.
    pub segments_in_flight: u32,
    /// Maximum segment size for sending, in bytes.
    pub send_mss: u32,
    /// `tcpi_rcv_space`, in bytes: 0 unless the connection was established.
    pub receive_space: u32,
}

impl TcpInfo {
    /// Returns true if data in the SYN was acknowledged.
    pub fn syn_data_acked(&self) -> bool {
        self.options & OPT_SYN_DATA != 0
    }

    /// Parses a `struct tcp_info` (include/uapi/linux/tcp.h). Fields that an older kernel lacks are 0.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut raw = [0; INFO_BYTES];
        let length = bytes.len().min(INFO_BYTES);
        raw[..length].copy_from_slice(&bytes[..length]);
        // Both closures read the field of `struct tcp_info` at an offset.
        let u32_at = |offset| u32::from_ne_bytes(*raw[offset..].first_chunk().expect("it is inside"));
        let u64_at = |offset| u64::from_ne_bytes(*raw[offset..].first_chunk().expect("it is inside"));
        Self {
            state: raw[0],
            options: raw[5],
            // The two bits above `delivery_rate_app_limited`.
            fastopen_client_fail: (raw[7] >> 1) & 3,
            rtt_us: u32_at(68),
            min_rtt_us: u32_at(148),
            retransmits: u32_at(100),
            bytes_sent: u64_at(200),
            bytes_acked: u64_at(120),
            bytes_received: u64_at(128),
            segments_out: u32_at(136),
            segments_in: u32_at(140),
            congestion_window: u32_at(80),
            // The same sum as `tcp_packets_in_flight`: `unacked` - `sacked` - `lost` + `retrans`.
            segments_in_flight: (u32_at(24) + u32_at(36)).saturating_sub(u32_at(28) + u32_at(32)),
            send_mss: u32_at(16),
            receive_space: u32_at(96),
        }
    }
}

/// Size in bytes of `struct tcp_info` up to and including `tcpi_bytes_sent` (Linux 4.19).
const INFO_BYTES: usize = 208;

/// Returns `TCP_INFO` of a socket.
pub fn info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let raw: [u8; INFO_BYTES] = socket::get(&socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(TcpInfo::from_bytes(&raw))
}

/// Sets the length of a listener's Fast Open queue (`TCP_FASTOPEN`): the maximum number of connections that
/// began with data in the SYN and have not completed the handshake.
pub fn set_fastopen_queue(listener: impl AsFd, queue: i32) -> io::Result<()> {
    socket::set(&listener, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, &queue)
}

/// Returns the length of a listener's Fast Open queue (see [`set_fastopen_queue`]); 0 without Fast Open.
pub fn fastopen_queue(listener: impl AsFd) -> io::Result<i32> {
    socket::get(&listener, libc::IPPROTO_TCP, libc::TCP_FASTOPEN).map(i32::from_ne_bytes)
}

/// Sets `TCP_FASTOPEN_CONNECT`. If the kernel has a cookie for the address, `connect` returns at once and the
/// first write sends SYN and data. Otherwise the SYN of `connect` requests a cookie. Fails with EOPNOTSUPP if
/// the namespace's `net.ipv4.tcp_fastopen` lacks the client bit, with EINVAL for sockets not in `TCP_CLOSE`.
pub fn set_fastopen_connect(socket: impl AsFd) -> io::Result<()> {
    socket::set(&socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, &1_i32)
}

/// Returns the kernel's name of a socket's congestion control algorithm (`TCP_CONGESTION`).
pub fn congestion_control(socket: impl AsFd) -> io::Result<String> {
    let name = nix::sys::socket::getsockopt(&socket.as_fd(), nix::sys::socket::sockopt::TcpCongestion)?;
    Ok(name.to_string_lossy().trim_end_matches('\0').to_owned())
}
