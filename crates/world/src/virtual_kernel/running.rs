//! Starts a User-Mode Linux kernel, reads its console, and copies the files that it writes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fastopen_netns::{cores, process};

use super::init::RECORDS;
use super::{Kernel, Progress, Task};
use crate::commands::shell::in_kernel::{CLOSED, ERRORS, OUTPUT, PACKETS, Session};
use crate::sandbox::program::how_ended;

/// User-Mode Linux argument (patch 0003) that makes clock readings take no virtual time.
const FREE_CLOCK: &str = "free-clock";
/// Wall clock when User-Mode Linux starts, in nanoseconds since 1970. Each job then sets the wall clock.
const START_NS: u64 = 1_000_000_000_000_000_000;
/// Maximum time in ns for which User-Mode Linux runs on a core that other threads are waiting for.
const SLICE_NS: u64 = 100_000;
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum time to wait for the rest of the console output after the kernel has ended.
const CONSOLE_TIMEOUT: Duration = Duration::from_secs(1);
const CONSOLE_TAIL_LINES: usize = 6;
/// Start of a line that the kernel prints for each network namespace whose range of ports begins and ends
/// with an even number. Errors do not quote this line.
const EVEN_PORTS: &str = "ip_local_port_range: prefer different parity";

/// A file to which the kernel writes a command's output, and the standard stream to which it is copied.
pub(super) struct Stream {
    pub(super) name: &'static str,
    from: BufReader<File>,
    /// The standard stream of this process to which the file is copied; None once its reader has closed it.
    to: Option<File>,
    /// File to create when the reader of the standard stream has closed it, so that the kernel stops writing.
    closed: PathBuf,
}

impl Stream {
    fn all(session: &Session, folder: &Path) -> io::Result<Vec<Self>> {
        let stream = |name: &'static str, to: &dyn AsFd| {
            let to = Some(to.as_fd().try_clone_to_owned()?.into());
            let closed = folder.join(format!("{name}.{CLOSED}"));
            let from = BufReader::new(File::open(folder.join(name))?);
            Ok::<_, io::Error>(Self { name, from, to, closed })
        };
        let mut streams = vec![stream(OUTPUT, &io::stdout())?];
        if !session.one_output {
            streams.push(stream(ERRORS, &io::stderr())?);
        }
        Ok(streams)
    }

    /// Copies new bytes from the file to the standard stream. Returns true if there were any.
    pub(super) fn copy(&mut self) -> io::Result<bool> {
        let mut any = false;
        loop {
            let new = self.from.fill_buf()?;
            if new.is_empty() {
                return Ok(any);
            }
            any = true;
            let written = self.to.as_mut().map_or(Ok(new.len()), |to| to.write(new));
            match written.map_err(|error| (error.kind(), error)) {
                Ok(written) => self.from.consume(written),
                Err((ErrorKind::Interrupted, _)) => {}
                // The stream is a full pipe that another program has made non-blocking.
                Err((ErrorKind::WouldBlock, _)) => thread::sleep(POLL_INTERVAL),
                Err((ErrorKind::BrokenPipe, _)) => {
                    self.to = None;
                    File::create(&self.closed)?;
                }
                Err((_, error)) => return Err(error),
            }
        }
    }
}

/// A running kernel. Dropping this value kills the kernel.
pub(super) struct Running {
    pub(super) child: Child,
    records: BufReader<File>,
    /// The bytes of a record whose line is not complete yet.
    line: Vec<u8>,
    /// The standard streams of a command; empty for other tasks.
    pub(super) streams: Vec<Stream>,
    console: Arc<Mutex<VecDeque<String>>>,
    /// A channel without messages, which disconnects when the console is closed.
    console_open: Receiver<()>,
}

