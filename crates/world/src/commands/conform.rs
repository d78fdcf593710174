//! `--conform`: runs each packetdrill script in a new network namespace, and reports its result and sockets.
//!
//! The same code runs on this machine's kernel and, as PID 1, on the virtual engine's kernel.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::counters::{self, CounterFiles};
use fastopen_netns::namespace::{self, NetNs, bind, mount_temporary};
use fastopen_netns::process;
use fastopen_netns::route::RouteSocket;
use fastopen_netns::sandbox::View;
use fastopen_netns::sock_diag::{self, DestroyEvents, Outcome, SocketReport};
use fastopen_netns::tcp::LISTEN;
use serde::{Deserialize, Serialize};

use crate::contract::Fault;
use crate::failure::{Blame, Failure};
use crate::sandbox::program::end_of;

/// The packetdrill scripts to run. The Python program writes this plan as JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The folder that holds the program and the scripts.
    pub folder: PathBuf,
    /// Path of the packetdrill program, relative to `folder`.
    pub program: PathBuf,
    /// Timeout of a script, in seconds of the engine's clock.
    pub timeout_s: u64,
    pub scripts: Vec<Script>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Name of the script, repeated in its record.
    pub name: String,
    /// Path of the script, relative to the plan's folder. The script runs in the folder that contains it.
    pub path: PathBuf,
    /// Arguments for packetdrill that precede the script's path.
    pub arguments: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct ScriptRecord {
    pub r#type: &'static str,
    pub name: String,
    /// The exit code of packetdrill; None if a signal ended it or the script timed out.
    pub exit_code: Option<i32>,
    pub timed_out: bool,
    /// Duration of the script on the engine's clock, in milliseconds.
    pub took_ms: u64,
    /// The last lines of the output of packetdrill and the script's commands, at most 4,096 bytes.
    pub output: String,
    /// The TCP counters that changed in the script's namespace: name and difference.
    pub counters: Vec<(String, i64)>,
    /// The script's sockets, as reported by `sock_diag`, without listeners.
    pub sockets: Vec<SocketRecord>,
}

/// The outcome of Fast Open on one TCP socket of a script.
#[derive(Debug, Default, Serialize)]
pub struct SocketRecord {
    /// True if the kernel still had the socket's `TCP_INFO`, which a disconnect clears (`tcp_disconnect`).
    pub is_known: bool,
    /// True if the SYN's data was acknowledged (`TCPI_OPT_SYN_DATA`); false if not known.
    pub syn_data_acked: bool,
    /// Reason for a Fast Open failure at the client (`tcpi_fastopen_client_fail`); 0 if none is known.
    pub fastopen_client_fail: u8,
}

/// Maximum size in bytes of the output in a script's record, which omits the beginning of longer output.
const OUTPUT_BYTES: usize = 4096;
/// Time to wait for the kernel's work queue to report destroyed sockets (`net/core/sock_diag.c`).
const DESTROY_DELAY: Duration = Duration::from_millis(20);
const STACK_BYTES: u64 = 1 << 18;
const TMP: &str = "/tmp";

impl Plan {
    pub fn read(text: &[u8]) -> Result<Self, Failure> {
        serde_json::from_slice(text).blame(Fault::Input, "the plan")
    }

    /// Returns the machine's files that are visible to the scripts.
    pub fn view(&self) -> View {
        let files = vec![self.folder.clone(), "/dev/net/tun".into()];
        View { files, scratch_bytes: 1 << 28, ..View::default() }
    }
}

/// Runs each script of the plan, with a temporary file system over `/tmp`, and passes its record to `emit`.
/// If a script fails, its record shows the failure, and the next script runs.
pub fn run_all(
    plan: &Plan,
    mut emit: impl FnMut(&ScriptRecord) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Copied, because the folder may be below /tmp, over which a file system is mounted.
    let folder = namespace::scratch().join("conform");
    copy_folder(&plan.folder, &folder).blame(Fault::Machine, "copying the scripts")?;
    if !namespace::scratch().starts_with(TMP) {
        mount_temporary(Path::new(TMP), None)?;
    }
    // The scripts' commands run in /bin/sh (system(3)), but use a redirection that only bash has (`&>`).
    let bash = Path::new("/bin/bash");
    if bash.exists() {
        bind(bash, Path::new("/bin/sh"))?;
    }
    for script in &plan.scripts {
        let record = NetNs::create()?.run(|| Ok(run_script(plan, script, &folder)))??;
        emit(&record)?;
    }
    Ok(())
}

