//! The `DevTools` protocol over two pipes: JSON messages, each with a NUL at its end.
//!
//! `--remote-debugging-pipe` needs no socket: nothing of the driver's is on the client's network.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::poll::wait_readable;
use serde_json::{Value, json};

/// Both ends of a browser's ear.
pub(super) struct Pipe {
    to: ChildStdin,
    from: ChildStdout,
    read: Vec<u8>,
    /// How far `read` was looked through for an end.
    looked: usize,
    calls: u64,
    events: VecDeque<Event>,
}

/// Something that the browser tells without being asked.
#[derive(Debug)]
pub(super) struct Event {
    /// What, such as `Page.loadEventFired`.
    pub(super) method: String,
    /// The rest.
    pub(super) params: Value,
}

/// Why the browser does not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Silence {
    /// It has ended.
    #[error("the browser has ended")]
    Ended,
    /// It takes too long.
    #[error("the browser did not answer in the time given")]
    Late,
    /// It cannot do what it was asked.
    #[error("{0}")]
    Refused(String),
    /// The pipe is broken.
    #[error("talking to the browser: {0}")]
    Broken(#[from] io::Error),
}

impl Pipe {
    /// Talks over these.
    pub(super) fn new(to: ChildStdin, from: ChildStdout) -> Self {
        Self { to, from, read: Vec::new(), looked: 0, calls: 0, events: VecDeque::new() }
    }

    /// Asks the browser (or the page of `session`) for something and waits for the answer.
    ///
    /// # Errors
    /// [`Silence`].
    pub(super) fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
        until_ns: u64,
    ) -> Result<Value, Silence> {
        let id = self.send(session, method, params)?;
        loop {
            let mut message = self.message(until_ns)?;
            if message["id"] == id {
                if let Some(error) = message.get("error") {
                    let said = error["message"].as_str().unwrap_or("refused");
                    return Err(Silence::Refused(format!("{method}: {said}")));
                }
                return Ok(message["result"].take());
            }
            self.keep(message);
        }
    }

    /// Asks without waiting; the answer is thrown away.
    ///
    /// # Errors
    /// Where the browser has ended.
    pub(super) fn send(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<u64, Silence> {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Silence::Ended,
            _ => Silence::Broken(error),
        })?;
        Ok(self.calls)
    }

    /// The next event.
    ///
    /// # Errors
    /// [`Silence::Late`] where there is none until then.
    pub(super) fn event(&mut self, until_ns: u64) -> Result<Event, Silence> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let message = self.message(until_ns)?;
            self.keep(message);
        }
    }

    fn keep(&mut self, mut message: Value) {
        if let Some(method) = message["method"].as_str().map(str::to_owned) {
            self.events.push_back(Event { method, params: message["params"].take() });
        }
    }

    fn message(&mut self, until_ns: u64) -> Result<Value, Silence> {
        loop {
            if let Some(at) = self.read[self.looked..].iter().position(|byte| *byte == 0) {
                let rest = self.read.split_off(self.looked + at + 1);
                let message = std::mem::replace(&mut self.read, rest);
                self.looked = 0;
                return serde_json::from_slice(&message[..message.len() - 1])
                    .map_err(|error| Silence::Broken(error.into()));
            }
            self.looked = self.read.len();
            let Some(left) = until_ns.checked_sub(monotonic_ns()).filter(|left| *left > 0) else {
                return Err(Silence::Late);
            };
            // Nothing is timed by this: a load's times are the browser's own.
            wait_readable(&[self.from.as_fd()], Some(left))?;
            if !self.is_readable()? {
                continue;
            }
            let mut chunk = vec![0; 1 << 16];
            match self.from.read(&mut chunk)? {
                0 => return Err(Silence::Ended),
                count => self.read.extend_from_slice(&chunk[..count]),
            }
        }
    }

    fn is_readable(&self) -> io::Result<bool> {
        let mut polled = [nix::poll::PollFd::new(self.from.as_fd(), nix::poll::PollFlags::POLLIN)];
        Ok(nix::poll::poll(&mut polled, nix::poll::PollTimeout::ZERO)? > 0)
    }
}
