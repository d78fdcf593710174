//! Puts a server under load with transactions (a connection, a request, its response), from one thread in the
//! client's namespace. Transactions begin when they are due, independently of earlier ones (open loop), or
//! one after another for each client (closed loop).
//!
//! The latency of a transaction counts from the time when it was due, so that a stalled generator or server
//! does not hide the waiting time of later transactions (coordinated omission).

pub mod flood;
mod transaction;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::poll::Timer;
use hdrhistogram::Histogram;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use self::transaction::{End, Transaction};
use crate::contract::{Arrivals, TransactionsPlan};
use crate::evidence::transactions::Outcome;

const MOST_AT_ONCE: usize = 20_000;
/// Maximum time in ns for the last transactions to end: enough for SYN retransmissions after 1, 2 and 4 s.
const DRAIN_NS: u64 = 10_000_000_000;
/// Maximum number of events that one call of `epoll_wait` returns.
const EVENTS: usize = 256;
/// The epoll token of the timer. Other tokens are the numbers of transactions.
const TIMER: u64 = u64::MAX;

pub struct Target {
    pub server: SocketAddr,
    pub request: Vec<u8>,
    /// The expected response: its status, and the size of its body in bytes.
    pub answer: (u16, u64),
}

/// Maps the number of a transaction to its source address and port; None if no address is left.
pub type Sources<'a> = &'a dyn Fn(u64) -> Option<SocketAddr>;

/// Performs the transactions of `plan`, from the addresses of `sources`, and returns the outcome. Requests
/// `targets` in turn. Calls `halfway` once, after half of the duration. If `halfway` fails, stops and returns
/// its error.
pub fn run(
    plan: &TransactionsPlan,
    targets: &[Target],
    fastopen: bool,
    sources: Sources,
    halfway: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<Outcome> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let mut timer = Timer::new()?;
    epoll.add(timer.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
    let (start_ns, duration_ns) = (monotonic_ns(), plan.duration_us * 1000);
    let mut generator = Generator {
        plan,
        targets,
        fastopen,
        sources,
        epoll,
        start_ns,
        end_ns: start_ns + duration_ns,
        scheduled: 0,
        under_way: BTreeMap::new(),
        outcome: Outcome::default(),
        buffer: vec![0; 1 << 16],
    };
    // The time at which to call `halfway`; None after the call.
    let mut half_ns = Some(start_ns + duration_ns / 2);
    let mut events = [EpollEvent::empty(); EVENTS];
    loop {
        let now_ns = monotonic_ns();
        if half_ns.is_some_and(|half_ns| now_ns >= half_ns) {
            half_ns = None;
            halfway()?;
        }
        generator.begin_due(now_ns);
        let next_ns = generator.next_arrival_ns();
        if next_ns.is_none() && generator.under_way.is_empty() && half_ns.is_none() {
            break;
        }
        let drained_ns = generator.end_ns + DRAIN_NS;
        if now_ns >= drained_ns {
            generator.give_up();
            break;
        }
        timer.set([next_ns, half_ns, Some(drained_ns)].into_iter().flatten().min())?;
        let count = generator.epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..count] {
            if event.data() != TIMER {
                generator.advance(event.data());
            }
        }
    }
    generator.outcome.elapsed_ns = monotonic_ns() - start_ns;
    Ok(generator.outcome)
}

struct Generator<'a> {
    plan: &'a TransactionsPlan,
    targets: &'a [Target],
    fastopen: bool,
    sources: Sources<'a>,
    epoll: Epoll,
    start_ns: u64,
    end_ns: u64,
    /// Number of transactions that have become due so far; in a closed loop, only the first of each client.
    scheduled: u64,
    /// The transactions that have not ended, by number.
    under_way: BTreeMap<u64, Transaction<'a>>,
    outcome: Outcome,
    buffer: Vec<u8>,
}

