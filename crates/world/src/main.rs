//! `fastopen-world`: reads jobs (JSON) from standard input and writes records (JSON Lines) to standard
//! output. See docs/dev/contract.md.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::process::ExitCode;

use fastopen_intercept::write_line;
use fastopen_netns::process;
use fastopen_world::commands::conform::{self, Plan};
use fastopen_world::commands::{check, shell};
use fastopen_world::contract::{Engine, Fault, Job, Record};
use fastopen_world::failure::{Blame, Failure};
use fastopen_world::sandbox;
use fastopen_world::virtual_kernel::init;
use fastopen_world::virtual_kernel::{self, Task, Unfinished};
use fastopen_world::world::{self, Emit};
use serde_json::value::RawValue;

const USAGE: &str = "\
usage: fastopen-world [--kernel PROGRAM [ARGUMENT...] | --check | --version] < jobs.json
       fastopen-world --conform [--kernel PROGRAM [ARGUMENT...]] < plan.json
       fastopen-world --exec [REPORT] -- COMMAND [ARGUMENT...]
       fastopen-world --shell PLAN REPORT [--kernel PROGRAM [ARGUMENT...]] -- COMMAND [ARGUMENT...]
Reads jobs from standard input and writes records (JSON Lines), see docs/dev/contract.md.
--kernel runs the jobs on that User-Mode Linux kernel, in virtual time; ARGUMENTs are kernel arguments.
--check builds a small world and writes as JSON what this machine can and cannot do.
--conform runs packetdrill's scripts, see docs/kernel-patches.md.
--exec runs a command with TCP Fast Open on this machine's network, see docs/real-network.md.
--shell runs a command in the world of a job, on this kernel with its terminal.";

fn main() -> ExitCode {
    // The arguments of COMMAND need not be UTF-8.
    let mut arguments = std::env::args_os().skip(1);
    let mode = arguments.next();
    let code = match mode.as_deref().and_then(OsStr::to_str) {
        Some("--exec") => fastopen_intercept::run(arguments),
        Some("--shell") => shell::run(arguments),
        _ => run_jobs(),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(70))
}

/// Runs the program in any mode except `--exec` and `--shell`, and returns the exit code.
fn run_jobs() -> i32 {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => run_stdin(|_, jobs, emit| {
            process::raise_priority();
            process::raise_file_limit();
            sandbox::run(&sandbox::view(jobs), |entered| match entered {
                Ok(()) => run_all(jobs, Engine::Host, emit),
                Err(failure) => report(None, &failure, emit),
            })
            .unwrap_or_else(|failure| report(None, &failure, emit))
        }),
        ["--kernel", program, ref arguments @ ..] => {
            let kernel = kernel(program, arguments);
            run_stdin(|text, jobs, emit| {
                let report = |unfinished: Unfinished| report(unfinished.job, &unfinished.failure, emit);
                virtual_kernel::run(&kernel, text, &Task::jobs(jobs), &mut io::stdout(), report)
            })
        }
        ["--conform"] => run_plan(|_, plan| conform::run_on_host(plan)),
        ["--conform", "--kernel", program, ref arguments @ ..] => {
            let kernel = kernel(program, arguments);
            run_plan(|text, plan| {
                let report = |unfinished: Unfinished| report(unfinished.job, &unfinished.failure, &mut emit);
                virtual_kernel::run(&kernel, text, &Task::scripts(plan), &mut io::stdout(), report)
            })
        }
        ["--check"] => check::run(),
        // The kernel may append its own arguments after the folder.
        ["--init", folder, ..] => init::run(folder, |text, emit| {
            run_text(text, emit, |_, jobs, emit| run_all(jobs, Engine::Virtual, emit))
        }),
        ["--init-conform", folder, ..] => init::run_scripts(folder),
        ["--init-shell", folder, ..] => shell::in_kernel::run(folder),
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

fn kernel(program: &str, arguments: &[&str]) -> virtual_kernel::Kernel {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    virtual_kernel::Kernel { program: program.into(), arguments }
}

fn run_stdin(run: impl FnOnce(&[u8], &[Job], Emit) -> i32) -> i32 {
    read_stdin().map_or_else(|code| code, |text| run_text(&text, &mut emit, run))
}

fn run_plan(run: impl FnOnce(&[u8], &Plan) -> i32) -> i32 {
    let text = match read_stdin() {
        Ok(text) => text,
        Err(code) => return code,
    };
    match Plan::read(&text) {
        Ok(plan) => run(&text, &plan),
        Err(failure) => report(None, &failure, &mut emit),
    }
}

/// Returns the program's exit code as the error.
fn read_stdin() -> Result<Vec<u8>, i32> {
    process::die_with_parent().map_err(|_| Fault::Internal.exit_code())?;
    let mut text = Vec::new();
    let read = io::stdin().read_to_end(&mut text).blame(Fault::Input, "standard input");
    read.map_err(|failure| report(None, &failure, &mut emit))?;
    Ok(text)
}

fn run_text(text: &[u8], emit: Emit, run: impl FnOnce(&[u8], &[Job], Emit) -> i32) -> i32 {
    match read_jobs(text) {
        Ok(jobs) => run(text, &jobs, emit),
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

/// Writes the failure's record. Returns the failure's exit code, or an internal error's if writing fails.
fn report(job: Option<String>, failure: &Failure, emit: Emit) -> i32 {
    let record = failure.record(job);
    emit(&record).map_or(Fault::Internal, |()| failure.fault).exit_code()
}

fn emit(record: &Record) -> Result<(), Failure> {
    write_line(io::stdout().lock(), record).blame(Fault::Internal, "writing a record")
}
