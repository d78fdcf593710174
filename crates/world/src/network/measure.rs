//! Measures the emulated network: the RTT with TCP handshakes, and the rates with trains of UDP packets.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use fastopen_link::ip::Version;
use fastopen_link::{DirectionConfig, Rate, expected_train, expected_transit};
use fastopen_netns::namespace::NetNs;
use fastopen_netns::udp::StampedSocket;
use fastopen_netns::{Error, tcp};

use crate::contract::{BothEnds, Measured, MeasuredRate, MeasuredRtt, RouteRecord};
use crate::network::addresses::{client_address, origin_address};
use crate::network::link_config::LinkConfig;
use crate::network::topology::Topology;

/// Number of the origin address to which probes go, above the numbers of a page's hosts.
const PROBE_ORIGIN: u16 = 64_000;
const PORT: u16 = 9;
/// Bytes of the TCP header of a SYN or SYN-ACK with Linux's options (MSS, SACK, timestamps, window scaling).
const SYN_HEADER: u64 = 40;
const HANDSHAKES: u64 = 5;
const UDP_HEADER: u64 = 8;
/// Duration in nanoseconds of a train of probe packets, unless `TRAIN_PACKETS` limits the train.
const TRAIN_NS: u64 = 60_000_000;
/// Minimum and maximum number of packets in a train of probe packets.
const TRAIN_PACKETS: (u64, u64) = (4, 80);

/// Measures the round-trip time and the rates of the link, whose current configuration must be `link`.
pub fn network(topology: &Topology, link: &LinkConfig) -> Result<Measured, Error> {
    let mtu = topology.mtu_bytes;
    let asked = link.down.delay + link.up.delay + 2 * link.origins_delay;
    let syn_bytes = (topology.ip.preferred().header_bytes() + SYN_HEADER) as u32;
    let on_link = expected_transit(&link.down, syn_bytes) + expected_transit(&link.up, syn_bytes);
    let expected = on_link + 2 * link.origins_delay;
    let mut rtts = handshakes(topology, expected, gap(expected, expected - asked))?;
    rtts.sort_unstable();
    let rtt_us = MeasuredRtt {
        asked: asked / 1000,
        expected: expected / 1000,
        median: rtts.get(rtts.len() / 2).copied().unwrap_or(0).into(),
        samples: rtts.len(),
    };
    let client = (&topology.client, client_address(topology.ip.preferred(), 0));
    let origin = (&topology.origins, probe_address(topology).ip());
    let (down, up) = thread::scope(|scope| {
        let down = || rate(&link.down, mtu, origin, client);
        let down = named("starting a thread", thread::Builder::new().spawn_scoped(scope, down));
        let up = rate(&link.up, mtu, client, origin);
        (down.and_then(|down| down.join().expect("measuring does not panic")), up)
    });
    Ok(Measured { rtt_us, down_bit_per_s: down?, up_bit_per_s: up? })
}

/// Returns the congestion control and initial window of both ends, from the sockets of a new connection.
pub fn tcp_settings(topology: &Topology) -> Result<BothEnds<RouteRecord>, Error> {
    const DOING: &str = "reading TCP's settings from a connection";
    let address = probe_address(topology);
    let listener = topology.origins.run(|| named(DOING, TcpListener::bind(address)))?;
    let client =
        topology.client.run(|| named(DOING, TcpStream::connect_timeout(&address, Duration::from_secs(3))))?;
    let (origin, _) = named(DOING, listener.accept())?;
    let settings = |stream: &TcpStream| {
        let congestion_control = named(DOING, tcp::congestion_control(stream))?;
        let initial_window_segments = named(DOING, tcp::info(stream))?.congestion_window;
        Ok(RouteRecord { congestion_control, initial_window_segments })
    };
    Ok(BothEnds { client: settings(&client)?, origins: settings(&origin)? })
}

fn probe_address(topology: &Topology) -> SocketAddr {
    SocketAddr::new(origin_address(topology.ip.preferred(), PROBE_ORIGIN), PORT)
}

/// Returns the interval in nanoseconds at which to start probe handshakes, so that their packets never queue
/// behind each other. `on_the_link_ns` is the total time for which one handshake's packets occupy the link.
fn gap(round_trip_ns: u64, on_the_link_ns: u64) -> u64 {
    // A short round trip ends before the next handshake starts, a long one half-way between two starts.
    let least = (4 * on_the_link_ns).max(2_000_000);
    let between = (round_trip_ns / least).saturating_sub(1);
    if 2 * round_trip_ns < least { least } else { (2 * round_trip_ns / (2 * between + 1)).max(least) }
}

