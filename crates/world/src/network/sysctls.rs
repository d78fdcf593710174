//! Lists the sysctls that this program sets and records in the namespaces of the client and the origins.

use fastopen_link::ip::{Version, Versions};

/// The sysctls that all jobs set in the namespaces of client and origins. Some values are Linux's defaults
/// (Documentation/networking/ip-sysctl.rst), and replace values inherited from the machine.
const SYSCTLS: [(&str, &str); 19] = [
    ("net.core.somaxconn", "8192"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.ip_local_port_range", "10240 65000"),
    ("net.ipv4.tcp_autocorking", "1"),
    ("net.ipv4.tcp_ecn", "2"),
    ("net.ipv4.tcp_max_syn_backlog", "8192"),
    ("net.ipv4.tcp_moderate_rcvbuf", "1"),
    // Windows and RTTs are not carried over to later connections. Fast Open cookies are still saved.
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_syn_retries", "6"),
    // SYN cookies prevent Fast Open. They would also hide a full queue, which otherwise refuses connections.
    (SYNCOOKIES, "0"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_window_scaling", "1"),
    ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
    ("net.ipv4.tcp_early_retrans", "3"),
    ("net.ipv4.tcp_recovery", "1"),
    ("net.ipv4.tcp_notsent_lowat", "4294967295"),
];

const V6_SYSCTLS: [(&str, &str); 2] = [
    // Linux's default. Flow labels identify flows (RFC 6437).
    ("net.ipv6.auto_flowlabels", "1"),
    // Allows bind(2) to any address of a local network, as in IPv4.
    ("net.ipv6.ip_nonlocal_bind", "1"),
];

pub(super) const SYNCOOKIES: &str = "net.ipv4.tcp_syncookies";
/// Sysctl with bits that enable Fast Open for the clients and the listeners of a namespace.
pub(super) const FASTOPEN: &str = "net.ipv4.tcp_fastopen";
/// Sysctl with the time in seconds for which a host pauses Fast Open after it has detected a black hole; 0
/// disables the detection. Writing this setting ends a pause (`proc_tfo_blackhole_detect_timeout`).
pub(super) const BLACKHOLE_TIMEOUT: &str = "net.ipv4.tcp_fastopen_blackhole_timeout_sec";

pub(super) const SLOW_START_AFTER_IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";

pub(super) fn sysctls(ip: Versions) -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_ipv6 = if ip.has(Version::V6) { &V6_SYSCTLS[..] } else { &[] };
    SYSCTLS.iter().chain(of_ipv6).copied()
}

/// Returns the names of all settings whose values are recorded, including those that differ between jobs.
pub fn recorded_sysctls(ip: Versions) -> impl Iterator<Item = &'static str> {
    sysctls(ip).map(|(name, _)| name).chain([FASTOPEN, BLACKHOLE_TIMEOUT, SLOW_START_AFTER_IDLE])
}
