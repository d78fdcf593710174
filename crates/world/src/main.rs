//! `fastopen-world`: reads jobs (JSON) and writes records (JSON Lines). See docs/dev/contract.md.

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
use fastopen_world::virtual_kernel::{self, Kernel, Task};
use fastopen_world::world::{self, Emit};
use serde::Serialize;
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
        _ => run_other_modes(),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(70))
}

/// Runs the program in any mode except `--exec` and `--shell`, and returns the exit code.
fn run_other_modes() -> i32 {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => run_stdin(|text| {
            let jobs = read_jobs(text)?;
            process::raise_priority();
            process::raise_file_limit();
            sandbox::run(&sandbox::view(&jobs), |entered| match entered {
                Ok(()) => run_all(&jobs, Engine::Host, &mut emit),
                Err(failure) => report(failure, &mut emit),
            })
        }),
        ["--kernel", program, ref arguments @ ..] => run_stdin(|text| {
            let jobs = read_jobs(text)?;
            run_in_kernel(program, arguments, text, &Task::jobs(&jobs))
        }),
        ["--conform"] => run_stdin(|text| {
            let plan = Plan::read(text)?;
            sandbox::run(&plan.view(), |entered| {
                let done = entered.and_then(|()| conform::run_all(&plan, emit));
                done.map_or_else(|failure| report(failure, &mut emit), |()| 0)
            })
        }),
        ["--conform", "--kernel", program, ref arguments @ ..] => run_stdin(|text| {
            let plan = Plan::read(text)?;
            run_in_kernel(program, arguments, text, &Task::scripts(&plan))
        }),
        ["--check"] => check::run(),
        // The kernel may append its own arguments after the folder.
        ["--init", folder, ..] => init::run(folder, |text, emit| match read_jobs(text) {
            Ok(mut jobs) => {
                virtual_kernel::use_bodies_copies(&mut jobs, &init::channel());
                run_all(&jobs, Engine::Virtual, emit)
            }
            Err(failure) => report(failure, emit),
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

/// Calls `work` with the text of standard input. Returns the exit code. On failure, writes an error record.
fn run_stdin(work: impl FnOnce(&[u8]) -> Result<i32, Failure>) -> i32 {
    if process::die_with_parent().is_err() {
        return Fault::Internal.exit_code();
    }
    let mut text = Vec::new();
    let read = io::stdin().read_to_end(&mut text).blame(Fault::Input, "standard input");
    read.and_then(|_| work(&text)).unwrap_or_else(|failure| report(failure, &mut emit))
}

fn run_in_kernel(program: &str, arguments: &[&str], text: &[u8], task: &Task) -> Result<i32, Failure> {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let kernel = Kernel { program: program.into(), arguments };
    virtual_kernel::run(&kernel, text, task, &mut io::stdout(), |failure| report(failure, &mut emit))
}

fn read_jobs(text: &[u8]) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    for json in serde_json::Deserializer::from_slice(text).into_iter::<Box<RawValue>>() {
        let job = json.map_err(|error| error.to_string()).and_then(|json| Job::read(&json));
        jobs.push(job.blame(Fault::Input, format!("job {}", jobs.len() + 1))?);
    }
    if jobs.is_empty() {
        return Err(Failure::new(Fault::Input, "standard input holds no job"));
    }
    Ok(jobs)
}

fn run_all(jobs: &[Job], engine: Engine, emit: Emit) -> i32 {
    let mut worst = 0;
    for job in jobs {
        if let Err(failure) = world::run(job, engine, emit) {
            let failure = Failure { job: Some(job.id.clone()), ..failure };
            worst = worst.max(report(failure, emit));
        }
    }
    worst
}

/// Writes an error record. Returns the failure's exit code, or that of an internal error if writing fails.
fn report(failure: Failure, emit: Emit) -> i32 {
    let Failure { job, fault, message, remedy } = failure;
    let record = Record::Error { job, fault, message, remedy };
    emit(&record).map_or(Fault::Internal, |()| fault).exit_code()
}

fn emit(record: &impl Serialize) -> Result<(), Failure> {
    write_line(io::stdout().lock(), record).blame(Fault::Internal, "writing a record")
}