/// Makes TCP handshakes at intervals of `gap_ns`. Returns the RTTs in microseconds that the kernel measured
/// in handshakes without retransmissions or, if all had retransmissions (as with an RTT above TCP's initial
/// timeout of one second), in all handshakes. The probes' timeout depends on the expected RTT, `expected_ns`.
fn handshakes(topology: &Topology, expected_ns: u64, gap_ns: u64) -> Result<Vec<u32>, Error> {
    let address = probe_address(topology);
    // The listener stays open while the handshakes run. The kernel completes them without accept(2).
    let _listener = topology.origins.run(|| named("listening for probes", TcpListener::bind(address)))?;
    let gap = Duration::from_nanos(gap_ns);
    let timeout = Duration::from_nanos(expected_ns * 2) + Duration::from_secs(3);
    topology.client.run(|| {
        let probes: Vec<_> = (0..HANDSHAKES as u32)
            .map(|number| {
                thread::Builder::new().spawn(move || {
                    thread::sleep(gap * number);
                    let stream = TcpStream::connect_timeout(&address, timeout)?;
                    tcp::info(&stream)
                })
            })
            .collect();
        let answers: Vec<_> = probes
            .into_iter()
            .map(|probe| probe?.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
            .collect();
        let all_retransmitted = answers.iter().flatten().all(|info| info.retransmits > 0);
        let counts = |info: &&tcp::TcpInfo| all_retransmitted || info.retransmits == 0;
        let rtts: Vec<_> = answers.iter().flatten().filter(counts).map(|info| info.rtt_us).collect();
        match answers.into_iter().find_map(Result::err).filter(|_| rtts.is_empty()) {
            Some(error) => named("measuring the round-trip time", Err(error)),
            None => Ok(rtts),
        }
    })
}

/// Measures the rate of one direction of the link, from the duration of a train of packets. The result has no
/// `median` if the link has no fixed rate, the queue is too short, or fewer than two packets arrive.
fn rate(
    config: &DirectionConfig,
    mtu: u32,
    (sending, from): (&NetNs, IpAddr),
    (receiving, to): (&NetNs, IpAddr),
) -> Result<MeasuredRate, Error> {
    let Rate::BitPerS(asked) = config.rate else { return Ok(MeasuredRate { asked: None, median: None }) };
    let packet_ns = u64::from(mtu) * 8 * 1_000_000_000 / asked;
    let room = config.queue_limit_bytes.map_or(TRAIN_PACKETS.1, |limit| limit / u64::from(mtu) + 1);
    let packets = (TRAIN_NS / packet_ns).clamp(TRAIN_PACKETS.0, TRAIN_PACKETS.1).min(room);
    if packets < 2 {
        return Ok(MeasuredRate { asked: Some(asked), median: None });
    }
    let opening = "opening a probe";
    let receiver = receiving.run(|| named(opening, UdpSocket::bind((to, PORT))))?;
    let sender = sending.run(|| named(opening, UdpSocket::bind((from, 0))))?;
    let timeout = Duration::from_nanos(packet_ns * packets + config.delay) + Duration::from_secs(1);
    named(opening, receiver.set_read_timeout(Some(timeout)))?;
    let receiver = named(opening, StampedSocket::new(receiver))?;
    let mut datagram = vec![0; mtu as usize - (Version::of(to).header_bytes() + UDP_HEADER) as usize];
    for number in 0..packets {
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        named("sending a probe", sender.send_to(&datagram, (to, PORT)))?;
    }
    let (mut first, mut last) = (None, None);
    while last.is_none_or(|(number, _)| number + 1 < packets) {
        // If the last packet is lost, receiving times out, and the rate follows from the packets before it.
        let Ok((count, stamp)) = receiver.receive(&mut datagram) else { break };
        let Some(head) = datagram[..count].first_chunk::<8>() else { continue };
        let arrived = (u64::from_be_bytes(*head), stamp);
        first.get_or_insert(arrived);
        last = Some(arrived);
    }
    let median = match (first, last) {
        (Some((first, began)), Some((last, ended))) if last > first => {
            // Compare with the model's time, so that its rounding to nanoseconds does not count as an error.
            let train = expected_train(config, (last - first + 1) as u32, mtu);
            Some((asked as f64 * train as f64 / (ended.saturating_sub(began).max(1)) as f64).round() as u64)
        }
        _ => None,
    };
    Ok(MeasuredRate { asked: Some(asked), median })
}

pub(super) fn named<T>(doing: &str, result: io::Result<T>) -> Result<T, Error> {
    result.map_err(|source| Error::other(doing, source))
}

#[cfg(test)]
#[path = "../../tests/unit/measure.rs"]
mod tests;
