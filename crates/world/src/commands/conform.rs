//! `--conform`: runs packetdrill scripts, each in a network namespace of its own, and reads the evidence of
//! the same sockets.
//!
//! The same code runs on this machine's kernel and as PID 1 of the virtual engine's.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use fastopen_intercept::write_line;
use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::counters::CounterFiles;
use fastopen_netns::namespace::{self, NetNs, bind_file, mount_temporary};
use fastopen_netns::process;
use fastopen_netns::route::RouteSocket;
use fastopen_netns::sandbox::View;
use fastopen_netns::sock_diag::{self, DestroyEvents, Outcome, SocketReport};
use fastopen_netns::tcp::LISTEN;
use serde::{Deserialize, Serialize};

use crate::contract::Fault;
use crate::failure::{Blame, Failure};
use crate::sandbox;

/// The scripts to run, which Python writes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The folder that holds the program and the scripts.
    pub folder: PathBuf,
    /// packetdrill, below the folder.
    pub program: PathBuf,
    /// Timeout of a script, in seconds of the engine's clock.
    pub timeout_s: u64,
    /// The scripts, in their order.
    pub scripts: Vec<Script>,
}

/// One script.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The name, repeated in its record.
    pub name: String,
    /// The path below the folder. It runs in its own folder.
    pub path: PathBuf,
    /// Arguments of packetdrill before the script.
    pub arguments: Vec<String>,
}

/// The result of a script.
#[derive(Debug, Serialize)]
pub struct ScriptRecord {
    /// `script`.
    pub r#type: &'static str,
    /// The script's name.
    pub name: String,
    /// The exit code of packetdrill; None: a signal ended it, or it timed out.
    pub exit_code: Option<i32>,
    /// True if it timed out.
    pub timed_out: bool,
    /// Its duration by the engine's clock.
    pub took_ms: u64,
    /// The last 4,096 bytes of its output and that of the script's commands.
    pub output: String,
    /// The growth of the namespace's TCP counters.
    pub counters: Vec<(String, i64)>,
    /// The script's sockets, by `sock_diag`.
    pub sockets: Vec<SocketRecord>,
}

/// The evidence of a script's socket.
#[derive(Debug, Serialize)]
pub struct SocketRecord {
    /// True if its counts are known. A disconnect clears them (`tcp_disconnect`).
    pub is_known: bool,
    /// `TCPI_OPT_SYN_DATA`.
    pub syn_data_acked: bool,
    /// `tcpi_fastopen_client_fail`.
    pub fastopen_client_fail: u8,
}

/// The kept bytes of a script's output.
const OUTPUT_BYTES: usize = 4096;
/// The longest time for the kernel's work queue to report a destroyed socket (`net/core/sock_diag.c`).
const DESTROY_DELAY: Duration = Duration::from_millis(20);
/// The stack of each thread of packetdrill.
const STACK_BYTES: u64 = 1 << 18;
/// The folder of scripts' temporary files.
const TMP: &str = "/tmp";
const BASH: &str = "/bin/bash";
const SHELL: &str = "/bin/sh";
/// packetdrill's device.
const TUN: &str = "/dev/net/tun";

impl Plan {
    /// Parses a plan.
    ///
    /// # Errors
    /// If it is not a plan.
    pub fn read(text: &[u8]) -> Result<Self, Failure> {
        serde_json::from_slice(text).blame(Fault::Input, "the plan")
    }

    /// Returns the scripts' view of the machine's files.
    pub fn view(&self) -> View {
        let files = vec![self.folder.clone(), TUN.into()];
        View { all: false, files, writable: Vec::new(), scratch_bytes: 1 << 28 }
    }
}

/// Runs the plan's scripts on this machine's kernel, in namespaces of their own, and returns the exit code.
pub fn run_on_host(plan: &Plan) -> i32 {
    let report = |failure: Failure| {
        let _ = write_line(io::stdout().lock(), &failure.record(None));
        failure.fault.exit_code()
    };
    let emit = |record: &ScriptRecord| {
        write_line(io::stdout().lock(), record).blame(Fault::Internal, "writing a record")
    };
    let inside =
        |entered: Result<(), Failure>| entered.and_then(|()| run_all(plan, emit)).map_or_else(report, |()| 0);
    sandbox::run(&plan.view(), inside).unwrap_or_else(report)
}

/// Runs each script of the plan and passes its record to `emit`. The scripts write to `/tmp`, over which a
/// file system of their own is mounted.
///
/// # Errors
/// If the kernel refuses a namespace, or `emit` fails. The failure of a script is in its record.
pub fn run_all(
    plan: &Plan,
    mut emit: impl FnMut(&ScriptRecord) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // A copy: the folder may lie below /tmp.
    let folder = namespace::scratch().join("conform");
    copy_folder(&plan.folder, &folder).blame(Fault::Machine, "copying the scripts")?;
    if !namespace::scratch().starts_with(TMP) {
        mount_temporary(Path::new(TMP))?;
    }
    // The scripts' commands use redirections of bash (`&>`) through system(3).
    if Path::new(BASH).exists() {
        bind_file(Path::new(BASH), Path::new(SHELL))?;
    }
    for script in &plan.scripts {
        let namespace = NetNs::create()?;
        // A scope's thread, and the process that it starts, stay in the namespace.
        let record = thread::scope(|scope| {
            let run = || {
                namespace.enter()?;
                run_script(plan, script, &folder)
            };
            scope.spawn(run).join().expect("the thread does not panic")
        })?;
        emit(&record)?;
    }
    Ok(())
}

