//! Runs an external server: a command that serves some hosts of the page on [`PORT`] of their addresses. The
//! built-in origins listen on [`UPSTREAM_PORT`] of the same addresses. The server may forward requests to
//! them, and clients reach them directly for the other hosts.

mod files;
mod sockets;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command};
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
use crate::sandbox::program::{Home, Program, how_ended};

/// The port on which a server must listen at its hosts' addresses, whatever ports the page's URLs have.
pub const PORT: u16 = 80;
/// The port on which the origins behind a server listen, at the same addresses.
pub const UPSTREAM_PORT: u16 = 8080;

const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter start timeout, for a server that listens elsewhere, or whose first process ended without an error.
const GRACE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between checks of the server's sockets until it listens.
const START_INTERVAL: Duration = Duration::from_millis(20);
/// Interval at which the server's connections are checked until they are established or closed.
const INTERVAL: Duration = Duration::from_millis(1);
const MAY_WRITE: &str = "; a server may write only below its working directory: put logs, PID file and \
                         temporary files there (nginx -p ., see examples/servers/nginx.conf)";
/// Maximum number of lines at the end of the server's output that an error quotes.
const LAST_LINES: usize = 4;

/// Returns the port that serves a host's URLs with `port`: with an external server 80 (its hosts) or 8080.
pub fn port_of(origins: &OriginSettings, host: &str, port: u16) -> u16 {
    match origins.server {
        None => port,
        Some(_) if origins.is_served(host) => PORT,
        // The server may listen on `PORT` of every address, including those of hosts that it does not serve.
        Some(_) => UPSTREAM_PORT,
    }
}

/// A running server. Dropping it ends the server.
pub struct Server {
    name: String,
    hosts: BTreeMap<String, IpAddr>,
    /// Fast Open queue length to set on listeners that have no such queue; None to leave them unchanged.
    queue: Option<u16>,
    program: RefCell<Program>,
    /// Intercepts the server's connections to the origins, if the job requests Fast Open for them.
    _watch: Option<Watch>,
    pub sockets: ServerSockets,
    home: Home,
}

impl Server {
    /// Starts the command line `words` as the server of a job in the origins' namespace, and waits until it
    /// listens. Before that, writes the bodies of its hosts to files (`site/HOST/PATH` in its working
    /// directory); `resources` are those of all hosts. If the server ends or does not listen at its hosts,
    /// the error quotes its output.
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
        let (child, watch) = spawn(command, namespace, &home, job)?;
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

    /// Prepares the server for a load. If the job requests this, sets a Fast Open queue on listeners that
    /// have none. Fails if the server no longer listens for all its hosts.
    pub fn prepare(&self) -> Result<(), Failure> {
        if let Some(reason) = self.failure()? {
            return Err(Failure::new(Fault::World, reason));
        }
        let set = self.queue.map_or(Ok(()), |queue| self.sockets.set_missing_queues(queue));
        set.blame(Fault::Machine, "setting the Fast Open queue of the server's listeners")
    }

    /// Returns the reason if the server no longer listens for all its hosts; otherwise None.
    pub fn failure(&self) -> Result<Option<String>, Failure> {
        Ok(self.problem()?.map(|(_, what)| self.described(&what)))
    }

    /// Returns None if the server listens for all its hosts. Otherwise returns the reason, and the time since
    /// the server's start from which this is an error.
    fn problem(&self) -> Result<Option<(Duration, String)>, Failure> {
        let listening = self.sockets.listening().blame(Fault::Machine, "listing the server's sockets")?;
        let here = |host: &IpAddr| listening.iter().any(|one| one.port == PORT && one.accepts(*host));
        let missing: Vec<_> = self.hosts.iter().filter(|(_, address)| !here(address)).collect();
        let Some((host, address)) = missing.first() else { return Ok(None) };
        let ended = self.program.borrow_mut().0.try_wait().blame(Fault::Machine, "waiting for the server")?;
        let elsewhere: Vec<_> = listening.iter().filter(|one| one.port != UPSTREAM_PORT).collect();
        Ok(Some(match ended {
            Some(status) if !status.success() => (Duration::ZERO, how_ended(status)),
            _ if !elsewhere.is_empty() => {
                let places: Vec<_> = elsewhere.iter().map(ToString::to_string).collect();
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
        let words = self.home.output.last_lines(LAST_LINES);
        let refused = ["Read-only file system", "Permission denied"].iter().any(|why| words.contains(why));
        let remedy = if refused { MAY_WRITE } else { "" };
        format!("the server {} {what}{words}{remedy}", self.name)
    }
}

/// Starts a server. Also returns the interceptor of its connections if the job requests Fast Open for them.
fn spawn(
    mut command: Command,
    namespace: &NetNs,
    home: &Home,
    job: &Job,
) -> Result<(Child, Option<Watch>), Failure> {
    let isolated = job.client.isolate;
    let start = || {
        namespace.enter()?;
        if job.origins.upstream_tfo {
            let Started { child, watch, .. } = home.start(command, None, isolated, "origins.server")?;
            return Ok((child, Some(watch)));
        }
        home.restrictions(isolated)()?;
        Ok((command.spawn().blame(Fault::Machine, "origins.server: starting it")?, None))
    };
    // A new thread, because the restrictions also apply to the thread that starts the server.
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("server".into()).spawn_scoped(scope, start);
        thread.blame(Fault::Machine, "starting a thread")?.join().expect("starting a server does not panic")
    })
}
