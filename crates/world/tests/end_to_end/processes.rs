//! Functions that find a process's children, check whether it runs, and send it signals.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// The time limit of [`wait_until`]. It is shorter than the loads of these tests, so that the regular end of
/// a load is not mistaken for the effect of a signal.
const TIMEOUT: Duration = Duration::from_secs(50);

/// Returns the IDs of all processes in this PID namespace.
pub(crate) fn all_processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the IDs of the children of all threads of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_thread = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    };
    threads.flat_map(of_thread).collect()
}

/// Returns the IDs of a process and of all its descendants.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    found.extend(children(pid).into_iter().flat_map(family));
    found
}

/// Returns true if a process runs; false if there is no such process or it is a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Polls a condition until it is true. Panics after [`TIMEOUT`].
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < TIMEOUT, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(2)); // leaves the processor to the program under test
    }
}

/// Sends the signal called `name` to a process.
pub(crate) fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
}
