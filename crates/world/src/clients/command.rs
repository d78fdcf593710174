//! Any command as a client: it runs under interception once for each load, in a folder of its own. Its load
//! ends with its exit.

use std::num::NonZeroU8;
use std::process::ExitStatus;

use fastopen_intercept::{Started, Watch};
use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::process::{end_all_others, wait_until_ended};
use fastopen_netns::sandbox::{protect_files, restrict_sockets};

use crate::clients::{Loaded, Loading, UserAgent, seen_at_origins};
use crate::contract::{ClientSettings, Fault};
use crate::failure::{Blame, Failure};
use crate::program::{Home, how_ended};

/// A command line.
pub struct CommandLine {
    words: Vec<String>,
    isolated: bool,
    /// Exit codes besides 0 by which it says that it loaded the page.
    exit_codes: Vec<NonZeroU8>,
}

impl CommandLine {
    /// The command of these settings, which have one.
    pub fn new(settings: &ClientSettings) -> Self {
        let words = settings.command.clone().unwrap_or_default();
        Self { words, isolated: settings.isolate, exit_codes: settings.exit_codes.clone() }
    }

    fn has_loaded(&self, status: ExitStatus) -> bool {
        let known = |code: i32| self.exit_codes.iter().any(|one| i32::from(one.get()) == code);
        status.success() || status.code().is_some_and(known)
    }

    fn failed(&self, status: ExitStatus, home: &Home) -> String {
        format!("{} {}{}", self.words[0], how_ended(status), home.last_lines(1))
    }
}

impl UserAgent for CommandLine {
    /// Runs the command. The page load time is the time from the execution of its program to its exit.
    fn load(&mut self, loading: &Loading, after: &mut dyn FnMut()) -> Result<Loaded, Failure> {
        let home = Home::make("client").blame(Fault::Machine, "making a folder for the client")?;
        let command = home.command(&self.words).blame(Fault::Machine, "making a file for the client")?;
        let folder = home.folder.clone();
        let isolated = self.isolated;
        let started = Watch::start(command, loading.first_port, move || {
            protect_files(&folder)?;
            // All of the machine's files hold UNIX sockets too.
            restrict_sockets(isolated)
        });
        let Started { mut child, at_ns, watch } = started.map_err(|failure| Failure {
            fault: Fault::Machine,
            message: format!("client.command: {failure}"),
            remedy: failure.remedy().into(),
        })?;
        let waiting = "waiting for the client";
        let ended = wait_until_ended(&child, at_ns + loading.timeout_ns).blame(Fault::Machine, waiting)?;
        let end_ns = monotonic_ns();
        let unfinished = if ended {
            let status = child.wait().blame(Fault::Machine, waiting)?;
            (!self.has_loaded(status)).then(|| self.failed(status, &home))
        } else {
            Some(format!("{} was not done in the time given{}", self.words[0], home.last_lines(1)))
        };
        let opened = watch.connections(None);
        let opened = opened.blame(Fault::Machine, "reading the kernel's word on the client's connections");
        // Kernels of the virtual engine did not always have it.
        let remedy = || "where this is the virtual engine: fastopen kernel build".into();
        let opened = opened.map_err(|failure| Failure { remedy: remedy(), ..failure })?;
        let plt_ns = unfinished.is_none().then_some(end_ns - at_ns);
        let loaded = seen_at_origins::loaded(loading, at_ns, &opened, plt_ns, unfinished);
        after();
        let _ = child.kill();
        let _ = child.wait();
        end_all_others();
        Ok(loaded)
    }
}
