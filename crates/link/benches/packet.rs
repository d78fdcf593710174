//! What one packet costs the model: offering and releasing it, in nanoseconds.
//!
//! `cargo bench -p fastopen-link` prints one line a case. Packets of 1500 bytes come as fast as the link takes
//! them, the payload is the size of a buffer handle, and what is due is released after every offer.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fastopen_link::{Direction, DirectionConfig, Loss, Nanos, Rate, Trace};

const PACKETS: u32 = 2_000_000;
const PACKET_BYTES: u32 = 1500;
const RUNS: usize = 5;

struct Case {
    name: &'static str,
    rate: Rate,
    delay: Nanos,
    hosts: u64,
    /// Time between two packets offered.
    gap: Nanos,
}

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return; // `cargo test` only wants to know that it builds and starts
    }
    let trace =
        Trace::from_millis(&(1..=1000).flat_map(|ms| [ms; 10]).collect::<Vec<_>>()).expect("a fine trace");
    let cases = [
        Case { name: "unlimited, no delay", rate: Rate::Unlimited, delay: 0, hosts: 1, gap: 6_000 },
        Case { name: "unlimited, 100 ms", rate: Rate::Unlimited, delay: 100_000_000, hosts: 1, gap: 6_000 },
        Case {
            name: "1 Gbit/s, 1 ms",
            rate: Rate::BitPerS(1_000_000_000),
            delay: 1_000_000,
            hosts: 1,
            gap: 12_000,
        },
        Case {
            name: "1 Gbit/s, 100 ms",
            rate: Rate::BitPerS(1_000_000_000),
            delay: 100_000_000,
            hosts: 1,
            gap: 12_000,
        },
        Case {
            name: "1 Gbit/s, 100 hosts",
            rate: Rate::BitPerS(1_000_000_000),
            delay: 1_000_000,
            hosts: 100,
            gap: 12_000,
        },
        Case {
            name: "trace of 120 Mbit/s",
            rate: Rate::Trace(trace),
            delay: 10_000_000,
            hosts: 1,
            gap: 100_000,
        },
    ];
    println!("{:<22}{:>16}", "case", "ns a packet");
    for case in cases {
        let best = (0..RUNS).map(|_| run(&case)).min().expect("at least one run");
        println!("{:<22}{:>16.1}", case.name, best.as_nanos() as f64 / f64::from(PACKETS));
    }
}

fn run(case: &Case) -> Duration {
    let config = DirectionConfig {
        delay: case.delay,
        rate: case.rate.clone(),
        queue_limit_bytes: Some(1_000_000),
        loss: Loss::new(0.001).expect("within bounds"),
        ..DirectionConfig::default()
    };
    let mut direction = Direction::new(&config, 0).expect("within bounds");
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
