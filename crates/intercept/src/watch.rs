//! A command of this process's own under interception: a thread helps it, and tells of each of its connections.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use fastopen_netns::clock::{exact_timers, monotonic_ns};
use fastopen_netns::poll::{Waker, wait_readable};

use crate::Failure;
use crate::command::{cannot_run, forbidden};
use crate::diag::Ends;
use crate::filter;
use crate::supervisor::{Opened, Supervisor, Told};
use crate::waiting::LONG_PATIENCE_NS;

/// A command at work. What it still wants to connect when this is dropped, the kernel refuses (ENOSYS): end it before.
pub struct Watch {
    questions: Option<Sender<Question>>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is asked.
struct Question {
    next_port: Option<u16>,
    answer: Sender<io::Result<Vec<Opened>>>,
}

/// A command that was started.
pub struct Started {
    /// Its process.
    pub child: Child,
    /// When it was begun, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// Who helps it.
    pub watch: Watch,
}

impl Watch {
    /// Starts `command` from a thread of its own, which is in the caller's namespaces, runs `prepare` there first, and ends. Connections get
    /// ports from `first_port` on (none: the kernel's choice).
    ///
    /// # Errors
    /// Where `prepare` fails, there is no such command, or the kernel has no interception.
    pub fn start(
        mut command: Command,
        first_port: Option<u16>,
        prepare: impl FnOnce() -> fastopen_netns::Result<()> + Send + 'static,
    ) -> Result<Started, Failure> {
        let machine = |doing: &'static str| move |error: io::Error| Failure::machine(doing, &error);
        let ends = Ends::listen().map_err(machine("listening to the ends of TCP sockets"))?;
        let start = move || {
            prepare().map_err(|error| Failure::machine("before the command", &error))?;
            let listener = filter::install().map_err(|error| forbidden(&error))?;
            let at_ns = monotonic_ns();
            let name = command.get_program().to_string_lossy().into_owned();
            let child = command.spawn().map_err(|error| cannot_run(&name, &error))?;
            Ok((listener, child, at_ns))
        };
        let (listener, child, at_ns) =
            thread::spawn(start).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let watch = Self::over(listener, ends, first_port).map_err(machine("helping the command"))?;
        Ok(Started { child, at_ns, watch })
    }

    fn over(listener: OwnedFd, ends: Ends, first_port: Option<u16>) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        let (questions, asked) = channel();
        let woken = waker.clone();
        let thread = thread::Builder::new().name("interception".into()).spawn(move || {
            exact_timers();
            let mut supervisor = Supervisor::new(listener, ends, LONG_PATIENCE_NS);
            supervisor.told = Some(Told { next_port: first_port, known: Vec::new() });
            let _ = help(supervisor, &asked, &woken);
        })?;
        Ok(Self { questions: Some(questions), waker, thread: Some(thread) })
    }

    /// The connections since this was asked last, those that still live included, in order of opening. Later ones get ports from
    /// `next_port` on (none: the kernel's choice).
    ///
    /// # Errors
    /// Where the kernel does not list its sockets.
    pub fn connections(&self, next_port: Option<u16>) -> io::Result<Vec<Opened>> {
        let gone = || io::Error::other("the interception has ended");
        let (answer, answered) = channel();
        let questions = self.questions.as_ref().ok_or_else(gone)?;
        questions.send(Question { next_port, answer }).map_err(|_| gone())?;
        self.waker.wake();
        answered.recv().map_err(|_| gone())?
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.questions = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers held calls and questions until nobody asks any more.
fn help(mut supervisor: Supervisor, asked: &Receiver<Question>, woken: &Waker) -> io::Result<()> {
    // Hung up once nobody is under the filter: then it would be ready for ever.
    let mut anybody = true;
    loop {
        let mut descriptors = vec![woken.as_fd(), supervisor.ends.as_fd()];
        if anybody {
            descriptors.push(supervisor.listener.as_fd());
        }
        wait_readable(&descriptors, supervisor.timeout_ns())?;
        if anybody {
            anybody = supervisor.answer_if_held()?;
        }
        supervisor.hear_ends();
        supervisor.look_after_waiting();
        woken.clear();
        loop {
            match asked.try_recv() {
                Ok(Question { next_port, answer }) => drop(answer.send(supervisor.connections(next_port))),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }
}