fn run_script(plan: &Plan, script: &Script, folder: &Path) -> Result<ScriptRecord, Failure> {
    RouteSocket::open()?.bring_up("lo")?;
    let destroyed = DestroyEvents::subscribe();
    let mut destroyed = destroyed.blame(Fault::Machine, "asking for destroyed sockets")?;
    let counters = CounterFiles::open()?;
    let before = counters.read()?;
    let path = folder.join(&script.path);
    let output = folder.join("output");
    let file = File::create(&output).blame(Fault::Machine, "making a file for output")?;
    let started_ns = monotonic_ns();
    let mut command = Command::new(folder.join(&plan.program));
    // packetdrill locks its memory, including its threads' stacks, and ordinary users may lock only a little.
    process::limit_stack(&mut command, STACK_BYTES);
    let mut child = command
        .args(&script.arguments)
        .args(path.file_name())
        .current_dir(path.parent().unwrap_or(folder))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(file.try_clone().blame(Fault::Machine, "making a file for output")?)
        .stderr(file)
        // packetdrill leads a process group, so that `kill_group` also ends its children.
        .process_group(0)
        .spawn()
        .blame(Fault::Machine, "starting packetdrill")?;
    let until_ns = started_ns + plan.timeout_s * 1_000_000_000;
    let waiting = "waiting for packetdrill";
    let ended = process::wait_until_ended(&child, until_ns).blame(Fault::Machine, waiting)?;
    let took_ms = (monotonic_ns() - started_ns) / 1_000_000;
    process::kill_group(&child);
    let status = child.wait().blame(Fault::Machine, waiting)?;
    thread::sleep(DESTROY_DELAY);
    let open = sock_diag::open_sockets().blame(Fault::Machine, "listing sockets")?;
    let gone = std::iter::from_fn(|| destroyed.try_next());
    let sockets = gone.chain(open).filter_map(|report| SocketRecord::of(&report)).collect();
    let after = counters.read()?;
    Ok(ScriptRecord {
        r#type: "script",
        name: script.name.clone(),
        exit_code: status.code().filter(|_| ended),
        timed_out: !ended,
        took_ms,
        // One byte more than the record keeps, so that `tail` detects longer output.
        output: tail(&end_of(&output, OUTPUT_BYTES as u64 + 1).unwrap_or_default()),
        counters: counters::growth(&before, &after).into_iter().collect(),
        sockets,
    })
}

impl SocketRecord {
    /// Returns the record of a socket that the kernel reported; None for a listening socket.
    fn of(report: &SocketReport) -> Option<Self> {
        match &report.outcome {
            Outcome::Known(info) if info.state == LISTEN => None,
            Outcome::Known(info) => Some(Self {
                is_known: true,
                syn_data_acked: info.syn_data_acked(),
                fastopen_client_fail: info.fastopen_client_fail,
            }),
            Outcome::Failed | Outcome::Unknown => Some(Self::default()),
        }
    }
}

/// Returns at most the last `OUTPUT_BYTES` bytes of `output`. Omits an incomplete first line.
fn tail(output: &[u8]) -> String {
    let kept = &output[output.len().saturating_sub(OUTPUT_BYTES)..];
    let text = String::from_utf8_lossy(kept);
    let cut = if kept.len() < output.len() { text.find('\n').map_or(0, |end| end + 1) } else { 0 };
    text[cut..].to_owned()
}

/// Copies a folder with its subfolders, symbolic links and files to `to`. Replaces existing files. Keeps the
/// permissions of files. Skips sockets, pipes and devices.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", entry.path().display()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            // Unlike `fs::copy`, `symlink` fails if the target exists.
            let _ = fs::remove_file(&target);
            symlink(fs::read_link(entry.path())?, &target).map_err(named)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target).map_err(named)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "../../tests/unit/conform.rs"]
mod tests;
