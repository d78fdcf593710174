//! Runs a program, such as a browser, in an emulated network. A thread intercepts the program's system calls
//! to enable TCP Fast Open, and reports the program's connections.

use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use fastopen_netns::actor::Actor;
use fastopen_netns::clock::exact_timers;
use fastopen_netns::poll::Waker;
use fastopen_netns::sock_diag::DestroyEvents;

use crate::Error;
use crate::filter;
use crate::supervisor::{Observer, Opened, Supervisor};

/// Maximum time for which a SYN waits for data to carry. It is long, because browsers always write first.
const FIRST_WRITE_TIMEOUT_NS: u64 = 10_000_000_000;

/// Intercepts a command's system calls (such as `connect`) until dropped. End the command before you drop
/// this value: the kernel makes the calls fail afterwards (ENOSYS).
pub struct Watch(Actor<Request>);

struct Request {
    next_port: Option<u16>,
    answer: Sender<io::Result<Vec<Opened>>>,
}

/// A command that was started, and whose system calls are intercepted.
pub struct Started {
    /// The command's process.
    pub child: Child,
    /// Time at which the child process executed the command (`exec`), in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// The interception of the command's system calls, which ends when this value is dropped.
    pub watch: Watch,
}

impl Watch {
    /// Starts `command` from a new thread, which calls `prepare` first. Enables Fast Open on connections, but
    /// not on listeners. Client ports increase from `first_port`; if `None`, the kernel chooses them.
    pub fn start(
        command: Command,
        first_port: Option<u16>,
        prepare: impl FnOnce() -> fastopen_netns::Result<()> + Send + 'static,
    ) -> Result<Started, Error> {
        let events = DestroyEvents::subscribe().map_err(Error::kernel("subscribing to destroy events"))?;
        let (listener, child, at_ns) = filter::spawn(command, prepare)?;
        let interception = move |requests: Receiver<Request>, waker: Arc<Waker>| {
            exact_timers();
            let mut supervisor = Supervisor::new(listener, events, FIRST_WRITE_TIMEOUT_NS);
            supervisor.gives_queues = false;
            supervisor.observer = Some(Observer { next_port: first_port, connections: Vec::new() });
            let _ = supervise(supervisor, &requests, &waker);
        };
        let actor = Actor::start("interception", interception);
        let actor = actor.map_err(Error::kernel("supervising the command"))?;
        Ok(Started { child, at_ns, watch: Self(actor) })
    }

    /// Returns the connections since the last call, including open ones, in the order of the `connect` calls.
    /// Later connections get client ports from `next_port` on; if it is `None`, the kernel chooses ports.
    pub fn connections(&self, next_port: Option<u16>) -> io::Result<Vec<Opened>> {
        let connections = self.0.ask(|answer| Request { next_port, answer });
        connections.unwrap_or_else(|| Err(io::Error::other("the interception has ended")))
    }
}

/// Answers intercepted system calls, and `requests` for the list of connections, until [`Watch`] is dropped.
fn supervise(mut supervisor: Supervisor, requests: &Receiver<Request>, waker: &Waker) -> io::Result<()> {
    loop {
        supervisor.step(waker.as_fd())?;
        waker.clear();
        loop {
            match requests.try_recv() {
                Ok(Request { next_port, answer }) => drop(answer.send(supervisor.connections(next_port))),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }
}
