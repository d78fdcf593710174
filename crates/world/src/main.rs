//! `fastopen-world`: jobs (JSON) on standard input, records (JSON Lines) on standard output. See
//! docs/contract.md.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use fastopen_netns::{namespace, process};
use fastopen_world::contract::{Fault, Job, Record};
use fastopen_world::engine::Engine;
use fastopen_world::failure::Failure;
use fastopen_world::world;
use fastopen_world::{check, init, shell, uml};
use serde_json::value::RawValue;

const USAGE: &str = "usage: fastopen-world [--kernel PROGRAM [ARGUMENT...] | --check | --version] < jobs.json\n\
    \x20      fastopen-world --exec [REPORT] -- COMMAND [ARGUMENT...]\n\
    \x20      fastopen-world --shell JOB REPORT -- COMMAND [ARGUMENT...]\n\
    --kernel does the jobs on that User-Mode Linux kernel, in virtual time; ARGUMENTs go on its command line.\n\
    Reads jobs on standard input and writes records (JSON Lines), as docs/contract.md has them.\n\
    --check builds a small world and says as JSON what this machine can and cannot do.\n\
    --exec runs a command with TCP Fast Open on this machine's network, as docs/exec.md has it.\n\
    --shell runs a command in the world of a job, with its terminal.";

fn main() -> ExitCode {
    let mut given = std::env::args_os().skip(1);
    // The words of a command need not be text.
    let mode = given.next();
    let code = match mode.as_deref().and_then(OsStr::to_str) {
        Some("--exec") => fastopen_intercept::run(given),
        Some("--shell") => shell::run(given),
        _ => run_jobs(),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(70))
}

/// All modes but those that run a command; returns the exit code.
fn run_jobs() -> i32 {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => work(|_, jobs, emit| {
            in_sandbox(|| run_all(jobs, Engine::Host, emit))
                .unwrap_or_else(|failure| report(None, &failure, emit))
        }),
        ["--kernel", program, ref arguments @ ..] => {
            let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
            let kernel = uml::Kernel { program: program.into(), arguments };
            work(|text, jobs, emit| {
                uml::run(&kernel, text, jobs, &mut io::stdout().lock())
                    .unwrap_or_else(|unfinished| report(unfinished.job, &unfinished.failure, emit))
            })
        }
        ["--check"] => check::run(),
        // The kernel adds words of its own.
        ["--init", folder, ..] => init::run(folder, |text, records| {
            do_jobs(text, &mut |record| records.write(record), |_, jobs, emit| {
                run_all(jobs, Engine::Virtual, emit)
            })
        }),
        ["--version"] => {
            println!("fastopen-world {}", env!("CARGO_PKG_VERSION"));
            0
        }
        _ => {
            eprintln!("{USAGE}");
            2
        }
    }
}

/// Has `how` do the jobs on standard input, and returns the exit code.
fn work(how: impl FnOnce(&[u8], &[Job], Emit) -> i32) -> i32 {
    // When whoever started this is killed, so is this, and with it all that it starts.
    if process::die_with_parent().is_err() {
        return Fault::Internal.exit_code();
    }
    let mut text = Vec::new();
    if let Err(error) = io::stdin().read_to_end(&mut text) {
        return report(None, &Failure::new(Fault::Input, format!("standard input: {error}")), &mut emit);
    }
    do_jobs(&text, &mut emit, how)
}

/// Runs `inside` in namespaces of its own, as the first process of them.
fn in_sandbox(inside: impl FnOnce() -> i32) -> Result<i32, Failure> {
    process::raise_priority();
    process::raise_file_limit();
    namespace::enter_sandbox()?;
    namespace::mount_scratch()?;
    Ok(process::run_in_child(inside)?)
}

/// Where records go.
type Emit<'a> = &'a mut dyn FnMut(&Record) -> Result<(), Failure>;

/// Reads the jobs in `text`, has `how` do them, and returns the exit code. All are checked before the first
/// is begun.
fn do_jobs(text: &[u8], emit: Emit, how: impl FnOnce(&[u8], &[Job], Emit) -> i32) -> i32 {
    match read_jobs(text) {
        Ok(jobs) => how(text, &jobs, emit),
        Err(failure) => report(None, &failure, emit),
    }
}

fn read_jobs(text: &[u8]) -> Result<Vec<Job>, Failure> {
    let wrong = |message: String| Failure::new(Fault::Input, message);
    let mut jobs = Vec::new();
    for json in serde_json::Deserializer::from_slice(text).into_iter::<Box<RawValue>>() {
        let number = jobs.len() + 1;
        let job = json.map_err(|error| error.to_string()).and_then(|json| Job::read(&json));
        jobs.push(job.map_err(|problem| wrong(format!("job {number}: {problem}")))?);
    }
    if jobs.is_empty() {
        return Err(wrong("standard input holds no job".into()));
    }
    Ok(jobs)
}

fn run_all(jobs: &[Job], engine: Engine, emit: Emit) -> i32 {
    let mut worst = 0;
    for job in jobs {
        if let Err(failure) = world::run(job, engine, emit) {
            worst = worst.max(report(Some(job.id.clone()), &failure, emit));
        }
    }
    worst
}

/// Writes what failed as a record, and returns the exit code that goes with it.
fn report(job: Option<String>, failure: &Failure, emit: Emit) -> i32 {
    let Failure { fault, message, remedy } = failure;
    let record = Record::Error { job, fault: *fault, message: message.clone(), remedy: remedy.clone() };
    emit(&record).map_or(Fault::Internal, |()| *fault).exit_code()
}

fn emit(record: &Record) -> Result<(), Failure> {
    let line =
        serde_json::to_string(record).map_err(|error| Failure::new(Fault::Internal, error.to_string()))?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(Fault::Internal, format!("writing a record: {error}")))
}
