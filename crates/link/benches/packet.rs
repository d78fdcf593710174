//! Measures the time in nanoseconds that the link model takes to accept and release a packet.
//!
//! `cargo bench -p fastopen-link` prints one line for each case. Packets of 1500 bytes are offered as fast as
//! the link accepts them. The payload is a number of the size of a buffer handle. After every offer, the
//! packets that are due are released.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fastopen_link::path::{Behaviour, Middlebox, PathRule, Way};
use fastopen_link::{Aqm, Direction, DirectionConfig, Jitter, Nanos, Rate, Trace};

const PACKETS: u32 = 2_000_000;
const PACKET_BYTES: u32 = 1500;
const RUNS: usize = 5;

struct Case {
    name: &'static str,
    config: DirectionConfig,
    hosts: u64,
    /// Time from one offered packet to the next.
    gap: Nanos,
}

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return; // `cargo test` only checks that the benchmark builds and starts
    }
    let trace =
        Trace::from_millis(&(1..=1000).flat_map(|ms| [ms; 10]).collect::<Vec<_>>()).expect("a fine trace");
    let gigabit =
        |delay| DirectionConfig { delay, rate: Rate::BitPerS(1_000_000_000), ..DirectionConfig::default() };
    let one = |name, config, gap| Case { name, config, hosts: 1, gap };
    let unlimited = |delay| DirectionConfig { delay, ..DirectionConfig::default() };
    let traced =
        DirectionConfig { delay: 10_000_000, rate: Rate::Trace(trace), ..DirectionConfig::default() };
    let jittered = DirectionConfig { jitter: Some(Jitter::Normal(100_000)), ..gigabit(1_000_000) };
    let reordered = DirectionConfig { reorder: true, ..jittered.clone() };
    let managed = |aqm| DirectionConfig { aqm, ..gigabit(1_000_000) };
    let cases = [
        one("unlimited, no delay", unlimited(0), 6_000),
        one("unlimited, 100 ms", unlimited(100_000_000), 6_000),
        one("1 Gbit/s, 1 ms", gigabit(1_000_000), 12_000),
        one("1 Gbit/s, 100 ms", gigabit(100_000_000), 12_000),
        Case { name: "1 Gbit/s, 100 hosts", config: gigabit(1_000_000), hosts: 100, gap: 12_000 },
        one("trace of 120 Mbit/s", traced, 100_000),
        one("jitter of 0.1 ms", jittered, 12_000),
        one("with reordering", reordered, 12_000),
        one("CoDel", managed(Aqm::CoDel), 12_000),
        one("FQ-CoDel", managed(Aqm::FqCodel), 12_000),
        one("DRR", managed(Aqm::Drr), 12_000),
    ];
    println!("{:<22}{:>16}", "case", "ns a packet");
    for case in cases {
        let best = (0..RUNS).map(|_| run(&case)).min().expect("at least one run");
        println!("{:<22}{:>16.1}", case.name, best.as_nanos() as f64 / f64::from(PACKETS));
    }
    for (name, packet) in [("middlebox, data", segment(0x10, 1448)), ("middlebox, SYN", segment(0x02, 300))] {
        println!("{name:<22}{:>16.1}", crossing(&packet));
    }
}

/// Returns a middlebox's time in ns for `packet`: the mean over 1000 copies, in the fastest of many runs.
fn crossing(packet: &[u8]) -> f64 {
    let rule = PathRule { behaviour: Behaviour::StripOption, hosts: None };
    let mut middlebox = Middlebox::new(rule);
    let once = |middlebox: &mut Middlebox| {
        let mut packets = vec![packet.to_vec(); 1000];
        #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
        let start = Instant::now();
        for packet in &mut packets {
            black_box(middlebox.pass(0, Way::Up, black_box(packet)));
        }
        start.elapsed()
    };
    let best = (0..RUNS * 20).map(|_| once(&mut middlebox)).min().expect("at least one run");
    best.as_nanos() as f64 / 1000.0
}

/// Returns an IPv4 packet whose TCP segment has these flags, a Fast Open option and `data` bytes of payload.
fn segment(flags: u8, data: usize) -> Vec<u8> {
    let length = (52 + data) as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 1, 0, 1];
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip.extend([0x0f, 0xa0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x80, flags, 0xff, 0xff, 0, 0, 0, 0]);
    ip.extend([34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1]);
    ip.resize(usize::from(length), 0);
    ip
}

fn run(case: &Case) -> Duration {
    let config = DirectionConfig { queue_limit_bytes: Some(1_000_000), loss: 0.001, ..case.config.clone() };
    let mut direction = Direction::new(&config, 0);
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    let start = Instant::now();
    for number in 0..u64::from(PACKETS) {
        let now = number * case.gap;
        let extra_delay = number % case.hosts * 100_000;
        let _dropped = black_box(direction.offer(now, PACKET_BYTES, extra_delay, number));
        while let Some(released) = direction.release(now) {
            black_box(released);
        }
    }
    start.elapsed()
}
