//! Any command as a client: it runs under interception once for each load, in a folder of its own. Its load
//! ends with its exit.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus, Stdio};

use fastopen_intercept::{Started, Watch};
use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::namespace::scratch;
use fastopen_netns::process::{end_all_others, wait_until_ended};
use fastopen_netns::sandbox::{confine, protect_files, restrict_sockets};

use crate::clients::{Loaded, Loading, UserAgent, seen_at_origins};
use crate::contract::Fault;
use crate::failure::{Blame, Failure};

/// The environment of the client besides `PATH`, `HOME` and `TMPDIR`.
const ENVIRONMENT: [(&str, &str); 4] =
    [("LANG", "C.UTF-8"), ("TERM", "dumb"), ("TZ", "UTC"), ("USER", "user")];
/// The `PATH` of the client if this program has none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Bytes at the end of standard error that are searched for the last line.
const STDERR_TAIL_BYTES: u64 = 4096;

/// A command line.
pub struct CommandLine {
    words: Vec<String>,
    isolated: bool,
}

impl CommandLine {
    /// The command with these words, at least one; `isolated` is whether it sees only what programs need.
    pub fn new(words: Vec<String>, isolated: bool) -> Self {
        Self { words, isolated }
    }

    fn command(&self, home: &Home) -> std::io::Result<process::Command> {
        let mut command = process::Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").filter(|path| !path.is_empty()).unwrap_or(PATH.into()))
            .envs(ENVIRONMENT)
            .envs([("HOME", &home.folder), ("TMPDIR", &home.folder)])
            .current_dir(&home.folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&home.stderr)?);
        confine(&mut command);
        Ok(command)
    }

    fn failed(&self, status: ExitStatus, home: &Home) -> String {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (_, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
        };
        format!("{} {how}{}", self.words[0], home.stderr_tail())
    }
}

impl UserAgent for CommandLine {
    /// Runs the command. The page load time is the time from the execution of its program to its exit.
    fn load(&mut self, loading: &Loading, after: &mut dyn FnMut()) -> Result<Loaded, Failure> {
        let home = Home::make().blame(Fault::Machine, "making a folder for the client")?;
        let command = self.command(&home).blame(Fault::Machine, "making a file for the client")?;
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
            (!status.success()).then(|| self.failed(status, &home))
        } else {
            Some(format!("{} was not done in the time given{}", self.words[0], home.stderr_tail()))
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

/// The files of one load, which are removed with it.
struct Home {
    /// `HOME`, `TMPDIR` and the working directory.
    folder: PathBuf,
    /// Standard error, outside the folder, whose contents are the client's.
    stderr: PathBuf,
}

impl Home {
    fn make() -> std::io::Result<Self> {
        let home = Self { folder: scratch().join("client"), stderr: scratch().join("client.stderr") };
        fs::create_dir(&home.folder)?;
        Ok(home)
    }

    /// A colon and the last line of standard error.
    fn stderr_tail(&self) -> String {
        tail(&self.stderr).map_or_else(String::new, |line| format!(": {line}"))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_file(&self.stderr);
    }
}

/// The last non-empty line of a file.
fn tail(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().filter(|letter| !letter.is_control()).collect())
}
