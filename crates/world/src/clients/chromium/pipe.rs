//! Speaks the `DevTools` protocol over two pipes (`--remote-debugging-pipe`): JSON messages that end with a
//! NUL. Over a socket, these messages would add traffic to the client's network.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::poll::wait_readable;
use serde_json::{Value, json};

/// The pipes to and from a browser, and the browser's events that have not been handled yet.
pub(super) struct Pipe {
    to: ChildStdin,
    from: ChildStdout,
    read: Vec<u8>,
    /// Number of bytes at the start of `read` that are known to contain no NUL.
    scanned: usize,
    calls: u64,
    events: VecDeque<Event>,
    /// ID of the liveness check that the page has not answered yet.
    pub(super) awaited: Option<u64>,
}

/// An event that the browser reported.
#[derive(Debug)]
pub(super) struct Event {
    /// Name of the event, such as `Page.loadEventFired`.
    pub(super) method: String,
    pub(super) params: Value,
    /// The `sessionId` of the tab; None for an event of the browser itself.
    pub(super) session: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PipeError {
    #[error("the browser has ended")]
    Ended,
    #[error("the browser did not answer within the time limit")]
    TimedOut,
    #[error("{0}")]
    Refused(String),
    #[error("talking to the browser: {0}")]
    Broken(#[from] io::Error),
}

impl Pipe {
    pub(super) fn new(to: ChildStdin, from: ChildStdout) -> Self {
        Self { to, from, read: Vec::new(), scanned: 0, calls: 0, events: VecDeque::new(), awaited: None }
    }

    /// Calls a method of a tab (of the browser if `session` is None). Waits for the result until `until_ns`.
    pub(super) fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
        until_ns: u64,
    ) -> Result<Value, PipeError> {
        let id = self.send(session, method, params)?;
        loop {
            let mut message = self.message(until_ns)?;
            if message["id"] == id {
                if let Some(error) = message.get("error") {
                    let message = error["message"].as_str().unwrap_or("refused");
                    return Err(PipeError::Refused(format!("{method}: {message}")));
                }
                return Ok(message["result"].take());
            }
            self.queue_event(message);
        }
    }

    /// Calls a method of the tab `session`, or of the browser if it is None. Returns the call's ID at once.
    pub(super) fn send(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<u64, PipeError> {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => PipeError::Ended,
            _ => PipeError::Broken(error),
        })?;
        Ok(self.calls)
    }

    /// Waits for the browser's next event. Fails with [`PipeError::TimedOut`] if there is none by `until_ns`.
    pub(super) fn event(&mut self, until_ns: u64) -> Result<Event, PipeError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let message = self.message(until_ns)?;
            self.queue_event(message);
        }
    }

    fn queue_event(&mut self, mut message: Value) {
        if let Some(method) = message["method"].as_str().map(str::to_owned) {
            let session = message["sessionId"].as_str().map(str::to_owned);
            self.events.push_back(Event { method, params: message["params"].take(), session });
        } else if self.awaited.is_some() && message["id"].as_u64() == self.awaited {
            self.awaited = None;
        }
    }

    fn message(&mut self, until_ns: u64) -> Result<Value, PipeError> {
        loop {
            if let Some(at) = self.read[self.scanned..].iter().position(|byte| *byte == 0) {
                let rest = self.read.split_off(self.scanned + at + 1);
                let message = std::mem::replace(&mut self.read, rest);
                self.scanned = 0;
                return serde_json::from_slice(&message[..message.len() - 1])
                    .map_err(|error| PipeError::Broken(error.into()));
            }
            self.scanned = self.read.len();
            let Some(left) = until_ns.checked_sub(monotonic_ns()).filter(|left| *left > 0) else {
                return Err(PipeError::TimedOut);
            };
            if wait_readable(&[self.from.as_fd()], Some(left))?[0].is_empty() {
                continue;
            }
            let mut chunk = vec![0; 1 << 16];
            match self.from.read(&mut chunk)? {
                0 => return Err(PipeError::Ended),
                count => self.read.extend_from_slice(&chunk[..count]),
            }
        }
    }
}
