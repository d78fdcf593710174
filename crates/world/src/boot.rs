//! Starts a User-Mode Linux kernel in virtual time with this program as its first process, hands on what it writes, and ends it
//! when it is stuck.
//!
//! The way in and out is a folder of two files, the only one that the kernel may write to. It is removed as soon as the first record
//! is there, and by a janitor where this program is killed before. See docs/virtual.md.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fastopen_netns::process::{self, Janitor};
use serde::Deserialize;

use crate::contract::{ClientKind, Fault, Job};
use crate::failure::Failure;
use crate::inside::{self, BODIES, JOBS, RECORDS};

/// Memory of the kernel beyond what the job's own bytes need. It is taken from the machine only when it is used.
const MEMORY_BYTES: u64 = 256 << 20;
/// The kernel's argument with which reading the time costs none (patch 0003).
const FREE_CLOCK: &str = "free-clock";
/// What a browser needs beside.
const BROWSER_BYTES: u64 = 3 << 30;
/// The machine's clock when the kernel starts, in nanoseconds since 1970; jobs set their own.
const START_NS: u64 = 1_000_000_000_000_000_000;
/// How long a kernel may be silent. Virtual time does not count: a load takes this long only when something spins.
const PATIENCE: Duration = Duration::from_secs(120);
/// The same where a browser starts, which takes it most of a minute of an idle machine.
const PATIENCE_WITH_BROWSERS: Duration = Duration::from_secs(600);
/// Another patience, in seconds.
const PATIENCE_VARIABLE: &str = "FASTOPEN_PATIENCE_S";
/// How often to look for records.
const GLANCE: Duration = Duration::from_millis(2);
/// Lines of the console that an error quotes.
const LAST_WORDS: usize = 6;

/// A kernel that can be started.
pub struct Kernel {
    /// The program.
    pub program: PathBuf,
    /// What this kernel needs on its command line beyond the usual, such as `seccomp=on`.
    pub arguments: Vec<String>,
}

/// Has `kernel` do the jobs in `text`, which were read as `jobs`, and writes the records to `out`. Returns the exit code.
///
/// # Errors
/// Where the kernel does not start, is stuck, or ends before its work is done. What it wrote before was handed on.
pub fn run(kernel: &Kernel, text: &[u8], jobs: &[Job], out: &mut dyn Write) -> Result<i32, Unfinished> {
    let starting = |failure: Failure| Unfinished { job: None, failure };
    let folder = Folder::make(text, jobs).map_err(|error| starting(no_folder(&error)))?;
    let mut running = Running::start(kernel, &arguments(kernel, jobs), folder, memory_bytes(text, jobs))
        .map_err(|error| starting(not_started(kernel, &error)))?;
    let mut progress = Progress { jobs, done: 0, worst: 0 };
    let patience = patience(jobs);
    let mut heard = Instant::now();
    loop {
        // Looked at before the records, so that none that it wrote last is missed.
        let ended = running.has_ended();
        match running.hand_on(out, &mut progress) {
            Ok(true) => heard = Instant::now(),
            Ok(false) => {}
            Err(error) => {
                return Err(progress.unfinished(Fault::Internal, format!("writing a record: {error}"), ""));
            }
        }
        if ended {
            let status = running.status();
            return if progress.done == jobs.len() {
                Ok(progress.worst)
            } else {
                Err(progress.unfinished(Fault::Internal, running.obituary(status), ""))
            };
        }
        if heard.elapsed() > patience {
            let message = format!(
                "the kernel was silent for {} s and was ended; {}",
                patience.as_secs(),
                running.last_words()
            );
            let remedy = format!("something in it spins or waits for ever; {PATIENCE_VARIABLE} allows more");
            return Err(progress.unfinished(Fault::Internal, message, &remedy));
        }
    }
}

/// Why not all jobs were done.
#[derive(Debug)]
pub struct Unfinished {
    /// The job that was being done.
    pub job: Option<String>,
    /// What happened.
    pub failure: Failure,
}

fn patience(jobs: &[Job]) -> Duration {
    let asked = std::env::var(PATIENCE_VARIABLE).ok().and_then(|value| value.parse().ok());
    let usual = if browsers(jobs) { PATIENCE_WITH_BROWSERS } else { PATIENCE };
    asked.map_or(usual, Duration::from_secs)
}

