//! Starts the servers to which a command in the emulated network connects (`fastopen shell --serve`).

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use fastopen_intercept::Invocation;
use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::counters::CounterFiles;
use fastopen_netns::namespace::NetNs;
use fastopen_netns::process::kill_group;
use fastopen_netns::sandbox::{confine, protect_settings, restrict_sockets};
use serde::{Deserialize, Serialize};

use crate::contract::Fault;
use crate::failure::{Blame, Failure};
use crate::sandbox::program::{Output, SERVER_LINES, how_ended, start_in};
use crate::server::{START_INTERVAL, START_TIMEOUT, ServerSockets};

/// A program that serves a host of the emulated network.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServeCommand {
    /// Name of the host, which resolves to the host's address at both ends of the link.
    pub host: String,
    pub command: Vec<String>,
}

/// A running server. Dropping it ends the server.
pub struct Running {
    host: String,
    process: Child,
    /// The exit status, if another part of this program has reaped the process.
    status: Option<ExitStatus>,
    output: Output,
}

impl Running {
    /// Returns an error message if the server ended with an error. Returns None if the server still runs, or
    /// ended without an error, as the first process of a daemon does.
    pub fn failure(&mut self) -> Option<String> {
        let status = self.status.or_else(|| self.process.try_wait().ok()?);
        let status = status.filter(|status| !status.success())?;
        Some(described(&self.host, &how_ended(status), &self.output))
    }
}

/// Stores the exit status of a process that was reaped elsewhere, if the process is one of these servers.
pub fn note_reaped(servers: &mut [Running], process: u32, status: ExitStatus) {
    if let Some(server) = servers.iter_mut().find(|server| server.process.id() == process) {
        server.status = Some(status);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill_group(&self.process);
        let _ = self.process.wait();
    }
}

fn described(host: &str, how: &str, output: &Output) -> String {
    format!("server {host}: {how}{}", output.last_lines(SERVER_LINES))
}

/// Starts the servers in the namespace `origins`, in a sandbox if `isolated` is true. Starts each server when
/// the previous one listens. If a server fails or does not listen in time, the error quotes its output. For
/// `environment`, see [`Invocation`].
pub fn start_all(
    servers: &[ServeCommand],
    environment: Option<&[(OsString, OsString)]>,
    origins: &NetNs,
    isolated: bool,
) -> Result<Vec<Running>, Failure> {
    let start = |(number, server): (usize, &ServeCommand)| {
        let words: Vec<_> = server.command.iter().map(OsString::from).collect();
        let command = Invocation { words: &words, environment }.command();
        start(&server.host, command, number, origins, isolated)
    };
    servers.iter().enumerate().map(start).collect()
}

fn start(
    host: &str,
    mut command: Command,
    number: usize,
    origins: &NetNs,
    isolated: bool,
) -> Result<Running, Failure> {
    // The file's folder may be shared with other instances of this program, so the name must be unique.
    let output = Output::named(&format!("server-{number}-{}", monotonic_ns()));
    let file = output.file().blame(Fault::Machine, "making a file for a server's output")?;
    command.process_group(0).stdin(Stdio::null());
    command.stdout(file.try_clone().blame(Fault::Machine, "the server's output")?).stderr(file);
    if isolated {
        confine(&mut command);
    }
    let before = sockets(origins)?;
    let spawned = start_in(origins, || {
        if isolated {
            protect_settings()?;
            restrict_sockets(true)?;
        }
        command.spawn().blame(Fault::Input, format!("starting {}", command.get_program().to_string_lossy()))
    });
    let process = spawned
        .map_err(|failure| Failure { message: described(host, &failure.message, &output), ..failure })?;
    let mut running = Running { host: host.to_owned(), process, status: None, output };
    let started = Instant::now();
    // In virtual time this timeout does not run while the server computes.
    while sockets(origins)? <= before {
        if let Some(failure) = running.failure() {
            return Err(Failure::new(Fault::Input, failure));
        }
        if started.elapsed() >= START_TIMEOUT {
            let how = format!("listens on no port after {} s", START_TIMEOUT.as_secs());
            return Err(Failure::new(Fault::Input, described(host, &how, &running.output)));
        }
        thread::sleep(START_INTERVAL);
    }
    Ok(running)
}

/// Returns the number of sockets in a network namespace that wait for clients: TCP listeners and UDP sockets.
fn sockets(namespace: &NetNs) -> Result<u64, Failure> {
    let listening = ServerSockets::observe(namespace.clone(), false).map(|sockets| sockets.listening());
    let listeners = listening.blame(Fault::Machine, "listing sockets")??.len();
    Ok(listeners as u64 + namespace.run(CounterFiles::open)?.udp_sockets()?)
}
