//! Implements `--shell --kernel` inside the virtual engine's kernel, as PID 1: runs a [`Session`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::slice;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastopen_intercept::{Invocation, Record, write_line};
use fastopen_netns::init::{self, write_back};
use fastopen_netns::namespace::{mount_temporary, scratch};
use fastopen_netns::poll::wait_readable;
use fastopen_netns::process;
use fastopen_netns::sandbox::View;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::commands::conform::copy_folder;
use crate::commands::shell::{Plan, view, write_failure};
use crate::contract::{Engine, Fault, Job};
use crate::engine::begin_at;
use crate::failure::{Blame, Failure};
use crate::virtual_kernel::init::{channel, prepare};
use crate::virtual_kernel::{COMMAND_BYTES, use_bodies_copies};
use crate::world::{Ran, run_command};

// Names of files in the folder shared with the host: session, standard streams and captured packets.
const SESSION: &str = "session";
const INPUT: &str = "input";
pub const OUTPUT: &str = "output";
pub const ERRORS: &str = "errors";
/// Extension of an empty file that the host creates once a standard stream of the command has no reader.
pub const CLOSED: &str = "closed";
pub const PACKETS: &str = "packets";

/// Maximum number of bytes that a command may write to a standard stream.
const MOST_OUTPUT: u64 = 256 << 20;
/// Time in nanoseconds to wait for standard input before printing a message that explains the wait.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Timeout of a command in virtual time. On timeout the exit code is `TIMED_OUT`, as for timeout(1).
const LONGEST: Duration = Duration::from_secs(86_400);
const TIMED_OUT: i32 = 124;

/// A command to run in the virtual engine's kernel, with its environment.
#[derive(Debug, Serialize, Deserialize)]
pub struct Session {
    pub plan: Plan,
    pub command: Vec<OsString>,
    pub directory: PathBuf,
    pub environment: Vec<(OsString, OsString)>,
    /// True if standard output and error are the same file. They then share a pipe, to keep the order of
    /// writes.
    pub one_output: bool,
}

impl Session {
    /// Returns the files that the command may see: all files, or only the system's and the job's files if the
    /// command is isolated. The output folder is writable.
    pub fn view(&self, job: &Job) -> View {
        View {
            all: !job.client.isolate,
            writable: self.plan.output.iter().cloned().collect(),
            ..view(job, &self.command)
        }
    }

    /// Writes this value, and standard input unless it is a terminal, to `folder`, where the virtual engine's
    /// kernel reads them. Creates empty files there for the command's output.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(SESSION), serde_json::to_vec(self)?)?;
        for name in [OUTPUT, ERRORS] {
            File::create_new(folder.join(name))?;
        }
        let mut input = File::create_new(folder.join(INPUT))?;
        if io::stdin().is_terminal() {
            return Ok(());
        }
        let waits = wait_readable(&[io::stdin().as_fd()], Some(PATIENCE_NS))?[0].is_empty();
        if waits {
            eprintln!("fastopen shell: reading standard input to its end; </dev/null gives none");
        }
        io::copy(&mut io::stdin().lock(), &mut input).map(drop)
    }
}

/// Runs the command that the host's `folder` describes, then powers off the virtual engine's kernel.
pub fn run(folder: &str) -> ! {
    process::tune_malloc();
    // Signals are blocked before threads start. Otherwise SIGCHLD could go to a thread, not the supervisor.
    let rooted = process::block_signals().and_then(|()| init::make_root_writable(COMMAND_BYTES));
    let rooted = rooted.map_err(|error| {
        let remedy = "this kernel is of an earlier version of fastopen: fastopen kernel build".to_owned();
        Failure { remedy, ..error.into() }
    });
    let devices = || init::mount_devices().and_then(|()| init::complete_devices());
    let prepared = rooted.and_then(|()| Ok(devices()?));
    match prepare(folder) {
        Ok((job, records)) => {
            if prepared.is_ok() {
                // Each run has another folder name. Removing the folder in the writable layer hides the name.
                let _ = fs::remove_dir_all(folder);
            }
            // The command must neither see nor change the files that are exchanged with the host.
            let hidden = prepared.and_then(|()| Ok(init::hide_host_folder(&channel())?));
            let ran = hidden.and_then(|channel| run_session(&job, &records, &channel));
            if let Err(failure) = ran {
                write_failure(failure, &records);
            }
            let _ = write_back(&records);
        }
        Err(failure) => eprintln!("{failure}"),
    }
    init::power_off()
}

