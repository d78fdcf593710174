//! Floods a server with crafted SYNs at a fixed rate, from addresses in the client's network at which nothing
//! answers. A raw socket sends the SYNs from the client's namespace, which can reach only the origins.
//!
//! Each SYN is sent at a pseudorandom time within its interval (1 / rate). Otherwise, in virtual time, SYNs
//! and transactions would arrive at the same instants, always in the same order.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastopen_link::ip::{self, Version};
use fastopen_netns::clock::{exact_timers, monotonic_ns};
use socket2::{Domain, Protocol, Socket, Type};

use super::Target;
use crate::network::addresses::{Prefix, client_address};

/// Number of the first client address from which the flood comes ([`client_address`]).
const FIRST_ADDRESS: u16 = 0xfe00;
/// Number of addresses from which the flood comes. They are few, because a kernel keeps the cookies of at
/// most six clients for one server: `TCP_METRICS_RECLAIM_DEPTH` limits each server's list in `tcp_metrics`.
const ADDRESSES: u16 = 4;
/// Linux's `IPPROTO_RAW`: the sender writes the IP header.
const RAW: i32 = 255;
/// Offset of the checksum in a TCP header (RFC 9293 section 3.1).
const CHECKSUM: usize = 16;
const FIRST_PORT: u64 = 1024;
const PORTS: u64 = 64_000;
/// Maximum time between two checks of the flag that stops the flood, in nanoseconds.
const CHECK_NS: u64 = 100_000_000;

pub fn addresses(ip: Version) -> impl Iterator<Item = IpAddr> {
    (0..ADDRESSES).map(move |number| client_address(ip, FIRST_ADDRESS + number))
}

/// Returns a prefix of the client's network that contains [`addresses`] and no address of other clients.
pub fn network(ip: Version) -> Prefix {
    let prefix_length = match ip {
        Version::V4 => 24,
        Version::V6 => 120,
    };
    (client_address(ip, FIRST_ADDRESS - 1), prefix_length)
}

/// An address from which a flood sends SYNs.
#[derive(Clone)]
pub struct Source {
    pub address: IpAddr,
    /// The Fast Open cookie of the SYNs; None to send SYNs without cookie and data.
    pub cookie: Option<Vec<u8>>,
}

pub struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<u64>>,
}

impl Flood {
    /// Starts a thread that sends SYNs to `target` from the calling thread's network namespace, from each of
    /// the sources in turn. If the source has a cookie, the SYN carries the cookie and the target's request.
    pub fn start(sources: Vec<Source>, target: &Target, rate_per_s: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(target.server), Type::RAW, Some(Protocol::from(RAW)))?;
        let stop = Arc::<AtomicBool>::default();
        let (stopped, server, data) = (stop.clone(), target.server, target.request.clone());
        let send = move || {
            exact_timers();
            let start_ns = monotonic_ns();
            for number in 0.. {
                let due_ns = start_ns + offset_ns(number, rate_per_s);
                loop {
                    if stopped.load(Ordering::Relaxed) {
                        return Ok(number);
                    }
                    let left_ns = due_ns.saturating_sub(monotonic_ns());
                    if left_ns == 0 {
                        break;
                    }
                    thread::sleep(Duration::from_nanos(left_ns.min(CHECK_NS)));
                }
                let source = &sources[(number % sources.len() as u64) as usize];
                let port = FIRST_PORT + number / sources.len() as u64 % PORTS;
                let from = SocketAddr::new(source.address, port as u16);
                let sequence = (spread(number) >> 32) as u32;
                let packet = syn(from, server, sequence, source.cookie.as_deref(), &data);
                // With an IPv6 raw socket, the kernel refuses a destination address with a port.
                socket.send_to(&packet, &SocketAddr::new(server.ip(), 0).into())?;
            }
            Ok(0)
        };
        let thread = thread::Builder::new().name("flood".into()).spawn(send)?;
        Ok(Self { stop, thread })
    }

    /// Ends the flood, and returns the number of SYNs that were sent.
    pub fn stop(self) -> io::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("sending does not panic")
    }
}

/// Returns when a SYN is due, in nanoseconds since the start: at a pseudorandom time in the SYN's interval.
fn offset_ns(number: u64, rate_per_s: u32) -> u64 {
    let interval_ns = u128::from(1_000_000_000 / rate_per_s);
    number * 1_000_000_000 / u64::from(rate_per_s) + ((u128::from(spread(number)) * interval_ns) >> 64) as u64
}

/// Spreads numbers evenly over the range of u64 (Fibonacci hashing).
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns a SYN as an IP packet, with a cookie (RFC 7413 section 4.1.1) and data, or with neither.
fn syn(from: SocketAddr, to: SocketAddr, sequence: u32, cookie: Option<&[u8]>, data: &[u8]) -> Vec<u8> {
    let mut options = vec![2, 4, 0x05, 0xb4]; // Maximum segment size: 1460 bytes.
    let data = cookie.map_or(&[][..], |cookie| {
        options.extend([34, 2 + cookie.len() as u8]);
        options.extend(cookie);
        data
    });
    options.resize(options.len().next_multiple_of(4), 1);
    let header_bytes = 20 + options.len();
    let mut segment = Vec::with_capacity(header_bytes + data.len());
    segment.extend(from.port().to_be_bytes());
    segment.extend(to.port().to_be_bytes());
    segment.extend(sequence.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend([((header_bytes / 4) << 4) as u8, 0x02]); // SYN
    segment.extend([0xff, 0xff, 0, 0, 0, 0]); // Window; checksum; urgent pointer.
    segment.extend(options);
    segment.extend(data);

    let version = Version::of(from.ip());
    let length = segment.len() as u16;
    let mut packet = match version {
        Version::V4 => {
            let [high, low] = (20 + length).to_be_bytes();
            // Identification 0, no fragmentation, TTL 64, protocol TCP, checksum filled in by the kernel.
            vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, ip::TCP, 0, 0]
        }
        Version::V6 => {
            let [high, low] = length.to_be_bytes();
            // Flow label 0, next header TCP, hop limit 64.
            vec![0x60, 0, 0, 0, high, low, ip::TCP, 64]
        }
    };
    for address in [from.ip(), to.ip()] {
        match address {
            IpAddr::V4(address) => packet.extend(address.octets()),
            IpAddr::V6(address) => packet.extend(address.octets()),
        }
    }
    packet.extend(segment);
    let header_bytes = version.header_bytes() as usize;
    ip::sum_transport(&mut packet, ip::TCP, header_bytes, header_bytes + CHECKSUM);
    packet
}

#[cfg(test)]
#[path = "../../tests/unit/flood.rs"]
mod tests;
