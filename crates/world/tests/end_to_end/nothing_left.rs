//! Tests that no process, namespace, mount or file of a world is left, however the program ends.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::processes::{all_processes, children, family, is_alive, signal, wait_until};
use crate::support::{PROGRAM, job, network, page, root, start, with};

/// Returns a job whose load takes at least a minute.
fn endless() -> Value {
    let root = with(root(10), json!({"server_think_us": 60_000_000}));
    job(&page(&[root]), &network(1000), &["tcp"])
}

/// Returns the network namespaces of all threads of these processes.
fn namespaces(pids: impl IntoIterator<Item = u32>) -> BTreeSet<PathBuf> {
    let threads = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    pids.into_iter()
        .flat_map(threads)
        .filter_map(|thread| fs::read_link(thread.path().join("ns/net")).ok())
        .collect()
}

/// Returns the mount points and files of worlds in this process's mount namespace. A world may create these
/// only in its own mount namespace.
fn traces_in_files() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc is mounted");
    let ours = ["/etc/hosts", "/etc/nsswitch.conf"];
    let mounted = mounts.lines().filter(|line| line.split(' ').nth(1).is_some_and(|at| ours.contains(&at)));
    let staged = ["/tmp/0", "/tmp/1"].into_iter().filter(|path| fs::exists(path).unwrap_or(true));
    mounted.chain(staged).map(str::to_owned).collect()
}

/// A running program with its processes and namespaces, and the result of [`traces_in_files`] before its
/// start.
struct Working {
    child: Child,
    family: Vec<u32>,
    namespaces: BTreeSet<PathBuf>,
    files: Vec<String>,
}

impl Working {
    /// Starts the command with a long job and waits for the record of its world.
    fn begin(command: &mut Command) -> Self {
        let files = traces_in_files();
        let mut child = start(command, endless().to_string().as_bytes());
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        output.read_line(&mut line).expect("it writes");
        assert!(line.contains(r#""type":"world""#), "{line}");
        let family = family(child.id());
        let own = namespaces([std::process::id()]);
        let namespaces: BTreeSet<_> = namespaces(family.clone()).difference(&own).cloned().collect();
        assert!(
            namespaces.len() >= 2,
            "the sandbox and the origins are in namespaces of their own: {namespaces:?}"
        );
        Self { child, family, namespaces, files }
    }

    /// Waits until no process, namespace or file of the program is left.
    fn expect_nothing_left(mut self) {
        wait_until("the process itself ends", || !is_alive(self.child.id()));
        self.child.wait().expect("it can be waited for");
        wait_until("every process ends", || !self.family.iter().any(|pid| is_alive(*pid)));
        wait_until("every namespace ends", || namespaces(all_processes()).is_disjoint(&self.namespaces));
        assert_eq!(traces_in_files(), self.files);
    }
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    let working = Working::begin(&mut Command::new(PROGRAM));
    signal("KILL", working.child.id());
    working.expect_nothing_left();
}

#[test]
fn nothing_is_left_when_the_first_process_of_its_namespaces_is_killed() {
    let working = Working::begin(&mut Command::new(PROGRAM));
    let [_, first] = working.family[..] else { panic!("two processes: {:?}", working.family) };
    signal("KILL", first);
    working.expect_nothing_left();
}

#[test]
fn nothing_is_left_when_its_parent_is_killed() {
    let script = format!("'{PROGRAM}'; true");
    let working = Working::begin(Command::new("sh").args(["-c", &script]));
    assert_eq!(working.family.len(), 3, "a shell, and the program's two processes");
    signal("KILL", working.child.id());
    working.expect_nothing_left();
}

#[test]
fn nothing_is_left_when_it_is_asked_to_end() {
    for name in ["TERM", "INT", "HUP"] {
        // `env` restores the signal's default action, in case the tests run with the signal ignored (as under
        // `nohup`).
        let working =
            Working::begin(Command::new("env").args([&format!("--default-signal={name}"), PROGRAM]));
        signal(name, working.child.id());
        working.expect_nothing_left();
    }
}

#[test]
fn nothing_is_left_when_it_is_killed_while_it_builds() {
    // Kill the program at three stages: after its start, when the second process exists, and when that
    // process has threads. Each stage is repeated, so that the kills hit different system calls.
    for stage in (0..60).map(|round| round % 3) {
        let mut child = start(&mut Command::new(PROGRAM), endless().to_string().as_bytes());
        let pid = child.id();
        if stage > 0 {
            wait_until("its second process starts", || !children(pid).is_empty());
        }
        if stage > 1 {
            let threads = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
            wait_until("its link starts", || children(pid).iter().any(|first| threads(*first) > 1));
        }
        let family = family(pid);
        child.kill().expect("it runs");
        child.wait().expect("it can be waited for");
        wait_until("every process ends", || !family.iter().any(|pid| is_alive(*pid)));
    }
}

#[test]
fn it_ends_when_nobody_reads_what_it_writes() {
    let mut command = Command::new(PROGRAM);
    let mut child = start(command.stderr(Stdio::null()), endless().to_string().as_bytes());
    drop(child.stdout.take());
    let family = family(child.id());
    let status = child.wait().expect("it can be waited for");
    assert_eq!(status.code(), Some(70));
    wait_until("every process ends", || !family.iter().any(|pid| is_alive(*pid)));
}
