//! Connections that may be waiting for their first write, and when to look whether they still do.
//!
//! With a cookie at hand, `connect` returns at once and the first write sends the SYN. Where the server speaks first (SMTP,
//! FTP, databases), the client does not write: without help both would wait for ever.

use std::collections::VecDeque;

use crate::task::Task;

/// How long a connection may wait for its first write before its handshake is begun without data. Clients that write first do so
/// within a millisecond or two.
const PATIENCE_NS: u64 = 20_000_000;

/// How many are looked after at once: each holds a descriptor.
const MOST: usize = 4096;

/// A connection to be looked at.
pub(crate) struct Waiter {
    due_ns: u64,
    /// Who connected it, and under which descriptor.
    pub(crate) task: Task,
    pub(crate) descriptor: i32,
    /// The socket's own number: the descriptor may mean another by then.
    pub(crate) cookie: u64,
}

/// Waiters in the order in which they are due.
#[derive(Default)]
pub(crate) struct Waiting(VecDeque<Waiter>);

impl Waiting {
    /// Has a connection looked at some time after `now_ns`.
    pub(crate) fn add(&mut self, now_ns: u64, task: Task, descriptor: i32, cookie: u64) {
        if self.0.len() < MOST {
            self.0.push_back(Waiter { due_ns: now_ns + PATIENCE_NS, task, descriptor, cookie });
        }
    }

    /// Takes one that is due out.
    pub(crate) fn next_due(&mut self, now_ns: u64) -> Option<Waiter> {
        let due = self.0.front().is_some_and(|waiter| waiter.due_ns <= now_ns);
        if due { self.0.pop_front() } else { None }
    }

    /// How long until one is due.
    pub(crate) fn timeout_ns(&self, now_ns: u64) -> Option<u64> {
        self.0.front().map(|waiter| waiter.due_ns.saturating_sub(now_ns))
    }
}