fn browsers(jobs: &[Job]) -> bool {
    jobs.iter().any(|job| job.client.kind == ClientKind::Chromium)
}

/// The kernel's own arguments. A browser looks at the clock again and again until it has moved, so for it reading the time must
/// cost some.
fn arguments<'a>(kernel: &'a Kernel, jobs: &[Job]) -> Vec<&'a str> {
    let all = kernel.arguments.iter().map(String::as_str);
    all.filter(|&argument| argument != FREE_CLOCK || !browsers(jobs)).collect()
}

fn memory_bytes(text: &[u8], jobs: &[Job]) -> u64 {
    let bodies: u64 =
        bodies_files(jobs).iter().filter_map(|path| fs::metadata(path).ok()).map(|m| m.len()).sum();
    MEMORY_BYTES + 3 * bodies + 8 * text.len() as u64 + if browsers(jobs) { BROWSER_BYTES } else { 0 }
}

fn bodies_files(jobs: &[Job]) -> Vec<&Path> {
    let mut files: Vec<_> = jobs.iter().filter_map(|job| job.origins.bodies_file.as_deref()).collect();
    files.sort_unstable();
    files.dedup();
    files
}

fn no_folder(error: &io::Error) -> Failure {
    let place = std::env::temp_dir();
    Failure {
        fault: Fault::Machine,
        message: format!("making a folder in {}: {error}", place.display()),
        remedy: "make room there, or name another place in TMPDIR".into(),
    }
}

fn not_started(kernel: &Kernel, error: &io::Error) -> Failure {
    Failure {
        fault: Fault::Machine,
        message: format!("starting the kernel {}: {error}", kernel.program.display()),
        remedy: "build it again: fastopen kernel build --force".into(),
    }
}

/// How far the jobs are, from the records.
struct Progress<'a> {
    jobs: &'a [Job],
    done: usize,
    worst: i32,
}

impl Progress<'_> {
    fn note(&mut self, line: &[u8]) {
        #[derive(Deserialize)]
        struct Glance {
            r#type: String,
            fault: Option<Fault>,
        }
        // Only the last record of a job matters; the many long ones of loads are not read again.
        if line.starts_with(br#"{"type":"load""#) {
            return;
        }
        let Ok(record) = serde_json::from_slice::<Glance>(line) else { return };
        if record.r#type == "end" || record.r#type == "error" {
            self.done += 1;
        }
        self.worst = self.worst.max(record.fault.map_or(0, Fault::exit_code));
    }

    fn unfinished(&self, fault: Fault, message: String, remedy: &str) -> Unfinished {
        let job = self.jobs.get(self.done).map(|job| job.id.clone());
        Unfinished { job, failure: Failure { fault, message, remedy: remedy.into() } }
    }
}

/// The folder that the kernel reads its jobs from and writes its records to; it goes when dropped.
struct Folder {
    path: PathBuf,
    records: File,
    _janitor: Janitor,
}

