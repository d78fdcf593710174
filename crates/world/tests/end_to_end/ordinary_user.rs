//! Tests of the program when an ordinary user runs it. They need a system that allows user namespaces to
//! ordinary users.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::support::{PROGRAM, image, job, network, page, root, run_command, with_syn_data};
use crate::virtual_time::{exactly, kernel};

/// The user and group ID of `nobody` on most systems. Any ID other than 0 would do.
const USER: &str = "65534";

/// A folder with copies of files that other users may read, since they cannot read the build folder. Removed
/// on drop.
struct Open(PathBuf);

impl Open {
    fn with(files: &[&Path]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("fastopen-ordinary-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir(&folder.0).expect("the temporary folder is writable");
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).expect("it is ours");
        for file in files {
            fs::copy(file, folder.holds(file)).expect("it can be copied");
        }
        folder
    }

    /// Returns the path of the copy of a file.
    fn holds(&self, file: &Path) -> PathBuf {
        self.0.join(file.file_name().expect("it is a file"))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("it is there");
    }
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
    let program = Path::new(PROGRAM);
    let folder = Open::with(&[program]);
    let Some(mut command) = as_user(&folder.holds(program)) else { return };
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
    let program = Path::new(PROGRAM);
    let folder = Open::with(&[program]);
    with_few_processes(&folder.holds(program), &[]);
}

#[test]
fn a_user_of_few_processes_gets_the_loads_or_the_reason_in_virtual_time() {
    let Some((kernel, arguments)) = kernel() else { return };
    let program = Path::new(PROGRAM);
    let folder = Open::with(&[program, &kernel]);
    let path = folder.holds(&kernel).to_string_lossy().into_owned();
    with_few_processes(&folder.holds(program), &[vec!["--kernel".into(), path], arguments].concat());
}

#[test]
fn an_ordinary_user_gets_the_same_loads_in_virtual_time() {
    let Some((kernel, arguments)) = kernel() else { return };
    let program = Path::new(PROGRAM);
    let folder = Open::with(&[program, &kernel]);
    let Some(mut command) = as_user(&folder.holds(program)) else { return };
    command.arg("--kernel").arg(folder.holds(&kernel)).args(arguments);
    let run = run_command(&mut command, loads().to_string().as_bytes());
    assert_eq!(run.code, Some(0), "{run}");
    let of_root = exactly(&loads()).expect("a kernel is installed");
    for id in ["tcp", "cold", "warm"] {
        assert_eq!(run.valid(id), of_root.valid(id));
    }
}
