//! Uses any command as a client. The command runs once for each load, in a new folder. Its system calls are
//! intercepted, to enable Fast Open and to observe connections. The load ends when the command exits. To
//! resume a TLS session of an earlier visit, the command runs twice in the same folder.

use fastopen_intercept::{Started, Watch};
use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::process::wait_until_ended;

use crate::clients::{Loaded, Loading, UserAgent, seen_at_origins};
use crate::contract::Fault;
use crate::engine::first_port;
use crate::failure::{Blame, Failure};
use crate::sandbox::program::{Home, Program, how_ended};

/// A client that runs the command line `client.command` of the job.
#[derive(Default)]
pub struct CommandLine {
    /// The folder in which the command ran before the measured load, with TLS sessions that it stored.
    visited: Option<Home>,
}

struct Run {
    /// The command's process. Dropped before `watch`, which handles some system calls of the process.
    _program: Program,
    watch: Watch,
    start_ns: u64,
    end_ns: u64,
    /// The reason why the load failed; None if it succeeded.
    unfinished: Option<String>,
}

fn run(loading: &Loading, home: &Home) -> Result<Run, Failure> {
    let settings = &loading.job.client;
    let words = settings.command.as_deref().unwrap_or_default();
    let command = home.command(words).blame(Fault::Machine, "making a file for the client")?;
    let first_port = first_port(loading.engine);
    let Started { child, at_ns, watch } =
        home.start(command, first_port, settings.isolate, "client.command")?;
    let mut program = Program(child);
    let waiting = "waiting for the client";
    let ended = wait_until_ended(&program.0, at_ns + loading.timeout_ns()).blame(Fault::Machine, waiting)?;
    let end_ns = monotonic_ns();
    let problem = if ended {
        let status = program.0.wait().blame(Fault::Machine, waiting)?;
        let means_complete = |code: i32| settings.exit_codes.iter().any(|one| i32::from(one.get()) == code);
        let complete = status.success() || status.code().is_some_and(means_complete);
        (!complete).then(|| how_ended(status))
    } else {
        Some("did not end within the time limit".into())
    };
    let described = |how| format!("{} {how}{}", words[0], home.output.last_lines(1));
    Ok(Run { _program: program, watch, start_ns: at_ns, end_ns, unfinished: problem.map(described) })
}

fn new_home() -> Result<Home, Failure> {
    Home::make("client").blame(Fault::Machine, "making a folder for the client")
}

impl UserAgent for CommandLine {
    /// Runs the command before the measured load. Keeps its folder, which may now contain TLS sessions.
    fn visit(&mut self, loading: &Loading) -> Result<(), Failure> {
        self.visited = None;
        let home = new_home()?;
        let unfinished = run(loading, &home)?.unfinished;
        self.visited = Some(home);
        unfinished.map_or(Ok(()), Err).blame(Fault::World, "the earlier visit")
    }

    /// Runs the command, then calls `after`. The page load time lasts from the command's start to its exit.
    fn load(&mut self, loading: &Loading, after: &mut dyn FnMut()) -> Result<Loaded, Failure> {
        let home = self.visited.take().map_or_else(new_home, Ok)?;
        let run = run(loading, &home)?;
        let opened = run.watch.connections(None);
        let opened = opened.blame(Fault::Machine, "reading the client's connections from the kernel");
        // Older kernels of the virtual engine do not report the connections.
        let remedy = "with the virtual engine, run fastopen kernel build";
        let opened = opened.map_err(|failure| failure.with_remedy(remedy))?;
        let plt_ns = run.unfinished.is_none().then_some(run.end_ns - run.start_ns);
        let loaded = seen_at_origins::load_results(loading, run.start_ns, &opened, plt_ns, run.unfinished);
        after();
        Ok(loaded)
    }
}
