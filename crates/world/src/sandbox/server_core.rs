//! Reserves a core for the server in jobs that load the server with transactions. The server's threads run on
//! this core, and the kernel processes received packets there, so the core's busy time is due to the server.

use std::io;

use fastopen_netns::cores::{self, CoreTime};
use fastopen_netns::namespace::NetNs;
use fastopen_netns::sysctl;

use crate::contract::{CoreRecord, Engine};

/// Sysctl that selects the cores on which new interfaces process received packets (since Linux 6.3).
const RECEIVING: &str = "net.core.rps_default_mask";
/// Name of the thread that runs the built-in origins.
const ORIGINS: &str = "origins";

/// The server's reserved core, and the other cores. A thread that drops this value may use all cores again.
pub struct ServerCore {
    core: usize,
    others: Vec<usize>,
}

impl ServerCore {
    /// Reserves the last core on which the calling thread may run, and excludes the thread from this core.
    /// Returns None in virtual time, or if the thread may run on only one core.
    pub fn reserve(engine: Engine) -> io::Result<Option<Self>> {
        let mut others = cores::allowed()?;
        let core = others.pop().filter(|_| engine == Engine::Host && !others.is_empty());
        let Some(core) = core else { return Ok(None) };
        cores::stay_on(&others)?;
        Ok(Some(Self { core, others }))
    }

    /// Calls `work` on the server's core, and returns its result. Threads that it starts stay on this core.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        cores::stay_on(&[self.core])?;
        let done = work();
        cores::stay_on(&self.others)?;
        Ok(done)
    }

    /// Makes the kernel process packets received in the namespace `origins` on the server's core, and packets
    /// received in `others` on another core. Applies to interfaces created later, from Linux 6.3 on.
    pub fn steer<'a>(&self, origins: &NetNs, others: impl Iterator<Item = &'a NetNs>) {
        let set = |namespace: &NetNs, core| {
            let _ = namespace.run(|| sysctl::set(RECEIVING, &cores::mask(core)));
        };
        set(origins, self.core);
        for namespace in others {
            set(namespace, self.others[0]);
        }
    }

    /// Returns the time that the core has spent in each state so far, and the CPU time in nanoseconds of the
    /// server's threads: those of an external server if `foreign` is true, else of the built-in origins.
    pub fn used(&self, foreign: bool) -> io::Result<(CoreTime, u64)> {
        let own = std::process::id();
        let of_server = |pid, name: &str| if foreign { pid != own } else { pid == own && name == ORIGINS };
        Ok((CoreTime::of(self.core)?, cores::run_time_ns(of_server)))
    }

    /// Returns the record of the core's use during `elapsed_ns`, from the results of [`Self::used`] `before`
    /// and `after`. Also records whether the kernel processes packets received in `origins` on this core.
    pub fn record(
        &self,
        origins: &NetNs,
        elapsed_ns: u64,
        before: (CoreTime, u64),
        after: (CoreTime, u64),
    ) -> CoreRecord {
        let us = |of: fn(&CoreTime) -> u64| of(&after.0).saturating_sub(of(&before.0)) / 1000;
        let steered = origins.run(|| sysctl::get(RECEIVING)).is_ok_and(|mask| {
            u128::from_str_radix(&mask.replace(',', ""), 16).is_ok_and(|bits| bits == 1 << self.core)
        });
        CoreRecord {
            number: self.core,
            steered,
            elapsed_us: elapsed_ns / 1000,
            idle_us: us(|time| time.idle_ns),
            user_us: us(|time| time.user_ns),
            nice_us: us(|time| time.nice_ns),
            system_us: us(|time| time.system_ns),
            interrupts_us: us(|time| time.interrupts_ns),
            stolen_us: us(|time| time.stolen_ns),
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
