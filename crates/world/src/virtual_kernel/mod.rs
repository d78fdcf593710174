//! Launches the virtual engine: starts a User-Mode Linux kernel in virtual time with this program as PID 1,
//! copies the kernel's records to the output, and kills a kernel that hangs.
//!
//! Jobs and records are exchanged in a folder of the host, the only one that the kernel mounts writable,
//! except for the output folder of a command. The folder is removed at the end, or by a cleanup process if
//! this program is killed. See docs/virtual.md.

pub mod init;
mod running;

pub use running::empty;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastopen_netns::process::{self, PrivateFolder};
use fastopen_netns::sandbox::View;
use serde::Deserialize;

use crate::capture;
use crate::commands::conform::{self, Plan};
use crate::commands::shell::in_kernel::Session;
use crate::contract::{Capabilities, Fault, Job};
use crate::failure::{Blame, Failure, remedy_of};
use crate::sandbox;
use crate::virtual_kernel::init::{JOBS, RECORDS, SCRIPTS};
use crate::virtual_kernel::running::Running;

/// Memory of the kernel in bytes, in addition to what the jobs need. The host allocates only used pages.
const MEMORY_BYTES: u64 = 256 << 20;
/// Size in bytes of the temporary file system, not counting the file in it that holds the kernel's memory.
const SPARE_BYTES: u64 = 64 << 20;
/// Environment variable for the maximum real time in seconds without output of User-Mode Linux.
const TIMEOUT_VARIABLE: &str = "FASTOPEN_KERNEL_TIMEOUT_S";
/// Maximum real time without output of a packetdrill script, in seconds.
const SCRIPT_SILENCE_S: u64 = 60;
const COMMAND_SILENCE_S: u64 = 600;
/// Memory limit in bytes for a command of `fastopen shell`, its servers, and the files that they write.
pub const COMMAND_BYTES: u64 = 1 << 30;
/// Lowest speed that the timeout for transactions permits, in connections per second of real time.
const CONNECTIONS_A_SECOND: u64 = 200;
/// CPU time that programs in User-Mode Linux may use without a system call before the task fails.
const MAX_CPU_TIME: Duration = Duration::from_secs(10);

/// A User-Mode Linux kernel: its program, and arguments for it.
pub struct Kernel {
    pub program: PathBuf,
    /// Kernel arguments that this build needs beyond the common ones, such as `seccomp=on`.
    pub arguments: Vec<String>,
}

/// The work of one User-Mode Linux kernel: to run jobs, packetdrill scripts, or a command.
pub struct Task<'a> {
    /// The option with which this program runs as PID 1 of the kernel.
    mode: &'static str,
    jobs: &'a [Job],
    /// The ID of each job or the name of each packetdrill script; a single None for a command.
    names: Vec<Option<&'a str>>,
    view: View,
    /// True if the task runs external programs: clients, servers, commands or scripts.
    is_foreign: bool,
    /// True if a program may poll the clock in a loop. Each reading must then advance the virtual clock.
    polls_clock: bool,
    /// Maximum real time without a record or output, in seconds.
    silence_s: u64,
    scripts: Option<&'a Path>,
    /// For `fastopen shell`: the command with its environment, and the file for captured packets.
    command: Option<(&'a Session, Option<&'a File>)>,
}

impl<'a> Task<'a> {
    /// Returns the task to run these jobs. Each job writes JSON records, the last of type `end` or `error`.
    pub fn jobs(jobs: &'a [Job]) -> Self {
        let client_s = clients(jobs).map(|client| client.silence_s).max().unwrap_or_default();
        let loads = jobs.iter().flat_map(|job| &job.loads);
        let most = loads.filter_map(|load| Some(load.transactions.as_ref()?.connections())).max();
        Self {
            mode: "--init",
            jobs,
            names: jobs.iter().map(|job| Some(job.id.as_str())).collect(),
            view: sandbox::view(jobs),
            is_foreign: jobs.iter().any(Job::is_foreign),
            polls_clock: clients(jobs).any(|client| client.polls_clock),
            silence_s: client_s + most.unwrap_or_default() / CONNECTIONS_A_SECOND,
            scripts: None,
            command: None,
        }
    }

