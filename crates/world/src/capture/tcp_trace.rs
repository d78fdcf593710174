//! Traces how the congestion windows, round-trip times and bytes in flight of connections change during a
//! load. A separate thread samples `TCP_INFO` of the origins' sockets, which does not change the sockets.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use fastopen_netns::actor::Actor;
use fastopen_netns::clock::{exact_timers, monotonic_ns};
use fastopen_netns::poll::{Timer, Waker, wait_readable};
use fastopen_replay::sockets::{FourTuple, SocketTable};

use crate::contract::TcpSample;

/// The samples of each connection that an origin accepted, with times on the monotonic clock. A sample that
/// differs from the previous sample only in time is omitted.
pub type Samples = BTreeMap<FourTuple, Vec<TcpSample>>;

/// Maximum number of samples of a load. This keeps the load's record below `MAX_RECORD_BYTES` of
/// python/fastopen/runs/database.py. Longer traces are thinned out to every second sample.
const MOST: usize = 40_000;
/// Bounds of the initial sampling interval, in nanoseconds. Within these bounds, the interval is RTT / 20.
const INTERVAL_NS: (u64, u64) = (1_000_000, 10_000_000);

/// A running trace of the origins' connections. Dropping it ends the trace.
pub struct TcpTrace(Actor<Sender<Samples>>);

impl TcpTrace {
    /// Starts a thread that samples the sockets' `TCP_INFO` at an interval that depends on the RTT `rtt_ns`.
    pub fn start(sockets: Arc<SocketTable>, rtt_ns: u64) -> io::Result<Self> {
        let timer = Timer::new()?;
        let interval_ns = (rtt_ns / 20).clamp(INTERVAL_NS.0, INTERVAL_NS.1);
        let trace = move |takers: Receiver<Sender<Samples>>, stop: Arc<Waker>| {
            exact_timers();
            let samples = sample(&sockets, timer, &stop, interval_ns);
            // If the trace is dropped without `take`, nothing receives the samples.
            let _ = takers.recv().map(|taker| taker.send(samples));
        };
        Ok(Self(Actor::start("tcp-trace", trace)?))
    }

    pub fn take(self) -> Samples {
        self.0.ask(|taker| taker).unwrap_or_default()
    }
}

/// Samples open sockets until `stop.wake()` is called. Above `MOST` samples, drops half and halves the rate.
fn sample(sockets: &SocketTable, mut timer: Timer, stop: &Waker, mut interval_ns: u64) -> Samples {
    let mut samples = Samples::new();
    let mut next_ns = monotonic_ns();
    loop {
        // A late thread does not catch up on missed samples.
        next_ns = (next_ns + interval_ns).max(monotonic_ns());
        let ready =
            timer.set(Some(next_ns)).and_then(|()| wait_readable(&[timer.as_fd(), stop.as_fd()], None));
        if !ready.is_ok_and(|ready| ready[1].is_empty()) {
            return samples;
        }
        let at_ns = monotonic_ns();
        for (four_tuple, info) in sockets.open() {
            add(&mut samples, four_tuple, TcpSample::new(at_ns, &info));
        }
        if samples.values().map(Vec::len).sum::<usize>() > MOST {
            thin_out(&mut samples);
            interval_ns *= 2;
        }
    }
}

fn add(samples: &mut Samples, four_tuple: FourTuple, sample: TcpSample) {
    let of_connection = samples.entry(four_tuple).or_default();
    if of_connection.last().is_none_or(|last| !last.equals_except_time(&sample)) {
        of_connection.push(sample);
    }
}

fn thin_out(samples: &mut Samples) {
    for of_connection in samples.values_mut() {
        *of_connection = of_connection.iter().copied().step_by(2).collect();
    }
}

#[cfg(test)]
#[path = "../../tests/unit/tcp_trace.rs"]
mod tests;
