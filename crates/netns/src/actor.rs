//! Runs a thread that executes the commands of other threads between its own work.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::poll::Waker;

/// A thread that executes commands. Dropping this value ends the thread.
pub struct Actor<C> {
    commands: Option<Sender<C>>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl<C: Send + 'static> Actor<C> {
    /// Starts a thread `name` that calls `work` with the channel of commands, and a waker that is signalled
    /// for each command. `work` must return once the channel is disconnected.
    pub fn start(
        name: &str,
        work: impl FnOnce(Receiver<C>, Arc<Waker>) + Send + 'static,
    ) -> io::Result<Self> {
        let (commands, received) = channel();
        let waker = Arc::new(Waker::new()?);
        let own = waker.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || work(received, own))?;
        Ok(Self { commands: Some(commands), waker, thread: Some(thread) })
    }

    /// Sends a command, which `command` creates with a channel for the answer. Returns the answer; `None` if
    /// the thread has ended.
    pub fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> C) -> Option<T> {
        let (answer, answered) = channel();
        self.commands.as_ref()?.send(command(answer)).ok()?;
        self.waker.wake();
        answered.recv().ok()
    }
}

impl<C> Drop for Actor<C> {
    fn drop(&mut self) {
        self.commands = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
