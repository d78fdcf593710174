//! Connections that may be waiting for their first write, and when to look whether they still do.
//!
//! With a cookie at hand, `connect` returns at once and the first write sends the SYN. Where the server speaks first (SMTP,
//! FTP, databases), the client does not write: without help both would wait for ever.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::task::Task;

/// How long a connection may wait for its first write before its handshake is begun without data. Clients that write first do so
/// within a millisecond or two.
pub(crate) const PATIENCE_NS: u64 = 20_000_000;
/// The same where it is known that clients write first. A busy browser may take its time.
pub(crate) const LONG_PATIENCE_NS: u64 = 10_000_000_000;

/// How many are looked after at once: each holds a descriptor.
const MOST: usize = 4096;

/// A connection to be looked at.
pub(crate) struct Waiter {
    due_ns: u64,
    /// Who connected it, and under which descriptor.
    pub(crate) task: Rc<Task>,
    pub(crate) descriptor: i32,
    /// The socket's own number: the descriptor may mean another by then.
    pub(crate) cookie: u64,
}

/// Waiters in the order in which they are due.
pub(crate) struct Waiting {
    patience_ns: u64,
    waiters: VecDeque<Waiter>,
}

impl Waiting {
    pub(crate) fn new(patience_ns: u64) -> Self {
        Self { patience_ns, waiters: VecDeque::new() }
    }

    /// Has a connection looked at some time after `now_ns`.
    pub(crate) fn add(&mut self, now_ns: u64, task: Rc<Task>, descriptor: i32, cookie: u64) {
        if self.waiters.len() < MOST {
            self.waiters.push_back(Waiter { due_ns: now_ns + self.patience_ns, task, descriptor, cookie });
        }
    }

    /// Takes one that is due out.
    pub(crate) fn next_due(&mut self, now_ns: u64) -> Option<Waiter> {
        let due = self.waiters.front().is_some_and(|waiter| waiter.due_ns <= now_ns);
        if due { self.waiters.pop_front() } else { None }
    }

    /// How long until one is due.
    pub(crate) fn timeout_ns(&self, now_ns: u64) -> Option<u64> {
        self.waiters.front().map(|waiter| waiter.due_ns.saturating_sub(now_ns))
    }
}
