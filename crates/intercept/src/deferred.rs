//! Queues connections whose SYN may wait for the first write (`defer_connect`), to send overdue SYNs later.
//!
//! With a cookie and `TCP_FASTOPEN_CONNECT`, `connect` returns at once and the first write sends the SYN. If
//! the server speaks first (SMTP, FTP, databases), the client does not write, and both would wait forever.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::task::Task;

/// Time after which a connection's SYN is sent without data if the client has not written anything. Clients
/// that write first do so within a millisecond or two.
pub(crate) const FIRST_WRITE_TIMEOUT_NS: u64 = 20_000_000;
/// Time after which a client that always writes first, such as a browser, must send its SYN without data.
pub(crate) const LONG_FIRST_WRITE_TIMEOUT_NS: u64 = 10_000_000_000;

/// Maximum number of connections in the queue. Each may keep a descriptor of this process open (pidfd).
const CAPACITY: usize = 4096;

/// A connection whose SYN may still wait for the client's first write.
pub(crate) struct DeferredConnect {
    due_ns: u64,
    pub(crate) task: Rc<Task>,
    pub(crate) descriptor: i32,
    /// `SO_COOKIE` of the socket, which shows later if the descriptor was reused for another socket.
    pub(crate) cookie: u64,
}

pub(crate) struct DeferredConnects {
    timeout_ns: u64,
    queue: VecDeque<DeferredConnect>,
}

impl DeferredConnects {
    pub(crate) fn new(timeout_ns: u64) -> Self {
        Self { timeout_ns, queue: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, now_ns: u64, task: Rc<Task>, descriptor: i32, cookie: u64) {
        if self.queue.len() < CAPACITY {
            let due_ns = now_ns + self.timeout_ns;
            self.queue.push_back(DeferredConnect { due_ns, task, descriptor, cookie });
        }
    }

    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<DeferredConnect> {
        let due = self.queue.front().is_some_and(|connect| connect.due_ns <= now_ns);
        if due { self.queue.pop_front() } else { None }
    }

    pub(crate) fn timeout_ns(&self, now_ns: u64) -> Option<u64> {
        self.queue.front().map(|connect| connect.due_ns.saturating_sub(now_ns))
    }
}