    /// Returns the task to run the packetdrill scripts of `plan`. Each script's result is one JSON record.
    pub fn scripts(plan: &'a Plan) -> Self {
        Self {
            mode: "--init-conform",
            names: plan.scripts.iter().map(|script| Some(script.name.as_str())).collect(),
            view: plan.view(),
            is_foreign: true,
            polls_clock: true,
            silence_s: SCRIPT_SILENCE_S,
            scripts: Some(&plan.folder),
            ..Self::jobs(&[])
        }
    }

    /// Returns the task to run a command in a job's emulated network. `packets` receives captured packets.
    pub fn command(job: &'a Job, session: &'a Session, packets: Option<&'a File>) -> Self {
        Self {
            mode: "--init-shell",
            names: vec![None],
            view: session.view(job),
            is_foreign: true,
            polls_clock: true,
            silence_s: COMMAND_SILENCE_S,
            command: Some((session, packets)),
            ..Self::jobs(std::slice::from_ref(job))
        }
    }
}

/// Starts the User-Mode Linux `kernel` to run `task`, which `text` describes in JSON. Copies the resulting
/// records to `records`, and returns the largest exit code that they report. If the kernel does not start,
/// hangs, or ends too early, passes the failure to `report`, and returns the exit code that `report` returns.
/// Fails only before that, without a kernel program or a folder for the task.
///
/// The kernel can access all files that this process sees (`hostfs`), so it runs with a limited [`View`].
pub fn run(
    kernel: &Kernel,
    text: &[u8],
    task: &Task,
    records: &mut dyn Write,
    mut report: impl FnMut(Failure) -> i32,
) -> Result<i32, Failure> {
    let failed = |error: io::Error| start_failure(kernel, &error);
    let program = fs::canonicalize(&kernel.program).map_err(failed)?;
    let init = std::env::current_exe().map_err(failed)?;
    let folder = make_folder(text, task).map_err(|error| folder_failure(&error))?;
    let kernel = &Kernel { program, arguments: kernel.arguments.clone() };
    let memory_bytes = memory_bytes(text, task);
    let mut view = task.view.clone();
    view.files.extend([kernel.program.clone(), init.clone()]);
    view.writable.push(folder.path().to_owned());
    // The kernel's memory is a file in the scratch space.
    view.scratch_bytes = memory_bytes + SPARE_BYTES;
    let mut inside = |entered: Result<(), Failure>| {
        let bounded = bounded(&view, entered, task);
        let ran = bounded.and_then(|()| boot(kernel, &init, task, folder.path(), memory_bytes, records));
        ran.unwrap_or_else(&mut report)
    };
    Ok(sandbox::run(&view, &mut inside).unwrap_or_else(|failure| inside(Err(failure))))
}

/// Restricts this process with Landlock to the files in `view`. If the host's kernel lacks Landlock and the
/// task runs external programs, returns `entered`, the result of entering new namespaces.
fn bounded(view: &View, entered: Result<(), Failure>, task: &Task) -> Result<(), Failure> {
    let restricted = view.restrict(entered.is_ok())?;
    if restricted || !task.is_foreign { Ok(()) } else { entered }
}

