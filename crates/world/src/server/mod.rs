//! Runs an external server: a command that serves some of the page's hosts on port [`PORT`] of their
//! addresses. The built-in origins listen on port [`UPSTREAM_PORT`] of all hosts. The server can forward
//! requests to them, and clients connect to them directly for the hosts that the server does not serve.

mod files;
mod sockets;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fastopen_intercept::{Started, Watch};
use fastopen_link::ip::Addresses;
use fastopen_netns::namespace::NetNs;
use fastopen_netns::{Error, sysctl};
use fastopen_replay::origins::ServedResource;

pub use self::sockets::{Listening, ServerSockets};
use crate::contract::{Fault, Job, OriginSettings};
use crate::failure::{Blame, Failure};
use crate::sandbox::program::{Home, Program, SERVER_LINES, how_ended, start_in};

/// The port on which an external server must listen at its hosts' addresses, whatever the ports in the URLs.
pub const PORT: u16 = 80;
/// The port on which the built-in origins listen if there is an external server.
pub const UPSTREAM_PORT: u16 = 8080;

/// Maximum time from a server's start until it listens.
pub const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Start timeout if a server listens, but not at every address, or if its first process exited with code 0.
const GRACE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between checks of a server's sockets until it listens.
pub const START_INTERVAL: Duration = Duration::from_millis(20);
/// Interval at which the server's connections are checked until they are established or closed.
const INTERVAL: Duration = Duration::from_millis(1);
const MAY_WRITE: &str = "; a server may write only below its working directory: put logs, PID file and \
                         temporary files there (nginx -p ., see examples/servers/nginx.conf)";

/// Returns the port to which clients connect for URLs with `host` and `port`. This is `port` if there is no
/// external server. Otherwise it is [`PORT`] if the server serves the host, and [`UPSTREAM_PORT`] if not.
pub fn port_of(origins: &OriginSettings, host: &str, port: u16) -> u16 {
    match origins.server {
        None => port,
        Some(_) if origins.is_served(host) => PORT,
        // The server may listen on `PORT` of every address, including those of hosts that it does not serve.
        Some(_) => UPSTREAM_PORT,
    }
}

/// A running external server. Dropping this value ends the server.
pub struct Server {
    name: String,
    hosts: BTreeMap<String, IpAddr>,
    /// Fast Open queue length to set on listeners that have no such queue; None to leave them unchanged.
    queue: Option<u16>,
    program: RefCell<Program>,
    /// Enables Fast Open on the server's connections to the origins; None unless the job requests this.
    _watch: Option<Watch>,
    pub sockets: ServerSockets,
    home: Home,
}

impl Server {
    /// Starts the command line `words` as a job's server in the origins' `namespace`, and waits until it
    /// listens. Before that, writes the bodies of the server's hosts to files `site/HOST/PATH` in its working
    /// directory; `resources` contains the page's resources. If the server ends, or does not listen at its
    /// hosts' addresses in time, the error quotes its output.
    pub fn start(
        words: &[String],
        job: &Job,
        hosts: &BTreeMap<String, Addresses>,
        namespace: &NetNs,
        resources: &[ServedResource],
    ) -> Result<Self, Failure> {
        let home = Home::make("server").blame(Fault::Machine, "making a folder for the server")?;
        let written = files::write(&home.folder.join("site"), job, resources);
        written.blame(Fault::Machine, "writing the page's bodies for the server")?;
        let sockets = namespace.run(|| {
            // Lets the server listen on a port below 1024 without CAP_NET_BIND_SERVICE.
            sysctl::set("net.ipv4.ip_unprivileged_port_start", "0")?;
            let failed = |error| Error::other("subscribing to destroy events", error);
            ServerSockets::observe(namespace.clone(), !job.has_transactions()).map_err(failed)
        })?;
        let output = |home: &Home| home.command(words).and_then(|command| Ok((command, home.output.file()?)));
        let (mut command, stdout) = output(&home).blame(Fault::Machine, "making files for the server")?;
        command.stdout(stdout);
        let isolated = job.client.isolate;
        let (child, watch) = start_in(namespace, || {
            if job.origins.upstream_tfo {
                let Started { child, watch, .. } = home.start(command, None, isolated, "origins.server")?;
                return Ok((child, Some(watch)));
            }
            home.restrictions(isolated)()?;
            Ok((command.spawn().blame(Fault::Machine, "origins.server: starting it")?, None))
        })?;
        let path = Path::new(&words[0]);
        let own = hosts.iter().filter(|(host, _)| job.origins.is_served(host));
        let server = Self {
            name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            hosts: own.map(|(host, one)| (host.clone(), one.preferred)).collect(),
            queue: job.origins.server_listen.then_some(job.origins.tfo_queue),
            program: RefCell::new(Program(child)),
            _watch: watch,
            sockets,
            home,
        };
        server.wait_until_listening()?;
        Ok(server)
    }

