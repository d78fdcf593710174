//! Runs a command under interception and stands between it and whoever asked: signals, exit code, report.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use fastopen_netns::counters::Counters;
use fastopen_netns::{process, sysctl};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::Failure;
use crate::diag::Ends;
use crate::filter;
use crate::report::{Record, Records, Report};
use crate::supervisor::{Supervisor, Told};
use crate::waiting::PATIENCE_NS;

const USAGE: &str = "usage: fastopen-world --exec [REPORT] -- COMMAND [ARGUMENT...]\n\
    Runs COMMAND with TCP Fast Open; REPORT is an open descriptor to which JSON Lines are written.";
const SETTING: &str = "net.ipv4.tcp_fastopen";
/// Its bits that let clients and servers use TCP Fast Open.
const CLIENT_OR_SERVER: u32 = 3;

/// Runs what `arguments` say (`[REPORT] -- COMMAND [ARGUMENT...]`) and returns the exit code: the command's own, or 128 + the
/// signal that ended it.
///
/// Returns when the last process under interception has ended; the report is written when the command has.
pub fn run(arguments: impl Iterator<Item = OsString>) -> i32 {
    let arguments: Vec<_> = arguments.collect();
    let (report, command) = match arguments.as_slice() {
        [dashes, command @ ..] if dashes == "--" && !command.is_empty() => (None, command),
        [report, dashes, command @ ..] if dashes == "--" && !command.is_empty() => (report.to_str(), command),
        _ => {
            eprintln!("{USAGE}");
            return 2;
        }
    };
    let report = match report.map(|number| adopt(number).ok_or(number)).transpose() {
        Ok(report) => report,
        Err(number) => {
            eprintln!("REPORT: {number:?} is no open descriptor\n{USAGE}");
            return 2;
        }
    };
    run_with(command, Records(report), Place::Machine)
}

/// Runs a command in the network of the calling thread, whatever its setting is, and returns its exit code. What the command leaves
/// running is the caller's to end. `report` takes the records.
pub fn run_here(command: &[OsString], report: File) -> i32 {
    run_with(command, Records(Some(report)), Place::World)
}

/// Whose network it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// This machine's: Fast Open is to be used, and whatever the command starts is helped to its end.
    Machine,
    /// One made for the command, with or without Fast Open, which ends with it.
    World,
}

fn run_with(command: &[OsString], mut records: Records, place: Place) -> i32 {
    supervise(command, &mut records, place).unwrap_or_else(|failure| {
        let Failure { message, remedy, code } = failure;
        if records.0.is_none() {
            eprintln!("{message}{}{remedy}", if remedy.is_empty() { "" } else { "; " });
        }
        records.write(&Record::Failed { message, remedy, code });
        code
    })
}

/// Takes over an inherited descriptor, given by its number, which the command is not to inherit. None: there is none, or it is a
/// standard stream.
pub fn adopt(number: &str) -> Option<File> {
    let number: i32 = number.parse().ok().filter(|number| *number > 2)?;
    fs::metadata(format!("/proc/self/fd/{number}")).ok()?;
    // SAFETY: it is open, was given to us for this, and nothing else here uses its number.
    let file = unsafe { File::from_raw_fd(number) };
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
    Some(file)
}

fn supervise(command: &[OsString], records: &mut Records, place: Place) -> Result<i32, Failure> {
    let machine = |doing: &'static str| move |error: io::Error| Failure::machine(doing, &error);
    if place == Place::Machine && setting() & CLIENT_OR_SERVER == 0 {
        return Err(Failure {
            message: format!("{SETTING} is {}: TCP Fast Open is off on this machine", setting()),
            remedy: format!("as root: sysctl -w {SETTING}=3"),
            code: 3,
        });
    }
    let before = Counters::read().map_err(|error| Failure::machine("reading counters", &error))?;
    let ends = Ends::listen().map_err(machine("listening to the ends of TCP sockets"))?;
    // Who ignores it, as some that start us do, is not told of the end of children.
    // SAFETY: no handler is set that could run.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }
        .map_err(|error| Failure::machine("taking signals", &error))?;
    // All of them: what is meant for the command is passed on, and nothing but its end ends this process.
    let mask = SigSet::all();
    let signals = mask
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .map_err(|error| Failure::machine("taking signals", &error))?;
    // A process that outlives its parent stays below this one, where Yama lets us reach it.
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(|error| Failure::machine("becoming the parent of orphans", &error))?;
    let (listener, pid) = start(command)?;
    records.write(&Record::Started { pid: pid.as_raw() });
    let _ = let_go_of_inherited();
    process::raise_file_limit();
    let mut supervisor = Supervisor::new(listener, ends, PATIENCE_NS);
    // Connections without Fast Open count as well.
    supervisor.told = (place == Place::World).then(Told::default);
    let session = Session { pid, code: None, place, supervisor, signals, before, records };
    session.last().map_err(machine("supervising the command"))
}