fn boot(
    kernel: &Kernel,
    init: &Path,
    task: &Task,
    folder: &Path,
    memory_bytes: u64,
    out: &mut dyn Write,
) -> Result<i32, Failure> {
    let timeout = timeout(task)?;
    let mut running = Running::start(kernel, init, task, folder, memory_bytes)
        .map_err(|error| start_failure(kernel, &error))?;
    let mut progress = Progress { task, done: 0, worst: 0 };
    let (mut last_record, mut booted) = (Instant::now(), false);
    let mut detector = LoopDetector::default();
    loop {
        // Checked before the records are read, because the kernel may write a last record before it ends.
        let ended = running.has_ended();
        let mut any_output = false;
        for stream in &mut running.streams {
            any_output |= stream.copy().blame(Fault::Machine, format!("standard {}", stream.name))?;
        }
        match running.copy_records(out, &mut progress) {
            Ok(any) if any || any_output => (last_record, booted) = (Instant::now(), true),
            Ok(_) => {}
            Err(error) => return Err(progress.unfinished(format!("writing a record: {error}"), "")),
        }
        if ended {
            let reason = running.exit_reason();
            // `done` counts two last records for a command that could not be started, hence `>=`.
            return if progress.done >= task.names.len() {
                Running::copy_packets(task, folder)
                    .map_err(|error| progress.unfinished(format!("writing the packets: {error}"), ""))?;
                Ok(progress.worst)
            } else if booted {
                Err(progress.unfinished(reason, ""))
            } else {
                Err(boot_failure(reason, memory_bytes))
            };
        }
        // A command may compute for a long time, so it is not checked.
        if task.command.is_none() && detector.detects_loop(running.child.id()) {
            let message = format!(
                "a program in the world computed for {} s without waiting or calling the kernel, and time \
                 stood still",
                MAX_CPU_TIME.as_secs()
            );
            return Err(progress.unfinished(message, ""));
        }
        if last_record.elapsed() > timeout {
            let (seconds, tail) = (timeout.as_secs(), running.console_tail());
            let message = format!("the kernel wrote nothing for {seconds} s and was killed; {tail}");
            let remedy =
                format!("a program in it may loop or wait forever; {TIMEOUT_VARIABLE} sets a longer limit");
            return Err(progress.unfinished(message, &remedy));
        }
    }
}

fn timeout(task: &Task) -> Result<Duration, Failure> {
    let Some(text) = std::env::var_os(TIMEOUT_VARIABLE) else {
        return Ok(Duration::from_secs(task.silence_s));
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok()).filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs).ok_or_else(|| {
        Failure::new(Fault::Input, format!("{TIMEOUT_VARIABLE}: {text:?} is not a number of seconds"))
            .with_remedy("use a whole number from 1, or unset it")
    })
}

/// Detects a program inside User-Mode Linux that computes without end. While it computes, virtual time stands
/// still, and no other process there can run and end the program.
#[derive(Default)]
struct LoopDetector {
    checked: Option<Instant>,
    /// State when the User-Mode Linux process last made progress: its voluntary context switches (as a
    /// string) and CPU time, and the CPU time of all processes. None before the first check.
    changed: Option<((String, Duration), Duration)>,
}

impl LoopDetector {
    /// Returns true if a program loops endlessly: programs have used more CPU time than [`MAX_CPU_TIME`]
    /// since the User-Mode Linux process (PID `kernel`) last ran. Call this repeatedly. Works only in PID 1.
    fn detects_loop(&mut self, kernel: u32) -> bool {
        if self.checked.is_some_and(|checked| checked.elapsed() < Duration::from_secs(1)) {
            return false;
        }
        self.checked = Some(Instant::now());
        let Some(state) = process::voluntary_switches(kernel).zip(process::user_time(kernel)) else {
            return false;
        };
        let computed = process::computed_in_namespace();
        match &self.changed {
            Some((before, since)) if *before == state => computed.saturating_sub(*since) > MAX_CPU_TIME,
            _ => {
                self.changed = Some((state, computed));
                false
            }
        }
    }
}

fn clients(jobs: &[Job]) -> impl Iterator<Item = Capabilities> {
    jobs.iter().map(|job| job.client.kind.capabilities())
}

fn memory_bytes(text: &[u8], task: &Task) -> u64 {
    let jobs = task.jobs;
    let bodies: u64 =
        bodies_files(jobs).iter().filter_map(|path| fs::metadata(path).ok()).map(|m| m.len()).sum();
    let client = clients(jobs).map(|client| client.memory_bytes).max().unwrap_or_default();
    let packets = jobs.iter().map(capture::memory_bytes).max().unwrap_or_default();
    let command = if task.command.is_some() { COMMAND_BYTES } else { 0 };
    MEMORY_BYTES + command + 3 * bodies + 8 * text.len() as u64 + client + packets
}

