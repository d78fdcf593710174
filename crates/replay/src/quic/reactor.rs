//! Handles the datagrams and timers of all QUIC endpoints of a thread. Before the thread waits, passes queued
//! datagrams to the kernel, in order. One timer with nanosecond precision serves all connections.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Waker;

use fastopen_netns::clock::{Alarm, monotonic_ns};
use quinn::udp::Transmit;

use super::socket::Datagrams;

const RETRY_NS: u64 = 1_000_000;

thread_local! {
    static REACTOR: RefCell<Reactor> = RefCell::default();
}

#[derive(Default)]
struct Reactor {
    /// True if the thread has a [`Runtime`], which sends the queued datagrams.
    running: bool,
    queued: VecDeque<Queued>,
    /// Time at which the last flush found a socket's buffer full; `None` if no buffer was full.
    full_ns: Option<u64>,
    /// Number of times that the thread was about to wait because no task was ready.
    turn: u64,
    waking: Vec<Waker>,
    /// Wakers of the set timers. The key is the wake-up time on the monotonic clock and the timer's number.
    timers: BTreeMap<(u64, u64), Waker>,
    next_timer: u64,
    /// The kernel timer; `None` before its first use, and if file descriptors are exhausted.
    alarm: Option<Alarm>,
    armed_ns: Option<u64>,
}

struct Queued {
    socket: Arc<Datagrams>,
    datagram: Vec<u8>,
    /// The datagram's addresses and ECN codepoint.
    transmit: Transmit<'static>,
}

/// A single-threaded tokio runtime that also handles the datagrams and timers of QUIC endpoints.
pub struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// Creates a runtime for this thread. A thread may have only one at a time.
    pub fn new() -> io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().on_thread_park(before_wait).on_thread_unpark(after_wait);
        let runtime = builder.build()?;
        REACTOR.replace(Reactor { running: true, ..Reactor::default() });
        Ok(Self(runtime))
    }

    /// Runs a future to its end, then passes the queued datagrams to the kernel.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let output = self.0.block_on(future);
        REACTOR.with_borrow_mut(Reactor::flush);
        output
    }
}

impl Deref for Runtime {
    type Target = tokio::runtime::Runtime;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Returns true if the calling thread has a [`Runtime`]. Without a runtime, no datagram is sent.
pub(super) fn is_running() -> bool {
    REACTOR.with_borrow(|reactor| reactor.running)
}

/// Queues a datagram with the addresses and ECN codepoint of `transmit`. It is sent before the thread waits.
pub(super) fn send(socket: &Arc<Datagrams>, transmit: &Transmit<'_>, datagram: &[u8]) {
    let transmit = Transmit { contents: &[], segment_size: None, ..transmit.clone() };
    let queued = Queued { socket: socket.clone(), datagram: datagram.to_vec(), transmit };
    REACTOR.with_borrow_mut(|reactor| reactor.queued.push_back(queued));
}

pub(super) fn turn() -> u64 {
    REACTOR.with_borrow(|reactor| reactor.turn)
}

/// Wakes a task when the thread is next about to wait, after all ready tasks have run.
pub(super) fn wake_before_wait(waker: &Waker) {
    REACTOR.with_borrow_mut(|reactor| reactor.waking.push(waker.clone()));
}

/// A timer of a connection, disarmed when it is dropped.
#[derive(Debug)]
pub(super) struct Timer {
    /// Deadline on the monotonic clock.
    pub(super) at_ns: u64,
    number: u64,
    /// Time at which the timer wakes its task: the deadline or earlier. `None` if the timer is not set.
    set_ns: Option<u64>,
}

impl Timer {
    pub(super) fn new(at_ns: u64) -> Self {
        let number = REACTOR.with_borrow_mut(|reactor| {
            reactor.next_timer += 1;
            reactor.next_timer
        });
        Self { at_ns, number, set_ns: None }
    }

    /// Sets the timer to wake a task at the deadline. Keeps an earlier time if one is set: the task then
    /// wakes early and must set the timer again. This saves work, as most packets postpone a deadline.
    pub(super) fn arm(&mut self, waker: &Waker) {
        let earlier = self.set_ns.filter(|set_ns| (monotonic_ns() + 1..=self.at_ns).contains(set_ns));
        if earlier.is_none() {
            self.clear();
        }
        let set_ns = earlier.unwrap_or(self.at_ns);
        self.set_ns = Some(set_ns);
        REACTOR.with_borrow_mut(|reactor| match reactor.timers.get_mut(&(set_ns, self.number)) {
            Some(set) => set.clone_from(waker),
            None => drop(reactor.timers.insert((set_ns, self.number), waker.clone())),
        });
    }

    pub(super) fn clear(&mut self) {
        if let Some(set_ns) = self.set_ns.take() {
            // Drop the waker after the borrow: the waker may own its task, whose drop may call `clear` again.
            let _waker = REACTOR
                .try_with(|reactor| reactor.borrow_mut().timers.remove(&(set_ns, self.number)))
                .unwrap_or_default();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Runs before the thread waits: wakes the tasks of [`wake_before_wait`], sends all datagrams, and sets the
/// alarm to the first deadline, unless the alarm is already set to an earlier time.
fn before_wait() {
    let waking = REACTOR.with_borrow_mut(|reactor| {
        reactor.turn += 1;
        std::mem::take(&mut reactor.waking)
    });
    waking.into_iter().for_each(Waker::wake);
    REACTOR.with_borrow_mut(|reactor| {
        reactor.flush();
        let retry_ns = reactor.full_ns.map(|_| monotonic_ns() + RETRY_NS);
        let first_ns = reactor.timers.first_key_value().map(|(&(at_ns, _), _)| at_ns);
        let Some(at_ns) = first_ns.into_iter().chain(retry_ns).min() else { return };
        if reactor.armed_ns.is_some_and(|armed_ns| armed_ns <= at_ns) {
            return;
        }
        if reactor.alarm.is_none() {
            reactor.alarm = Alarm::new().ok();
        }
        if let Some(alarm) = &mut reactor.alarm {
            reactor.armed_ns = alarm.set(at_ns).is_ok().then_some(at_ns);
        }
    });
}

fn after_wait() {
    let due: Vec<_> = REACTOR.with_borrow_mut(|reactor| {
        let Some(armed_ns) = reactor.armed_ns else { return Vec::new() };
        let now = monotonic_ns();
        if armed_ns > now {
            return Vec::new();
        }
        reactor.armed_ns = None;
        let later = reactor.timers.split_off(&(now + 1, 0));
        std::mem::replace(&mut reactor.timers, later).into_values().collect()
    });
    due.into_iter().for_each(Waker::wake);
}

impl Reactor {
    /// Passes queued datagrams to the kernel until a socket's buffer is full. Drops unsendable datagrams.
    fn flush(&mut self) {
        // If the clock has not advanced, the socket that was full still has no room.
        if self.full_ns.is_some_and(|full_ns| full_ns >= monotonic_ns()) {
            return;
        }
        self.full_ns = None;
        while let Some(Queued { socket, datagram, transmit }) = self.queued.front() {
            match socket.send(&Transmit { contents: datagram, ..transmit.clone() }) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.full_ns = Some(monotonic_ns());
                    return;
                }
                // An earlier datagram caused this error (ICMP), and this call has cleared it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Ok(()) | Err(_) => drop(self.queued.pop_front()),
            }
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/reactor.rs"]
mod tests;
