//! A core of the machine's own for the server of a benchmark: its threads run there, and the kernel receives
//! its packets there, so that what the core is not idle is what the server costs.

use std::io;

use fastopen_netns::cores::{self, CoreTime};
use fastopen_netns::namespace::NetNs;
use fastopen_netns::sysctl;

use crate::contract::{CoreRecord, Engine};

/// The cores that receive the packets of interfaces which are made later in a namespace (Linux 6.3).
const RECEIVING: &str = "net.core.rps_default_mask";
/// The thread of the built-in origins.
const ORIGINS: &str = "origins";

/// The core, and those of everything else. The calling thread has its own back when this is dropped.
pub struct ServerCore {
    core: usize,
    others: Vec<usize>,
}

impl ServerCore {
    /// Keeps the calling thread from the last of its cores; none: it has one alone, or time is virtual.
    ///
    /// # Errors
    /// Where the kernel does not let it choose.
    pub fn reserve(engine: Engine) -> io::Result<Option<Self>> {
        let mut others = cores::allowed()?;
        let core = others.pop().filter(|_| engine == Engine::Host && !others.is_empty());
        let Some(core) = core else { return Ok(None) };
        cores::stay_on(&others)?;
        Ok(Some(Self { core, others }))
    }

    /// Runs `work` on the server's core; what it starts stays there.
    ///
    /// # Errors
    /// Where the kernel does not let the thread choose.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        cores::stay_on(&[self.core])?;
        let done = work();
        cores::stay_on(&self.others)?;
        Ok(done)
    }

    /// Has the kernel receive packets for the `origins`, whose interfaces are yet to be made, on the server's
    /// core, and those of the other namespaces elsewhere. A kernel may not know how.
    pub fn steer(&self, origins: &NetNs, others: &[&NetNs]) {
        let set = |namespace: &NetNs, core| {
            let _ = namespace.run(|| sysctl::set(RECEIVING, &cores::mask(core)));
        };
        set(origins, self.core);
        for namespace in others {
            set(namespace, self.others[0]);
        }
    }

    /// How much of its time was used so far; `foreign` is whether the server is a program of others.
    ///
    /// # Errors
    /// Where the kernel does not say it.
    pub fn used(&self, foreign: bool) -> io::Result<(CoreTime, u64)> {
        let own = std::process::id();
        let of_server = |pid, name: &str| if foreign { pid != own } else { pid == own && name == ORIGINS };
        Ok((CoreTime::of(self.core)?, cores::run_time_ns(of_server)))
    }

    /// What was used between two moments.
    pub fn record(
        &self,
        origins: &NetNs,
        elapsed_ns: u64,
        before: (CoreTime, u64),
        after: (CoreTime, u64),
    ) -> CoreRecord {
        let time = after.0.since(&before.0);
        let steered = origins.run(|| sysctl::get(RECEIVING)).is_ok_and(|mask| {
            u128::from_str_radix(&mask.replace(',', ""), 16).is_ok_and(|bits| bits == 1 << self.core)
        });
        CoreRecord {
            number: self.core,
            steered,
            elapsed_us: elapsed_ns / 1000,
            idle_us: time.idle_ns / 1000,
            user_us: time.user_ns / 1000,
            nice_us: time.nice_ns / 1000,
            system_us: time.system_ns / 1000,
            interrupts_us: time.interrupts_ns / 1000,
            stolen_us: time.stolen_ns / 1000,
            server_threads_us: after.1.saturating_sub(before.1) / 1000,
        }
    }
}

impl Drop for ServerCore {
    fn drop(&mut self) {
        let mut all = self.others.clone();
        all.push(self.core);
        let _ = cores::stay_on(&all);
    }
}