fn setting() -> u32 {
    sysctl::get(SETTING).ok().and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Starts the command under the filter; returns where its held calls are read, and its process.
fn start(command: &[OsString]) -> Result<(OwnedFd, Pid), Failure> {
    let name = command[0].to_string_lossy().into_owned();
    let mut starting = Command::new(&command[0]);
    starting.args(&command[1..]);
    // SAFETY: one system call without memory or locks, which is allowed between fork and exec.
    unsafe {
        starting.pre_exec(|| Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?));
    }
    // A filter is a thread's own and its children's: the supervisor itself stays outside.
    let start = move || {
        let listener = filter::install().map_err(|error| forbidden(&error))?;
        let child = starting.spawn().map_err(|error| cannot_run(&name, &error))?;
        Ok((listener, Pid::from_raw(child.id() as i32)))
    };
    std::thread::spawn(start).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub(crate) fn forbidden(error: &io::Error) -> Failure {
    let (why, remedy) = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EBUSY) => {
            ("there is a listener already", "not inside another fastopen exec, or a container engine's")
        }
        Some(Errno::EINVAL | Errno::ENOSYS) => ("this kernel has none", "Linux 5.9 or newer is needed"),
        _ => ("the kernel refuses", ""),
    };
    let message = format!("seccomp user notification: {why} ({error})");
    Failure { message, remedy: remedy.into(), code: 3 }
}

/// As `env` has it: 127 where there is no such command, 126 where there is one.
pub(crate) fn cannot_run(name: &str, error: &io::Error) -> Failure {
    let missing = error.kind() == io::ErrorKind::NotFound;
    let message = if missing { format!("{name}: no such command") } else { format!("{name}: {error}") };
    Failure { message, remedy: String::new(), code: if missing { 127 } else { 126 } }
}

/// Closes what this process inherited and the command has of its own now: who waits for the end of a pipe must not wait for us.
fn let_go_of_inherited() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    for entry in fs::read_dir("/proc/self/fd")? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // What this process opened itself is closed on exec; what it inherited is not.
        // SAFETY: no pointers; nothing here uses a descriptor that is not its own.
        if number > 2 && unsafe { libc::fcntl(number, libc::F_GETFD) } == 0 {
            // SAFETY: as above.
            unsafe { libc::close(number) };
        }
    }
    std::env::set_current_dir("/")
}

/// A command at work.
struct Session<'r> {
    pid: Pid,
    code: Option<i32>,
    place: Place,
    supervisor: Supervisor,
    signals: SignalFd,
    before: Counters,
    records: &'r mut Records,
}

impl Session<'_> {
    /// Lasts until the last process under the filter has ended; returns the command's exit code.
    fn last(mut self) -> io::Result<i32> {
        loop {
            let [held, ended, signalled] = self.wait()?;
            // First, since somebody waits for it.
            if held.contains(PollFlags::POLLIN) {
                self.supervisor.answer_call()?;
            }
            if !ended.is_empty() {
                self.supervisor.hear_ends();
            }
            self.supervisor.look_after_waiting();
            if !signalled.is_empty() {
                self.pass_signals_on();
                self.reap()?;
            }
            // Hung up: nobody is under the filter any more.
            let over = self.place == Place::World || held.contains(PollFlags::POLLHUP);
            if let (Some(code), true) = (self.code, over) {
                return Ok(code);
            }
        }
    }

    /// Waits for something to do: held calls, ended sockets, signals.
    fn wait(&self) -> io::Result<[PollFlags; 3]> {
        let descriptors =
            [self.supervisor.listener.as_fd(), self.supervisor.ends.as_fd(), self.signals.as_fd()];
        let mut polled = descriptors.map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
        let timeout =
            self.supervisor.timeout_ns().map(|ns| TimeSpec::from_duration(Duration::from_nanos(ns)));
        match ppoll(&mut polled, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(polled.map(|descriptor| descriptor.revents().unwrap_or(PollFlags::empty())))
    }

    /// Passes on what somebody sent. What the terminal sends, the command gets itself.
    fn pass_signals_on(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            let number = Signal::try_from(signal.ssi_signo as i32);
            let sent = signal.ssi_code <= libc::SI_USER && !is_below(signal.ssi_pid as i32);
            match number {
                Ok(number) if sent && number != Signal::SIGCHLD && self.code.is_none() => {
                    let _ = kill(self.pid, number);
                }
                _ => {}
            }
        }
    }

    /// Takes note of processes that stopped or ended: the command, and orphans.
    fn reap(&mut self) -> io::Result<()> {
        loop {
            match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
                Ok(WaitStatus::Stopped(pid, signal)) if pid == self.pid => {
                    self.records.write(&Record::Stopped { signal: signal as i32 });
                }
                Ok(WaitStatus::Exited(pid, code)) if pid == self.pid => self.end(Some(code), None)?,
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.pid => {
                    self.end(None, Some(signal as i32))?;
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn end(&mut self, exit_code: Option<i32>, signal: Option<i32>) -> io::Result<()> {
        self.code = exit_code.or(signal.map(|signal| 128 + signal));
        if self.records.0.is_none() {
            return Ok(());
        }
        let grown = Counters::read().map(|now| now.since(&self.before)).unwrap_or_default();
        let fast_open =
            |(name, growth): (&str, i64)| name.starts_with("TCPFastOpen").then(|| (name.to_owned(), growth));
        let report = Report {
            exit_code,
            signal,
            traffic: self.supervisor.traffic()?,
            tcp_fastopen: setting(),
            counters: grown.iter().filter_map(fast_open).collect(),
            goes_on: !self.supervisor.listener.ready().contains(PollFlags::POLLHUP),
        };
        self.records.write(&Record::Ended(Box::new(report)));
        // Whoever asked waits for the end of this.
        self.records.0 = None;
        Ok(())
    }
}

/// Whether a process is a descendant of this one: `kill 0` of the command reaches all of us, and it has had its own.
fn is_below(mut pid: i32) -> bool {
    let own = std::process::id() as i32;
    while pid > 1 && pid != own {
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let parent = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        pid = parent.unwrap_or(0);
    }
    pid == own
}
