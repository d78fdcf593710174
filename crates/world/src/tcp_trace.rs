//! Congestion window, round-trip time and bytes in flight of connections over time, from samples of the
//! origins' sockets (`TCP_INFO`).
//!
//! Reading it changes nothing in a socket, and the thread that reads does nothing else.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use fastopen_netns::clock::{exact_timers, monotonic_ns};
use fastopen_netns::poll::{Timer, Waker, wait_readable};
use fastopen_replay::sockets::{FourTuple, SocketTable};

use crate::contract::TcpSample;

/// The samples of each connection that an origin accepted, on the monotonic clock; those alone that differ
/// from the one before.
pub type Samples = BTreeMap<FourTuple, Vec<TcpSample>>;

/// The most samples of a load.
const MOST: usize = 200_000;
/// Shortest and longest time between two samples; a twentieth of the RTT lies between.
const INTERVAL_NS: (u64, u64) = (1_000_000, 10_000_000);

/// A running trace.
pub struct TcpTrace {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    samples: Mutex<Samples>,
    stopped: AtomicBool,
    waker: Waker,
}

impl TcpTrace {
    /// Samples these sockets until it is taken.
    ///
    /// # Errors
    /// Where there are no more descriptors or threads.
    pub fn start(sockets: Arc<SocketTable>, rtt_ns: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            samples: Mutex::default(),
            stopped: AtomicBool::new(false),
            waker: Waker::new()?,
        });
        let timer = Timer::new()?;
        let interval_ns = (rtt_ns / 20).clamp(INTERVAL_NS.0, INTERVAL_NS.1);
        let tracing = shared.clone();
        let thread = thread::Builder::new().name("tcp-trace".into()).spawn(move || {
            exact_timers();
            tracing.sample(&sockets, timer, interval_ns);
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Ends it and returns the samples.
    pub fn take(mut self) -> Samples {
        self.stop();
        std::mem::take(&mut *self.shared.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for TcpTrace {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn sample(&self, sockets: &SocketTable, mut timer: Timer, interval_ns: u64) {
        let mut kept = 0;
        let mut next_ns = monotonic_ns();
        while kept < MOST {
            // No sooner than the next whole interval, so that a late thread does not catch up.
            next_ns = (next_ns + interval_ns).max(monotonic_ns());
            let waited = timer
                .set(Some(next_ns))
                .and_then(|()| wait_readable(&[timer.as_fd(), self.waker.as_fd()], None));
            if waited.is_err() || self.stopped.load(Ordering::Relaxed) {
                return;
            }
            let at_ns = monotonic_ns();
            let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
            for (four_tuple, info) in sockets.open() {
                let sample = TcpSample::new(at_ns, &info);
                let of_connection = samples.entry(four_tuple).or_default();
                if of_connection.last().is_none_or(|last| !last.says_the_same_as(&sample)) {
                    of_connection.push(sample);
                    kept += 1;
                }
            }
        }
    }
}