impl Generator<'_> {
    /// Returns the time of the next scheduled transaction; None if no more are scheduled.
    fn next_arrival_ns(&self) -> Option<u64> {
        let due_ns = match self.plan.arrivals {
            Arrivals::RatePerS(rate) => {
                let since_ns = u128::from(self.scheduled) * 1_000_000_000 / u128::from(rate);
                self.start_ns + since_ns as u64
            }
            Arrivals::Clients(clients) if self.scheduled < clients.into() => self.start_ns,
            Arrivals::Clients(_) => return None,
        };
        (due_ns < self.end_ns).then_some(due_ns)
    }

    fn begin_due(&mut self, mut now_ns: u64) {
        while let Some(due_ns) = self.next_arrival_ns().filter(|due_ns| *due_ns <= now_ns) {
            self.scheduled += 1;
            self.begin(due_ns, now_ns);
            now_ns = monotonic_ns();
        }
    }

    fn begin(&mut self, due_ns: u64, now_ns: u64) {
        let number = self.outcome.begun;
        let has_room = self.under_way.len() < MOST_AT_ONCE;
        let Some(from) = (self.sources)(number).filter(|_| has_room) else {
            self.outcome.not_begun += 1;
            return;
        };
        let late_ns = now_ns - due_ns;
        self.outcome.arrived_over_ns = now_ns - self.start_ns;
        self.outcome.begun += 1;
        self.outcome.late += u64::from(late_ns > self.plan.late_us * 1000);
        self.outcome.lateness_us.0.saturating_record(late_ns / 1000);
        let target = &self.targets[(number % self.targets.len() as u64) as usize];
        match Transaction::begin(target, self.fastopen, from, due_ns, &self.epoll, number) {
            Ok(transaction) => {
                self.under_way.insert(number, transaction);
                self.advance(number);
            }
            Err(error) => self.outcome.failed(&error.to_string()),
        }
    }

    fn advance(&mut self, number: u64) {
        let Entry::Occupied(mut entry) = self.under_way.entry(number) else { return };
        let Some(end) = entry.get_mut().advance(&mut self.buffer) else { return };
        let transaction = entry.remove();
        count(&mut self.outcome, &transaction, end);
        drop(transaction);
        let now_ns = monotonic_ns();
        if matches!(self.plan.arrivals, Arrivals::Clients(_)) && now_ns < self.end_ns {
            self.begin(now_ns, now_ns);
        }
    }

    fn give_up(&mut self) {
        for transaction in std::mem::take(&mut self.under_way).into_values() {
            transaction.reset();
            let what = format!("no answer {} s after the end", DRAIN_NS / 1_000_000_000);
            count(&mut self.outcome, &transaction, End::Failed(what));
        }
    }
}

fn count(outcome: &mut Outcome, transaction: &Transaction, end: End) {
    if let Some(info) = transaction.info() {
        outcome.syn_data += u64::from(info.syn_data_acked());
        outcome.fallbacks += u64::from(info.fastopen_client_fail > COOKIE_UNAVAILABLE);
        outcome.retransmits += u64::from(info.retransmits);
    }
    match end {
        End::Answered { at_ns, latency_ns } => {
            outcome.answered += 1;
            let (first_ns, _) = outcome.answered_ns.unwrap_or((at_ns, at_ns));
            outcome.answered_ns = Some((first_ns, at_ns));
            outcome.latency_us.0.saturating_record(latency_ns / 1000);
        }
        End::Wrong(what) => {
            outcome.wrong_responses += 1;
            outcome.failed(&what);
        }
        End::Failed(what) => outcome.failed(&what),
    }
}

/// `TFO_COOKIE_UNAVAILABLE` of include/uapi/linux/tcp.h: the client had no cookie. Not counted as a fallback.
const COOKIE_UNAVAILABLE: u8 = 1;

/// Returns the values recorded in the histogram, rounded down to its precision, each with its count.
pub fn counted_values(histogram: &Histogram<u64>) -> Vec<[u64; 2]> {
    let counted = histogram.iter_recorded();
    counted.map(|one| [histogram.lowest_equivalent(one.value_iterated_to()), one.count_at_value()]).collect()
}

/// Returns the `most` most frequent failures (or all, if there are fewer), each with its count.
pub fn most_frequent(failures: &BTreeMap<String, u64>, most: usize) -> BTreeMap<String, u64> {
    let mut sorted: Vec<_> = failures.iter().map(|(what, count)| (what.clone(), *count)).collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sorted.into_iter().take(most).collect()
}