/// Runs a script in the calling thread's network namespace.
fn run_script(plan: &Plan, script: &Script, folder: &Path) -> Result<ScriptRecord, Failure> {
    RouteSocket::open()?.bring_up("lo")?;
    let machine =
        |doing: &'static str| move |error| Failure::new(Fault::Machine, format!("{doing}: {error}"));
    let mut destroyed = DestroyEvents::subscribe().map_err(machine("asking for destroyed sockets"))?;
    let counters = CounterFiles::open()?;
    let before = counters.read()?;
    let path = folder.join(&script.path);
    let output = folder.join("output");
    let file = File::create(&output).map_err(machine("making a file for output"))?;
    let started_ns = monotonic_ns();
    let mut command = Command::new(folder.join(&plan.program));
    // packetdrill locks its memory, with the stacks of its threads, and users may lock only a little.
    process::limit_stack(&mut command, STACK_BYTES);
    let mut child = command
        .args(&script.arguments)
        .args(path.file_name())
        .current_dir(path.parent().unwrap_or(folder))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(machine("making a file for output"))?)
        .stderr(file)
        // Its children end with it.
        .process_group(0)
        .spawn()
        .map_err(machine("starting packetdrill"))?;
    let until_ns = started_ns + plan.timeout_s * 1_000_000_000;
    let ended = process::wait_until_ended(&child, until_ns).map_err(machine("waiting for packetdrill"))?;
    let took_ms = (monotonic_ns() - started_ns) / 1_000_000;
    process::kill_group(&child);
    let status = child.wait().map_err(machine("waiting for packetdrill"))?;
    thread::sleep(DESTROY_DELAY);
    let open = sock_diag::open_sockets().map_err(machine("listing sockets"))?;
    let gone = std::iter::from_fn(|| destroyed.try_next());
    let sockets = gone.chain(open).filter_map(|report| SocketRecord::of(&report)).collect();
    let grown = counters.read()?.since(&before);
    Ok(ScriptRecord {
        r#type: "script",
        name: script.name.clone(),
        exit_code: status.code().filter(|_| ended),
        timed_out: !ended,
        took_ms,
        output: tail(&end_of(&output).unwrap_or_default()),
        counters: grown.iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        sockets,
    })
}

impl SocketRecord {
    /// Converts a report; None for a listener.
    fn of(report: &SocketReport) -> Option<Self> {
        let Outcome::Known(info) = &report.outcome else {
            return Some(Self { is_known: false, syn_data_acked: false, fastopen_client_fail: 0 });
        };
        let known = Self {
            is_known: true,
            syn_data_acked: info.syn_data_acked(),
            fastopen_client_fail: info.fastopen_client_fail,
        };
        (info.state != LISTEN).then_some(known)
    }
}

/// The last bytes of a file, one more than are kept: a script may write without end.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let wanted = OUTPUT_BYTES as u64 + 1;
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(wanted)))?;
    let mut bytes = Vec::new();
    file.take(wanted).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The end of what was written, from a line's start.
fn tail(output: &[u8]) -> String {
    let kept = &output[output.len().saturating_sub(OUTPUT_BYTES)..];
    let text = String::from_utf8_lossy(kept);
    let cut = if kept.len() < output.len() { text.find('\n').map_or(0, |end| end + 1) } else { 0 };
    text[cut..].to_owned()
}

/// Copies files and folders with their permissions, and symbolic links, over those of `to`. Leaves out
/// sockets, pipes and devices.
///
/// # Errors
/// Errors of reading and writing.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            // A file in its place is replaced, as by a copy.
            let _ = fs::remove_file(&target);
            symlink(fs::read_link(entry.path())?, target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_output_whole_lines_of_the_end_are_kept() {
        let long = "a line\n".repeat(1000);
        let kept = tail(long.as_bytes());
        assert!(kept.len() <= OUTPUT_BYTES && kept.starts_with("a line\n"));
        assert_eq!(tail(b"short"), "short");
        let path = std::env::temp_dir().join(format!("fastopen-output-{}", std::process::id()));
        fs::write(&path, &long).expect("the temporary folder is writable");
        let end = end_of(&path);
        fs::remove_file(&path).expect("it is there");
        assert_eq!(end.expect("it can be read"), &long.as_bytes()[long.len() - OUTPUT_BYTES - 1..]);
        assert_eq!(tail(&long.as_bytes()[long.len() - OUTPUT_BYTES - 1..]), kept);
    }

    #[test]
    fn a_plan_with_another_key_is_refused() {
        let plan = br#"{"folder":"/f","program":"p","timeout_s":1,"scripts":[],"more":1}"#;
        assert!(Plan::read(plan).unwrap_err().message.contains("more"));
    }
}
