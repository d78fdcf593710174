//! `--shell`: a command with a terminal in a world, for `fastopen shell`.

use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use fastopen_intercept::{Record, adopt, run_here, write_line};
use fastopen_netns::sandbox::View;
use fastopen_netns::{namespace, process};
use serde_json::value::RawValue;

use crate::contract::{Fault, Job};
use crate::failure::{Blame, Failure};
use crate::{sandbox, world};

const USAGE: &str = "\
usage: fastopen-world --shell JOB REPORT -- COMMAND [ARGUMENT...]
Runs COMMAND in the world of a job. JOB and REPORT are open descriptors: the job is read from one, JSON Lines
are written to the other.";

/// Said where a command failed, perhaps since it tried to change its user.
const ONE_USER: &str = "fastopen shell: one user id is mapped here, so programs that change their user fail \
    (daemons, tcpdump -w); as root all are, and to others newuidmap (package uidmap) maps a range of \
    /etc/subuid";

/// Runs what `arguments` say (`JOB REPORT -- COMMAND [ARGUMENT...]`) and returns the exit code: the command's
/// own, or 128 + the signal that ended it.
pub fn run(arguments: impl Iterator<Item = OsString>) -> i32 {
    let arguments: Vec<_> = arguments.collect();
    let (job, report, command) = match arguments.as_slice() {
        [job, report, dashes, command @ ..] if dashes == "--" && !command.is_empty() => {
            (job.to_str().and_then(adopt), report.to_str().and_then(adopt), command)
        }
        _ => (None, None, &[][..]),
    };
    let (Some(job), Some(report)) = (job, report) else {
        eprintln!("{USAGE}");
        return 2;
    };
    run_in_world(job, command, &report).unwrap_or_else(|failure| write_failure(failure, &report))
}

fn run_in_world(job: File, command: &[OsString], report: &File) -> Result<i32, Failure> {
    process::die_with_parent()?;
    // `run_in_child_with_signals` forwards them to the supervisor, which forwards them to the command.
    process::block_signals()?;
    let job = read(job)?;
    let records = report.try_clone().blame(Fault::Machine, "the report")?;
    process::raise_file_limit();
    let isolated = job.client.isolate;
    // What is isolated has one user, without a capability to become another.
    let users = if isolated {
        namespace::enter_sandbox().map(|()| true)?
    } else {
        namespace::enter_sandbox_with_users()?
    };
    let code = process::run_in_child_with_signals(|| {
        let run = || {
            if isolated {
                view(&job, command).enter()?;
            } else {
                namespace::mount_proc();
            }
            world::with_world(&job, || run_here(command, records, isolated))
        };
        run().unwrap_or_else(|failure: Failure| write_failure(failure, report))
    })?;
    if !users && code != 0 {
        eprintln!("{ONE_USER}");
    }
    Ok(code)
}

/// The view of an isolated command: programs, and the files that the world itself needs.
fn view(job: &Job, command: &[OsString]) -> View {
    let mut view = sandbox::view(std::slice::from_ref(job));
    view.files.extend(command.first().map(PathBuf::from));
    view
}

fn read(file: File) -> Result<Job, Failure> {
    let wrong = |problem: String| Failure::new(Fault::Input, problem);
    let json: Box<RawValue> =
        serde_json::from_reader(BufReader::new(file)).map_err(|error| wrong(error.to_string()))?;
    Job::read(&json).map_err(wrong)
}

/// Writes why there is no world, and returns the exit code.
fn write_failure(failure: Failure, report: &File) -> i32 {
    let Failure { fault, message, remedy } = failure;
    let code = fault.exit_code();
    // The reader may have ended.
    let _ = write_line(report, &Record::Failed { message, remedy, code });
    code
}
