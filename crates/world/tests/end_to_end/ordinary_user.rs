//! Tests of the program when an ordinary user runs it. They need a system that lets ordinary users create
//! user namespaces.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{PROGRAM, Temporary, image, job, network, page, root, run_command, with_syn_data};
use crate::virtual_time::{exactly, kernel};

/// The user and group ID of `nobody` on most systems. Any ID other than 0 would do.
const USER: &str = "65534";

/// Copies a file to the folder, because other users cannot read the build folder. Returns the copy's path.
fn copied(file: &Path, folder: &Temporary) -> PathBuf {
    let copy = folder.0.join(file.file_name().expect("it is a file"));
    fs::copy(file, &copy).expect("it can be copied");
    copy
}

/// Returns a command that runs a program as an ordinary user. Prints why and returns `None` if this process
/// already belongs to an ordinary user, or if `setpriv` is not installed.
fn as_user(program: &Path) -> Option<Command> {
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        eprintln!("skipped: this is an ordinary user already, so every other test has shown it");
        return None;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: setpriv (util-linux) is not installed");
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(program);
    Some(command)
}

fn loads() -> Value {
    let page = page(&[root(3000), image("http://b.test/", 500)]);
    job(&page, &network(10_000), &["tcp", "cold", "warm"])
}

#[test]
fn an_ordinary_user_gets_the_same_world() {
    let folder = Temporary::folder();
    let Some(mut command) = as_user(&copied(Path::new(PROGRAM), &folder)) else { return };
    let run = run_command(&mut command, loads().to_string().as_bytes());
    assert_eq!(run.code, Some(0), "{run}");
    for id in ["tcp", "cold"] {
        run.valid(id);
    }
    assert_eq!(with_syn_data(run.valid("warm"), "origin"), 2);
    assert_eq!(run.only("world")["routes"]["client"]["congestion_control"], "cubic");
}

/// Runs the program under each limit from one to eight processes. Each run must give valid loads, or an error
/// whose remedy names `ulimit -u`.
fn with_few_processes(program: &Path, arguments: &[String]) {
    for limit in 1..=8 {
        let Some(mut command) = as_user(Path::new("bash")) else { return };
        command.args(["-c", r#"ulimit -u "$0"; exec "$@""#, &limit.to_string()]).arg(program).args(arguments);
        let run = run_command(&mut command, loads().to_string().as_bytes());
        if run.code == Some(0) {
            run.valid("tcp");
            continue;
        }
        let error = run.only("error");
        assert_eq!((run.code, &error["fault"]), (Some(3), &json!("machine")), "{limit}: {run}");
        let remedy = error["remedy"].as_str().unwrap_or_default();
        assert!(remedy.contains("ulimit -u"), "{limit}: {run}");
    }
}

#[test]
fn a_user_of_few_processes_gets_the_loads_or_the_reason() {
    let folder = Temporary::folder();
    with_few_processes(&copied(Path::new(PROGRAM), &folder), &[]);
}

#[test]
fn a_user_of_few_processes_gets_the_loads_or_the_reason_in_virtual_time() {
    let Some((kernel, arguments)) = kernel() else { return };
    let folder = Temporary::folder();
    let path = copied(&kernel, &folder).to_string_lossy().into_owned();
    let arguments = [vec!["--kernel".into(), path], arguments].concat();
    with_few_processes(&copied(Path::new(PROGRAM), &folder), &arguments);
}

#[test]
fn an_ordinary_user_gets_the_same_loads_in_virtual_time() {
    let Some((kernel, arguments)) = kernel() else { return };
    let folder = Temporary::folder();
    let Some(mut command) = as_user(&copied(Path::new(PROGRAM), &folder)) else { return };
    command.arg("--kernel").arg(copied(&kernel, &folder)).args(arguments);
    let run = run_command(&mut command, loads().to_string().as_bytes());
    assert_eq!(run.code, Some(0), "{run}");
    let of_root = exactly(&loads()).expect("a kernel is installed");
    for id in ["tcp", "cold", "warm"] {
        assert_eq!(run.valid(id), of_root.valid(id));
    }
}
