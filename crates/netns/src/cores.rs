//! Chooses the processor cores on which threads run, and reads the CPU times of cores and threads.

use std::fs;
use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

use crate::process::numbered;

/// Time unit of `/proc/stat` and `/proc/PID/stat` in ns. `USER_HZ` is 100 on every supported architecture.
pub(crate) const TICK_NS: u64 = 10_000_000;
const THIS_THREAD: Pid = Pid::from_raw(0);

/// Returns the cores that the calling thread may use.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(THIS_THREAD)?;
    Ok((0..CpuSet::count()).filter(|core| set.is_set(*core) == Ok(true)).collect())
}

/// Keeps the calling thread, and the threads and processes that it starts later, on these cores.
pub fn stay_on(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().try_for_each(|core| set.set(*core))?;
    Ok(sched_setaffinity(THIS_THREAD, &set)?)
}

/// Keeps the calling thread, and threads and processes that it starts later, on the core where it runs now.
pub fn stay() -> io::Result<()> {
    stay_on(&[sched_getcpu()?])
}

/// Returns the CPU mask of one core in the kernel's notation: hexadecimal groups of 32 bits, highest first.
pub fn mask(core: usize) -> String {
    let zeros = ",00000000".repeat(core / 32);
    format!("{:x}{zeros}", 1_u32 << (core % 32))
}

/// Time that a core spent in each state since the system's start (`/proc/stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreTime {
    /// Idle time, including waits for a disk.
    pub idle_ns: u64,
    /// Time in user mode, in processes with normal or higher priority.
    pub user_ns: u64,
    /// Time in user mode, in processes with lower priority.
    pub nice_ns: u64,
    /// Time in the kernel on behalf of processes.
    pub system_ns: u64,
    /// Time in interrupts, including deferred ones (softirq).
    pub interrupts_ns: u64,
    /// Time that this virtual machine's host spent on other work (steal time).
    pub stolen_ns: u64,
}

impl CoreTime {
    /// Reads the CPU time counters of a core from `/proc/stat`. Fails if the core is not online.
    pub fn of(core: usize) -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/stat")?, core).ok_or(io::ErrorKind::InvalidData.into())
    }

    fn parse(text: &str, core: usize) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{core} ")))?;
        let ns: Vec<u64> =
            line.split_whitespace().map_while(|one| Some(one.parse::<u64>().ok()? * TICK_NS)).collect();
        let [user_ns, nice_ns, system_ns, idle, waiting, hard, soft, stolen_ns, ..] = ns[..] else {
            return None;
        };
        Some(Self {
            idle_ns: idle + waiting,
            user_ns,
            nice_ns,
            system_ns,
            interrupts_ns: hard + soft,
            stolen_ns,
        })
    }
}

/// Adds up the CPU times of all threads for which `wanted` returns true, in nanoseconds (`schedstat`).
/// `wanted` gets a process ID and a thread's name. Excludes threads that have ended.
pub fn run_time_ns(wanted: impl Fn(u32, &str) -> bool) -> u64 {
    let mut sum = 0;
    for (pid, process) in numbered("/proc") {
        for (_, task) in numbered(process.join("task")) {
            let read = |file| fs::read_to_string(task.join(file)).unwrap_or_default();
            if wanted(pid as u32, read("comm").trim_end()) {
                sum += read("schedstat").split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
            }
        }
    }
    sum
}

#[cfg(test)]
#[path = "../tests/unit/cores.rs"]
mod tests;