fn bodies_files(jobs: &[Job]) -> BTreeSet<&Path> {
    jobs.iter().filter_map(|job| job.origins.bodies_file.as_deref()).collect()
}

fn folder_failure(error: &io::Error) -> Failure {
    let place = std::env::temp_dir();
    Failure::new(Fault::Machine, format!("making a folder in {}: {error}", place.display()))
        .with_remedy(remedy_of(error).unwrap_or("free some space there, or set TMPDIR to another folder"))
}

fn start_failure(kernel: &Kernel, error: &io::Error) -> Failure {
    Failure::new(Fault::Machine, format!("starting the kernel {}: {error}", kernel.program.display()))
        .with_remedy(remedy_of(error).unwrap_or("build it again: fastopen kernel build --force"))
}

fn boot_failure(message: String, memory_bytes: u64) -> Failure {
    let remedy = format!(
        "a kernel needs {} MB of memory, space in {}, and processes: run fewer worlds in parallel (--jobs), \
         or raise the limits (ulimit -v, ulimit -u)",
        memory_bytes >> 20,
        std::env::temp_dir().display()
    );
    Failure::new(Fault::Machine, message).with_remedy(remedy)
}

struct Progress<'a> {
    task: &'a Task<'a>,
    done: usize,
    worst: i32,
}

impl Progress<'_> {
    fn count(&mut self, line: &[u8]) {
        #[derive(Deserialize)]
        struct Summary {
            r#type: String,
            fault: Option<Fault>,
            exit_code: Option<i32>,
            /// Exit code for this program if a command could not be run or timed out; else None.
            code: Option<i32>,
            signal: Option<i32>,
        }
        // Skips long and frequent records that end no job.
        if [&br#"{"type":"load""#[..], br#"{"type":"packets""#].iter().any(|start| line.starts_with(start)) {
            return;
        }
        let Ok(record) = serde_json::from_slice::<Summary>(line) else { return };
        self.done +=
            usize::from(["end", "error", "script", "done", "failed"].contains(&record.r#type.as_str()));
        let signal = record.signal.map(|signal| 128 + signal);
        let code = record.exit_code.or(signal).or(record.code);
        self.worst = self.worst.max(code.or(record.fault.map(Fault::exit_code)).unwrap_or_default());
    }

    fn unfinished(&self, message: String, remedy: &str) -> Failure {
        let job = self.task.names.get(self.done).copied().flatten().map(str::to_owned);
        Failure { job, fault: Fault::Internal, message, remedy: remedy.into() }
    }
}

fn make_folder(text: &[u8], task: &Task) -> io::Result<PrivateFolder> {
    let folder = PrivateFolder::make("fastopen-kernel-")?;
    let path = folder.path();
    for (file, copy) in bodies_copies(task.jobs, path) {
        fs::copy(file, copy)?;
    }
    fs::write(path.join(JOBS), text)?;
    File::create_new(path.join(RECORDS))?;
    // Copied, because the scripts may be in /tmp, over which the kernel mounts a file system.
    task.scripts.map_or(Ok(()), |from| conform::copy_folder(from, &path.join(SCRIPTS)))?;
    task.command.map_or(Ok(()), |(session, _)| session.write(path))?;
    Ok(folder)
}

/// Maps the path of each of the jobs' files of recorded bodies to the path of its copy in `folder`.
fn bodies_copies(jobs: &[Job], folder: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let copy = |(number, file): (usize, &Path)| (file.to_owned(), folder.join(format!("bodies-{number}")));
    bodies_files(jobs).into_iter().enumerate().map(copy).collect()
}

/// Makes the jobs read the copies of their files of recorded bodies, which the host put into `folder`.
pub fn use_bodies_copies(jobs: &mut [Job], folder: &Path) {
    let copies = bodies_copies(jobs, folder);
    for file in jobs.iter_mut().filter_map(|job| job.origins.bodies_file.as_mut()) {
        *file = copies[file.as_path()].clone();
    }
}
