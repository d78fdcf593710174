//! Runs a command with intercepted system calls, for `fastopen exec` and `fastopen shell`: forwards signals,
//! returns the exit code, and writes the report.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::counters::{self, Counters};
use fastopen_netns::sandbox::{confine, protect_settings, restrict_sockets};
use fastopen_netns::sock_diag::DestroyEvents;
use fastopen_netns::{process, sysctl};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::PollFlags;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::Error;
use crate::filter;
use crate::report::{Connection, Record, Records, Report};
use crate::supervisor::{Observer, Opened, Supervisor};

const USAGE: &str = "usage: fastopen-world --exec [REPORT] -- COMMAND [ARGUMENT...]\n\
    Runs COMMAND with TCP Fast Open; REPORT is an open descriptor to which JSON Lines are written.";
const LISTED_CONNECTIONS: usize = 1000;
/// Time after which a connection's SYN is sent without data if the client has not written anything. Clients
/// that speak first, before the server, do so within a millisecond or two.
const FIRST_WRITE_TIMEOUT_NS: u64 = 20_000_000;
const SETTING: &str = "net.ipv4.tcp_fastopen";
/// Bits of the sysctl that enable TCP Fast Open for clients and servers.
const CLIENT_OR_SERVER: u32 = 3;

/// Runs the command in `arguments` (`[REPORT] -- COMMAND [ARGUMENT...]`) with Fast Open. Writes a report as
/// JSON Lines to the open descriptor with the number REPORT. When the command and its children have ended,
/// returns the command's exit code, or 128 + the number of the signal that ended the command.
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
            eprintln!("REPORT: {number:?} is not an open descriptor\n{USAGE}");
            return 2;
        }
    };
    let command = Invocation { words: command, environment: None };
    run_with(command, Records(report), Network::Machine)
}

/// Runs a command in the calling thread's network namespace, even if Fast Open is disabled there. Returns the
/// command's exit code when it has ended, even if its children still run. Writes records about the command to
/// `report`. If `isolated` is true, the command has no capabilities, cannot change its mounts, and can only
/// create Internet, UNIX and netlink sockets. Reaps all children of this process. Calls `reaped` with the
/// process ID and status of each child except the command.
pub fn run_here(command: Invocation, report: File, isolated: bool, reaped: Reaped) -> i32 {
    run_with(command, Records(Some(report)), Network::World { isolated, reaped })
}

/// A callback that gets the process ID and the status of a child that has ended.
pub type Reaped<'a> = &'a mut dyn FnMut(u32, ExitStatus);

/// A program with its arguments and environment.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// The program, followed by its arguments; not empty.
    pub words: &'a [OsString],
    /// The program's environment; `None` for the environment of this process.
    pub environment: Option<&'a [(OsString, OsString)]>,
}

impl Invocation<'_> {
    /// Returns a [`Command`] that starts the program `words[0]` with its arguments and environment.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        if let Some(environment) = self.environment {
            command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
        }
        command
    }
}

enum Network<'a> {
    /// This machine's network, which must permit Fast Open. The system calls of the command and its children
    /// are intercepted until all of these processes have ended.
    Machine,
    /// An emulated network, with or without Fast Open. System calls are intercepted until the command ends.
    /// For the fields, see [`run_here`].
    World { isolated: bool, reaped: Reaped<'a> },
}

fn run_with(command: Invocation, mut records: Records, network: Network) -> i32 {
    supervise(command, &mut records, network).unwrap_or_else(|error| {
        let (message, remedy, code) = (error.to_string(), error.remedy().to_owned(), error.exit_code());
        if records.0.is_none() {
            eprintln!("{message}{}{remedy}", if remedy.is_empty() { "" } else { "; " });
        }
        records.write(&Record::Failed { message, remedy, code });
        code
    })
}

/// Takes ownership of the inherited descriptor with this number, and sets it close-on-exec. Returns None if
/// the descriptor is not open or is a standard stream.
pub fn adopt(number: &str) -> Option<File> {
    let number: i32 = number.parse().ok().filter(|number| *number > 2)?;
    fs::metadata(format!("/proc/self/fd/{number}")).ok()?;
    // SAFETY: the descriptor is open, and nothing else in this process uses it.
    let file = unsafe { File::from_raw_fd(number) };
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
    Some(file)
}

fn supervise(command: Invocation, records: &mut Records, network: Network) -> Result<i32, Error> {
    if matches!(network, Network::Machine) && setting() & CLIENT_OR_SERVER == 0 {
        return Err(Error::FastOpenOff(setting()));
    }
    let before = counters::read()?;
    let events = DestroyEvents::subscribe().map_err(Error::kernel("subscribing to destroy events"))?;
    // With an inherited SIG_IGN, the kernel would reap children without a SIGCHLD.
    // SAFETY: no handler is installed.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map_err(Error::kernel("taking signals"))?;
    // Block all signals, to forward them to the command. This process ends only after the command.
    let mask = SigSet::all();
    let signals = mask
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .map_err(Error::kernel("taking signals"))?;
    // Orphans become children of this process, because Yama allows pidfd_getfd only on descendants.
    nix::sys::prctl::set_child_subreaper(true).map_err(Error::kernel("becoming a subreaper"))?;
    let start_ns = monotonic_ns();
    let (listener, pid) = start(command, matches!(network, Network::World { isolated: true, .. }))?;
    records.write(&Record::Started { pid: pid.as_raw() });
    let _ = close_inherited();
    process::raise_file_limit();
    let mut supervisor = Supervisor::new(listener, events, FIRST_WRITE_TIMEOUT_NS);
    // With an observer, connections without Fast Open are counted as well.
    supervisor.observer = matches!(network, Network::World { .. }).then(Observer::default);
    let session = Session { pid, start_ns, code: None, network, supervisor, signals, before, records };
    session.run().map_err(Error::kernel("supervising the command"))
}