impl Folder {
    fn make(text: &[u8], jobs: &[Job]) -> io::Result<Self> {
        let path = process::private_folder("fastopen-")?;
        let janitor = Janitor::of(&path).inspect_err(|_| drop(fs::remove_dir(&path)))?;
        let fill = || {
            let mut numbered = Vec::new();
            for (number, file) in bodies_files(jobs).into_iter().enumerate() {
                fs::copy(file, path.join(format!("{BODIES}{number}")))?;
                numbered.push((file, inside::bodies(number)));
            }
            if numbered.is_empty() {
                fs::write(path.join(JOBS), text)?;
            } else {
                fs::write(path.join(JOBS), with_bodies(text, &numbered)?)?;
            }
            File::create_new(path.join(RECORDS))?;
            File::open(path.join(RECORDS))
        };
        match fill() {
            Ok(records) => Ok(Self { path, records, _janitor: janitor }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The jobs, told where their bodies are inside.
fn with_bodies(text: &[u8], places: &[(&Path, PathBuf)]) -> io::Result<Vec<u8>> {
    let mut changed = Vec::new();
    for job in serde_json::Deserializer::from_slice(text).into_iter::<serde_json::Value>() {
        let mut job = job?;
        if let Some(file) = job.pointer_mut("/origins/bodies_file") {
            let place = places.iter().find(|(path, _)| file.as_str().map(Path::new) == Some(*path));
            if let Some((_, inside)) = place {
                *file = inside.to_string_lossy().into();
            }
        }
        serde_json::to_writer(&mut changed, &job)?;
        changed.push(b'\n');
    }
    Ok(changed)
}

/// A kernel at work.
struct Running {
    child: Child,
    folder: Option<Folder>,
    records: File,
    /// How much of the records was read, and what of it makes no whole line yet.
    read: u64,
    rest: Vec<u8>,
    console: Arc<Mutex<VecDeque<String>>>,
    /// Gets nothing; disconnected when the console was closed.
    open: Receiver<()>,
}

impl Running {
    fn start(kernel: &Kernel, arguments: &[&str], folder: Folder, memory_bytes: u64) -> io::Result<Self> {
        process::leave_no_core();
        let (console_out, console_in) = io::pipe()?;
        let mut command = Command::new(&kernel.program);
        command
            .args(["time-travel=inf-cpu", &format!("time-travel-start={START_NS}")])
            .args([&format!("mem={}M", memory_bytes.div_ceil(1 << 20)), "panic=-1", "quiet"])
            .args(["rootfstype=hostfs", "rootflags=/", "ro", "con=null", "con0=fd:0,fd:1"])
            .args([&format!("uml_dir={}/", folder.path.display()), "umid=kernel"])
            .args(arguments)
            .arg(format!("init=\"{}\"", std::env::current_exe()?.display()))
            .args(["--", "--inside", &format!("\"{}\"", folder.path.display())])
            // Nothing of the machine's own; without any at all the kernel crashes as it starts.
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/")
            .stdin(Stdio::null())
            .stdout(console_in.try_clone()?)
            .stderr(console_in);
        process::tie_to_parent(&mut command);
        let child = command.spawn()?;
        drop(command);
        let console = Arc::<Mutex<VecDeque<String>>>::default();
        let (alive, open) = mpsc::channel();
        let kept = console.clone();
        thread::spawn(move || {
            listen(console_out, &kept);
            drop(alive);
        });
        let records = folder.records.try_clone()?;
        Ok(Self { child, folder: Some(folder), records, read: 0, rest: Vec::new(), console, open })
    }

    /// Waits for a moment. Says whether the kernel has ended.
    fn has_ended(&mut self) -> bool {
        self.open.recv_timeout(GLANCE) == Err(RecvTimeoutError::Disconnected)
            || self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Writes the whole lines that are new to `out`. Says whether there were any.
    fn hand_on(&mut self, out: &mut dyn Write, progress: &mut Progress) -> io::Result<bool> {
        let mut buffer = vec![0; 1 << 16];
        let mut any = false;
        loop {
            let count = self.records.read_at(&mut buffer, self.read)?;
            if count == 0 {
                break;
            }
            // The kernel has opened what it needs.
            self.folder = None;
            self.read += count as u64;
            self.rest.extend_from_slice(&buffer[..count]);
            let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { continue };
            let after = self.rest.split_off(end + 1);
            let lines = std::mem::replace(&mut self.rest, after);
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                progress.note(line);
            }
            out.write_all(&lines)?;
            any = true;
        }
        if any {
            out.flush()?;
        }
        Ok(any)
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.wait().ok()
    }

    fn obituary(&self, status: Option<ExitStatus>) -> String {
        let how = match status.map(|status| (status.signal(), status.code())) {
            Some((Some(signal), _)) => format!("was ended by signal {signal}"),
            Some((_, Some(code))) => format!("ended with exit code {code}"),
            _ => "ended".into(),
        };
        format!("the kernel {how} before its work was done; {}", self.last_words())
    }

    fn last_words(&self) -> String {
        let console = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        if console.is_empty() {
            return "its console said nothing".into();
        }
        format!("its console's last words: {}", console.iter().cloned().collect::<Vec<_>>().join(" | "))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the last lines of the console, until it is closed.
fn listen(console: impl Read, kept: &Mutex<VecDeque<String>>) {
    let mut lines = BufReader::new(console);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let said = String::from_utf8_lossy(&line).trim().to_owned();
        line.clear();
        if said.is_empty() {
            continue;
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == LAST_WORDS {
            kept.pop_front();
        }
        kept.push_back(said);
    }
}
