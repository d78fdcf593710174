//! `fastopen-world`: jobs (JSON) on standard input, records (JSON Lines) on standard output. See docs/contract.md.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use fastopen_netns::{namespace, process};
use fastopen_world::check;
use fastopen_world::contract::{Fault, Job, Record};
use fastopen_world::world::{self, Failure};
use serde_json::value::RawValue;

const USAGE: &str = "usage: fastopen-world [--check | --version] < jobs.json\n\
    Reads jobs on standard input and writes records (JSON Lines), as docs/contract.md has them.\n\
    --check builds a small world and says as JSON what this machine can and cannot do.";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let code = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => work(),
        ["--check"] => check::run(),
        ["--version"] => {
            println!("fastopen-world {}", env!("CARGO_PKG_VERSION"));
            0
        }
        _ => {
            eprintln!("{USAGE}");
            2
        }
    };
    ExitCode::from(u8::try_from(code).unwrap_or(70))
}

fn work() -> i32 {
    // When whoever started this is killed, so is this, and with it the first process of the namespaces and all in them.
    if process::die_with_parent().is_err() {
        return Fault::Internal.exit_code();
    }
    let (job, failure) = match read_jobs() {
        Ok(jobs) => match in_sandbox(|| run_all(&jobs)) {
            Ok(code) => return code,
            Err(failure) => (None, failure),
        },
        Err(failure) => (None, failure),
    };
    let _ = report(job, failure.fault, &failure);
    failure.fault.exit_code()
}

/// Runs `inside` in namespaces of its own, as the first process of them.
fn in_sandbox(inside: impl FnOnce() -> i32) -> Result<i32, Failure> {
    process::prefer_to_others();
    process::allow_many_files();
    namespace::enter_sandbox().map_err(|error| Failure {
        fault: Fault::Machine,
        remedy: if namespace::is_forbidden(&error) { check::ALLOW_NAMESPACES.into() } else { String::new() },
        message: error.to_string(),
    })?;
    Ok(process::run_in_child(inside)?)
}

/// Every job on standard input. All are checked before the first is begun.
fn read_jobs() -> Result<Vec<Job>, Failure> {
    let wrong = |message: String| Failure::new(Fault::Input, message);
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).map_err(|error| wrong(format!("standard input: {error}")))?;
    let mut jobs = Vec::new();
    for json in serde_json::Deserializer::from_slice(&text).into_iter::<Box<RawValue>>() {
        let number = jobs.len() + 1;
        let job = json.map_err(|error| error.to_string()).and_then(|json| Job::read(&json));
        jobs.push(job.map_err(|problem| wrong(format!("job {number}: {problem}")))?);
    }
    if jobs.is_empty() {
        return Err(wrong("standard input holds no job".into()));
    }
    Ok(jobs)
}

fn run_all(jobs: &[Job]) -> i32 {
    let mut worst = 0;
    for job in jobs {
        if let Err(failure) = world::run(job, &mut |record| emit(&record)) {
            if report(Some(job.id.clone()), failure.fault, &failure).is_err() {
                return Fault::Internal.exit_code();
            }
            worst = worst.max(failure.fault.exit_code());
        }
    }
    worst
}

fn report(job: Option<String>, fault: Fault, failure: &Failure) -> Result<(), Failure> {
    emit(&Record::Error { job, fault, message: failure.message.clone(), remedy: failure.remedy.clone() })
}

fn emit(record: &Record) -> Result<(), Failure> {
    let line =
        serde_json::to_string(record).map_err(|error| Failure::new(Fault::Internal, error.to_string()))?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(Fault::Internal, format!("writing a record: {error}")))
}