impl Running {
    pub(super) fn start(
        kernel: &Kernel,
        init: &Path,
        task: &Task,
        folder: &Path,
        memory_bytes: u64,
    ) -> io::Result<Self> {
        process::disable_core_dumps();
        // Opened before the kernel starts, because a program in the kernel could replace the file.
        let records = BufReader::new(File::open(folder.join(RECORDS))?);
        let (console_out, console_in) = process::pipe()?;
        let arguments =
            kernel.arguments.iter().filter(|argument| *argument != FREE_CLOCK || !task.polls_clock);
        let mut command = Command::new(&kernel.program);
        command
            .args(["time-travel=inf-cpu", &format!("time-travel-start={START_NS}")])
            .args([&format!("mem={}M", memory_bytes.div_ceil(1 << 20)), "panic=-1", "quiet"])
            .args(["rootfstype=hostfs", "rootflags=/", "ro", "con=null", "con0=fd:0,fd:1"])
            .args([&format!("uml_dir={}/", folder.display()), "umid=kernel"])
            .args(arguments)
            .args(task.command.map(|_| format!("rng-seed={}", task.jobs[0].seed)))
            .arg(format!("init=\"{}\"", init.display()))
            .args(["--", task.mode, &format!("\"{}\"", folder.display())])
            // With an empty environment, the kernel crashes when it starts.
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/")
            .stdin(Stdio::null())
            .stdout(console_in.try_clone()?)
            .stderr(console_in);
        process::tie_to_parent(&mut command);
        // Only one of the kernel's processes runs at a time, and waking it on another core takes longer.
        let _ = cores::stay();
        // User-Mode Linux never pauses, so jobs in real time on this core wait until its time slice ends.
        process::set_time_slice(SLICE_NS);
        let child = command.spawn()?;
        drop(command);
        let console = Arc::<Mutex<VecDeque<String>>>::default();
        let (alive, console_open) = mpsc::channel();
        let tail = console.clone();
        thread::Builder::new().spawn(move || {
            keep_tail(File::from(console_out), &tail);
            drop(alive);
        })?;
        let streams = task.command.map(|(session, _)| Stream::all(session, folder)).transpose()?;
        let streams = streams.unwrap_or_default();
        Ok(Self { child, records, line: Vec::new(), streams, console, console_open })
    }

    /// Returns true if the kernel has ended. Waits for its end for at most [`POLL_INTERVAL`].
    pub(super) fn has_ended(&mut self) -> bool {
        self.console_open.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Disconnected)
            || self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Copies the kernel's new records to `out`, and counts them in `progress`. Returns true if any were new.
    pub(super) fn copy_records(&mut self, out: &mut dyn Write, progress: &mut Progress) -> io::Result<bool> {
        let mut any = false;
        while self.records.read_until(b'\n', &mut self.line)? > 0 {
            if self.line.ends_with(b"\n") {
                progress.count(&self.line);
                out.write_all(&self.line)?;
                self.line.clear();
                any = true;
            }
        }
        if any {
            out.flush()?;
        }
        Ok(any)
    }

    /// Copies captured packets from `folder` to the task's packet file. Does nothing if either is missing.
    pub(super) fn copy_packets(task: &Task, folder: &Path) -> io::Result<()> {
        let Some((_, Some(mut to))) = task.command else { return Ok(()) };
        let Ok(mut packets) = File::open(folder.join(PACKETS)) else { return Ok(()) };
        empty(to)?;
        io::copy(&mut packets, &mut to).map(drop)
    }

    /// Waits until the kernel has ended. Returns a message with its exit status and its last console lines.
    pub(super) fn exit_reason(&mut self) -> String {
        let how = self.child.wait().map_or("ended".into(), how_ended);
        // The console's thread may not have read the last lines yet.
        let _ = self.console_open.recv_timeout(CONSOLE_TIMEOUT);
        format!("the kernel {how} before its work was done; {}", self.console_tail())
    }

    pub(super) fn console_tail(&self) -> String {
        let console = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        if console.is_empty() {
            return "its console is empty".into();
        }
        format!("its console's last lines: {}", console.iter().cloned().collect::<Vec<_>>().join(" | "))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes the content of a regular file. Does nothing for a pipe or terminal.
pub fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

fn keep_tail(console: impl Read, tail: &Mutex<VecDeque<String>>) {
    let mut lines = BufReader::new(console);
    let mut bytes = Vec::new();
    while lines.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
        let line = String::from_utf8_lossy(&bytes).trim().to_owned();
        bytes.clear();
        if line.is_empty() || line.starts_with(EVEN_PORTS) {
            continue;
        }
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == CONSOLE_TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(line);
    }
}
