//! `--shell`: runs a command in the emulated network of a job (its "world"), for `fastopen shell`.

pub mod in_kernel;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use fastopen_intercept::{Invocation, Record, adopt, write_line};
use fastopen_netns::sandbox::View;
use fastopen_netns::{namespace, process};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::commands::shell::in_kernel::Session;
use crate::contract::{Engine, Fault, Job};
use crate::failure::{Blame, Failure};
use crate::virtual_kernel::{self, Kernel, Task, empty};
use crate::world::serve_commands::ServeCommand;
use crate::{sandbox, world};

const USAGE: &str = "\
usage: fastopen-world --shell PLAN REPORT [--kernel PROGRAM [ARGUMENT...]] -- COMMAND [ARGUMENT...]
Runs COMMAND in the world of a job; --kernel runs it on that User-Mode Linux kernel, in virtual time. PLAN and
REPORT are open descriptors: the plan (JSON) is read from one, JSON Lines are written to the other.";

/// Hint to print after a command has failed, because the command may have tried to change its user.
const ONE_USER: &str = "fastopen shell: the world has one user id, so programs that change their user fail \
    (daemons, tcpdump -w); root has all ids, and other users get a range of /etc/subuid with newuidmap \
    (package uidmap)";

/// The emulated network for a command, as the Python program describes it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    job: Box<RawValue>,
    servers: Vec<ServeCommand>,
    /// Open descriptor to which captured packets are written; None if the job captures no packets.
    packets: Option<u32>,
    /// Host folder for the command's files. In virtual time, they are copied there when the command ends.
    output: Option<PathBuf>,
    /// Wall clock at the start in virtual time, in seconds since 1970.
    start_s: i64,
}

/// Runs a command in an emulated network. `USAGE` explains the arguments. Returns the command's exit code, or
/// 128 + the signal that ended it. If the command cannot be run, returns the failure's exit code.
pub fn run(arguments: impl Iterator<Item = OsString>) -> i32 {
    let arguments: Vec<_> = arguments.collect();
    let Some((plan, report, kernel, command)) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return 2;
    };
    let ran = read(plan).and_then(|(plan, job, packets)| match kernel {
        None => run_on_host(&plan, &job, packets, command, &report),
        Some(kernel) => run_on(&kernel, plan, &job, packets.as_ref(), command, &report),
    });
    ran.unwrap_or_else(|failure| write_failure(failure, &report))
}

fn parse(arguments: &[OsString]) -> Option<(File, File, Option<Kernel>, &[OsString])> {
    let dashes = arguments.iter().position(|word| word == "--")?;
    let (own, command) = (&arguments[..dashes], &arguments[dashes + 1..]);
    let [plan, report, rest @ ..] = own else { return None };
    let kernel = match rest {
        [] => None,
        [option, program, rest @ ..] if option == "--kernel" => {
            let arguments = rest.iter().map(|word| word.to_str().map(str::to_owned));
            Some(Kernel { program: program.into(), arguments: arguments.collect::<Option<_>>()? })
        }
        _ => return None,
    };
    let open = |word: &OsString| word.to_str().and_then(adopt);
    (!command.is_empty()).then_some((open(plan)?, open(report)?, kernel, command))
}

fn read(plan: File) -> Result<(Plan, Job, Option<File>), Failure> {
    let wrong = |problem: String| Failure::new(Fault::Input, problem);
    let plan: Plan =
        serde_json::from_reader(BufReader::new(plan)).map_err(|error| wrong(error.to_string()))?;
    let open = |number: u32| adopt(&number.to_string()).ok_or_else(|| wrong("packets: not open".into()));
    let job = Job::read(&plan.job).map_err(wrong)?;
    let packets = plan.packets.map(open).transpose()?;
    Ok((plan, job, packets))
}

fn run_on_host(
    plan: &Plan,
    job: &Job,
    packets: Option<File>,
    command: &[OsString],
    report: &File,
) -> Result<i32, Failure> {
    process::die_with_parent()?;
    // `run_in_child_with_signals` reads blocked signals, and forwards them to the command's supervisor.
    process::block_signals()?;
    let records = report.try_clone().blame(Fault::Machine, "the report")?;
    process::raise_file_limit();
    let isolated = job.client.isolate;
    // An isolated command runs as one user, and has no capability to change to another.
    let users = if isolated {
        namespace::enter_sandbox().map(|()| true)?
    } else {
        namespace::enter_sandbox_with_users()?
    };
    let code = process::run_in_child_with_signals(|| {
        let run = || {
            if isolated {
                view(job, command).enter()?;
            } else {
                namespace::mount_proc();
            }
            let command = Invocation { words: command, environment: None };
            let ran = world::run_command(job, Engine::Host, &plan.servers, command, records)?;
            if !ran.failed_servers.is_empty() {
                let _ = write_line(report, &Record::ServersFailed { servers: ran.failed_servers });
            }
            if let (Some(mut file), Some((pcapng, dropped))) = (packets, ran.packets) {
                let written = empty(&file).and_then(|()| file.write_all(&pcapng));
                written.blame(Fault::Machine, "writing the packets")?;
                let _ = write_line(report, &Record::Captured { dropped });
            }
            Ok(ran.exit_code)
        };
        run().unwrap_or_else(|failure: Failure| write_failure(failure, report))
    })?;
    if !users && code != 0 {
        eprintln!("{ONE_USER}");
    }
    Ok(code)
}

fn run_on(
    kernel: &Kernel,
    plan: Plan,
    job: &Job,
    packets: Option<&File>,
    command: &[OsString],
    report: &File,
) -> Result<i32, Failure> {
    process::die_with_parent()?;
    process::unblock_signals()?;
    let session = Session {
        plan,
        command: command.to_vec(),
        directory: std::env::current_dir().blame(Fault::Input, "the working directory")?,
        environment: std::env::vars_os().collect(),
        one_output: same_file(&io::stdout(), &io::stderr()).unwrap_or_default(),
    };
    let task = Task::command(job, &session, packets);
    virtual_kernel::run(kernel, session.plan.job.get().as_bytes(), &task, &mut &*report, |failure| {
        write_failure(failure, report)
    })
}

fn same_file(one: &dyn AsFd, other: &dyn AsFd) -> io::Result<bool> {
    let place = |stream: &dyn AsFd| {
        let file = File::from(stream.as_fd().try_clone_to_owned()?).metadata()?;
        Ok::<_, io::Error>((file.dev(), file.ino()))
    };
    Ok(place(one)? == place(other)?)
}

/// Returns the files that an isolated command may see: its program, the system's files and the job's files.
fn view(job: &Job, command: &[OsString]) -> View {
    let mut view = sandbox::view(std::slice::from_ref(job));
    view.files.extend(command.first().map(PathBuf::from));
    view
}

/// Writes the failure as a JSON record to the file `report`, and returns the failure's exit code.
fn write_failure(failure: Failure, report: &File) -> i32 {
    let Failure { fault, message, remedy, .. } = failure;
    let code = fault.exit_code();
    // The reader of the report may have ended.
    let _ = write_line(report, &Record::Failed { message, remedy, code });
    code
}