fn setting() -> u32 {
    sysctl::get(SETTING).ok().and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn start(command: Invocation, isolated: bool) -> Result<(OwnedFd, Pid), Error> {
    let mut starting = command.command();
    // SAFETY: one system call without memory or locks, which is allowed between fork and exec.
    unsafe {
        starting.pre_exec(|| Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?));
    }
    if isolated {
        confine(&mut starting);
    }
    let prepare =
        move || if isolated { protect_settings().and_then(|()| restrict_sockets(true)) } else { Ok(()) };
    let (listener, child, _) = filter::spawn(starting, prepare)?;
    Ok((listener, Pid::from_raw(child.id() as i32)))
}

/// Closes the inherited descriptors; the command has copies. Otherwise the reader of an inherited pipe would
/// wait until this process ends.
fn close_inherited() -> io::Result<()> {
    process::close_standard_streams()?;
    for entry in fs::read_dir("/proc/self/fd")? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Only inherited descriptors are not close-on-exec.
        // SAFETY: the call takes no pointers, and this process does not use inherited descriptors.
        if number > 2 && unsafe { libc::fcntl(number, libc::F_GETFD) } == 0 {
            // SAFETY: as above.
            unsafe { libc::close(number) };
        }
    }
    std::env::set_current_dir("/")
}

struct Session<'r, 'n> {
    pid: Pid,
    start_ns: u64,
    /// The command's exit code; `None` until the command has ended.
    code: Option<i32>,
    network: Network<'n>,
    supervisor: Supervisor,
    signals: SignalFd,
    before: Counters,
    records: &'r mut Records,
}

impl Session<'_, '_> {
    fn run(mut self) -> io::Result<i32> {
        loop {
            if self.supervisor.step(self.signals.as_fd())? {
                self.forward_signals();
                self.reap()?;
            }
            let over = matches!(self.network, Network::World { .. }) || self.supervisor.all_ended;
            if let (Some(code), true) = (self.code, over) {
                return Ok(code);
            }
        }
    }

    /// Forwards signals to the command, unless they also reach it directly, such as those from the terminal.
    fn forward_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            let number = Signal::try_from(signal.ssi_signo as i32);
            // A descendant that signals its process group (`kill(0)`) also signals the command.
            let sent = signal.ssi_code <= libc::SI_USER && !is_descendant(signal.ssi_pid as i32);
            match number {
                Ok(number) if sent && number != Signal::SIGCHLD && self.code.is_none() => {
                    let _ = kill(self.pid, number);
                }
                _ => {}
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        loop {
            match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
                Ok(WaitStatus::Stopped(pid, signal)) if pid == self.pid => {
                    self.records.write(&Record::Stopped { signal: signal as i32 });
                }
                Ok(WaitStatus::Exited(pid, code)) => self.ended(pid, ExitStatus::from_raw(code << 8))?,
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    self.ended(pid, ExitStatus::from_raw(signal as i32))?;
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn ended(&mut self, pid: Pid, status: ExitStatus) -> io::Result<()> {
        if pid != self.pid {
            if let Network::World { reaped, .. } = &mut self.network {
                reaped(pid.as_raw() as u32, status);
            }
            return Ok(());
        }
        let (exit_code, signal) = (status.code(), status.signal());
        self.code = exit_code.or(signal.map(|signal| 128 + signal));
        let elapsed_us = (monotonic_ns() - self.start_ns) / 1000;
        if self.records.0.is_none() {
            return Ok(());
        }
        let grown = counters::read().map(|now| counters::growth(&self.before, &now)).unwrap_or_default();
        // In an emulated network, the supervisor's observer has recorded all connections.
        let connections =
            self.supervisor.observer.is_some().then(|| self.supervisor.connections(None)).transpose()?;
        let shown = |opened: Vec<Opened>| {
            opened.iter().take(LISTED_CONNECTIONS).map(|one| Connection::new(one, self.start_ns)).collect()
        };
        let report = Report {
            exit_code,
            signal,
            elapsed_us,
            traffic: self.supervisor.traffic()?,
            tcp_fastopen: setting(),
            counters: grown.into_iter().filter(|(name, _)| name.starts_with("TCPFastOpen")).collect(),
            goes_on: !self.supervisor.listener.ready().contains(PollFlags::POLLHUP),
            connections: connections.map(shown),
        };
        self.records.write(&Record::Ended(Box::new(report)));
        // Close the file, because its reader waits for the end of file.
        self.records.0 = None;
        Ok(())
    }
}

/// Returns true if `pid` is this process or one of its descendants.
fn is_descendant(mut pid: i32) -> bool {
    let own = std::process::id() as i32;
    while pid > 1 && pid != own {
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let parent = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        pid = parent.unwrap_or(0);
    }
    pid == own
}