fn run_session(job: &[u8], records: &File, channel: &Path) -> Result<(), Failure> {
    let wrong = |problem: String| Failure::new(Fault::Input, problem);
    let job: Box<RawValue> = serde_json::from_slice(job).map_err(|error| wrong(error.to_string()))?;
    let mut job = Job::read(&job).map_err(wrong)?;
    use_bodies_copies(slice::from_mut(&mut job), channel);
    let session = fs::read(channel.join(SESSION)).blame(Fault::Machine, "reading the session")?;
    let session: Session = serde_json::from_slice(&session).map_err(|error| wrong(error.to_string()))?;
    let Plan { servers, output, start_s, .. } = &session.plan;
    if let Some(folder) = output {
        fs::create_dir_all(folder).blame(Fault::Machine, folder.display())?;
        mount_temporary(folder, Some(COMMAND_BYTES))?;
    }
    begin_at(*start_s)?;
    let started = Instant::now();
    let kill_late = || {
        thread::sleep(LONGEST);
        process::kill_all_others();
    };
    thread::Builder::new().spawn(kill_late).blame(Fault::Machine, "starting a thread")?;
    let pumps =
        redirect(channel, session.one_output).blame(Fault::Machine, "redirecting the standard streams")?;
    // An isolated command may be unable to see its working directory.
    let hidden = job.client.isolate && !session.directory.is_dir();
    let directory = if hidden { Path::new("/") } else { &session.directory };
    std::env::set_current_dir(directory).blame(Fault::Input, directory.display())?;
    let report = records.try_clone().blame(Fault::Machine, "the report")?;
    let command = Invocation { words: &session.command, environment: Some(&session.environment) };
    let Ran { packets, failed_servers, .. } = run_command(&job, Engine::Virtual, servers, command, report)?;
    let timed_out = started.elapsed() >= LONGEST;
    // The copying ends when no process holds the pipes open: neither processes that the command left running
    // nor, if the command did not start, this process.
    process::end_all_others();
    process::close_standard_streams().blame(Fault::Machine, "closing the standard streams")?;
    let copied = pumps.into_iter().map(|pump| pump.join().expect("copying a stream does not panic"));
    let copied = copied.collect::<Vec<_>>().into_iter().collect::<io::Result<()>>();
    let write_record = |record| write_line(records, &record).blame(Fault::Machine, "writing a record");
    if let Some((pcapng, dropped)) = packets {
        write(&channel.join(PACKETS), &pcapng).blame(Fault::Machine, "writing the packets")?;
        write_record(Record::Captured { dropped })?;
    }
    // At the timeout, the servers were ended together with the command.
    if !failed_servers.is_empty() && !timed_out {
        write_record(Record::ServersFailed { servers: failed_servers })?;
    }
    if let Some(folder) = output {
        bring_back(folder)?;
    }
    copied.blame(Fault::Machine, "output of the command")?;
    write_record(if timed_out {
        let message = "the command had not ended after a day of virtual time".into();
        Record::Failed { message, remedy: String::new(), code: TIMED_OUT }
    } else {
        Record::Done
    })
}

/// Connects standard input to a file in the folder `channel`, and standard output and error to pipes. The
/// returned threads copy the output from the pipes to files in `channel`.
fn redirect(channel: &Path, one_output: bool) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    let pump = |from: OwnedFd, name: &'static str| {
        let to = channel.join(name);
        thread::Builder::new().name(name.into()).spawn(move || copy_output(File::from(from), &to))
    };
    let input = File::open(channel.join(INPUT))?;
    let (output, to_output) = process::pipe()?;
    let mut pumps = vec![pump(output, OUTPUT)?];
    let to_errors = if one_output {
        to_output.try_clone()?
    } else {
        let (errors, to_errors) = process::pipe()?;
        pumps.push(pump(errors, ERRORS)?);
        to_errors
    };
    process::replace_standard_streams(input, to_output, to_errors)?;
    Ok(pumps)
}

/// Copies output to the host. Stops when nobody reads it there any more, so that the command gets SIGPIPE.
fn copy_output(mut from: File, to: &Path) -> io::Result<()> {
    let closed = to.with_extension(CLOSED);
    let mut to = &File::options().append(true).open(to)?;
    // With ordinary scheduling, this thread would copy no output while the command computes.
    process::run_first()?;
    let mut buffer = vec![0; 1 << 16];
    let mut written = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 || closed.exists() {
            return Ok(());
        }
        written += count as u64;
        if written > MOST_OUTPUT {
            return Err(io::Error::other(format!("more than {} MiB on a stream", MOST_OUTPUT >> 20)));
        }
        to.write_all(&buffer[..count])?;
        write_back(to).map_err(io::Error::other)?;
    }
}

fn bring_back(folder: &Path) -> Result<(), Failure> {
    let host = scratch().join("host");
    init::mount_host_folder(&folder.to_string_lossy(), &host)?;
    let copying = || format!("copying files to {}", folder.display());
    copy_folder(folder, &host).blame(Fault::Machine, copying())?;
    init::write_back_folder(&host).blame(Fault::Machine, copying())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    write_back(&file).map_err(io::Error::other)
}
