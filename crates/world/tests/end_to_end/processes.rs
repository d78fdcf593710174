//! Processes as seen from outside: their children, whether they run, and signals to them.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// Shorter than the loads of these tests, whose regular end must not pass for having been ended.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The children of a process, whichever of its threads started them.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_thread = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    };
    threads.flat_map(of_thread).collect()
}

/// A process and all that it started.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    found.extend(children(pid).into_iter().flat_map(family));
    found
}

/// Whether a process runs.
pub(crate) fn is_alive(pid: u32) -> bool {
    // A zombie has ended; it waits for its new parent.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Polls a condition that becomes true at once or never.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < TIMEOUT, "timed out: {what}");
        std::thread::yield_now();
    }
}

/// Sends a process the signal of that name.
pub(crate) fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
}