    fn wait_until_listening(&self) -> Result<(), Failure> {
        let started = Instant::now();
        while let Some((timeout, what)) = self.problem()? {
            if started.elapsed() >= timeout {
                return Err(Failure::new(Fault::World, self.described(&what)));
            }
            thread::sleep(START_INTERVAL);
        }
        Ok(())
    }

    /// Prepares the server for a load: enables Fast Open on listeners without it, if the job requests this.
    /// Fails if the server no longer listens at the addresses of all its hosts.
    pub fn prepare(&self) -> Result<(), Failure> {
        if let Some(reason) = self.failure()? {
            return Err(Failure::new(Fault::World, reason));
        }
        let set = self.queue.map_or(Ok(()), |queue| self.sockets.set_missing_queues(queue));
        set.blame(Fault::Machine, "setting the Fast Open queue of the server's listeners")
    }

    /// Returns None if the server listens at the addresses of all its hosts; otherwise an error message.
    pub fn failure(&self) -> Result<Option<String>, Failure> {
        Ok(self.problem()?.map(|(_, what)| self.described(&what)))
    }

    /// Returns None if the server listens at the addresses of all its hosts. Otherwise returns how long
    /// after the server's start to tolerate the problem, and a description of the problem.
    fn problem(&self) -> Result<Option<(Duration, String)>, Failure> {
        let listening = self.sockets.listening().blame(Fault::Machine, "listing the server's sockets")?;
        let here = |host: &IpAddr| listening.iter().any(|one| one.at.port() == PORT && one.accepts(*host));
        let missing: Vec<_> = self.hosts.iter().filter(|(_, address)| !here(address)).collect();
        let Some((host, address)) = missing.first() else { return Ok(None) };
        let ended = self.program.borrow_mut().0.try_wait().blame(Fault::Machine, "waiting for the server")?;
        let elsewhere: Vec<_> = listening.iter().filter(|one| one.at.port() != UPSTREAM_PORT).collect();
        Ok(Some(match ended {
            Some(status) if !status.success() => (Duration::ZERO, how_ended(status)),
            _ if !elsewhere.is_empty() => {
                let places: Vec<_> = elsewhere.iter().map(|one| one.at.to_string()).collect();
                let wanted = if missing.len() == self.hosts.len() {
                    format!("not on port {PORT} of the page's hosts")
                } else {
                    format!("not on {address}:{PORT}, which is {host}'s")
                };
                (GRACE_TIMEOUT, format!("listens on {}, {wanted}", places.join(", ")))
            }
            // The first process of a daemon ends without an error, too.
            Some(status) => {
                (GRACE_TIMEOUT, format!("{}, and nothing listens on port {PORT}", how_ended(status)))
            }
            None => (START_TIMEOUT, format!("does not listen on port {PORT}")),
        }))
    }

    fn described(&self, what: &str) -> String {
        let words = self.home.output.last_lines(SERVER_LINES);
        let refused = ["Read-only file system", "Permission denied"].iter().any(|why| words.contains(why));
        let remedy = if refused { MAY_WRITE } else { "" };
        format!("the server {} {what}{words}{remedy}", self.name)
    }
}
