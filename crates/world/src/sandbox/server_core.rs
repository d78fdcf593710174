//! A separate core for the server of a benchmark. Its threads run there, and the kernel receives its packets
//! there, so that the time of the core that is not idle is the server's.

use std::io;

use fastopen_netns::cores::{self, CoreTime};
use fastopen_netns::namespace::NetNs;
use fastopen_netns::sysctl;

use crate::contract::{CoreRecord, Engine};

/// The cores that receive packets of later interfaces in a namespace (Linux 6.3).
const RECEIVING: &str = "net.core.rps_default_mask";
/// The thread of the built-in origins.
const ORIGINS: &str = "origins";

/// The core of the server, and the others. Dropping it restores the cores of the calling thread.
pub struct ServerCore {
    core: usize,
    others: Vec<usize>,
}

impl ServerCore {
    /// Excludes the calling thread from the last of its cores; None if it has only one, or time is virtual.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn reserve(engine: Engine) -> io::Result<Option<Self>> {
        let mut others = cores::allowed()?;
        let core = others.pop().filter(|_| engine == Engine::Host && !others.is_empty());
        let Some(core) = core else { return Ok(None) };
        cores::stay_on(&others)?;
        Ok(Some(Self { core, others }))
    }

    /// Runs `work` on the server's core. Threads that it starts stay there.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        cores::stay_on(&[self.core])?;
        let done = work();
        cores::stay_on(&self.others)?;
        Ok(done)
    }

    /// Makes the kernel receive the packets of later interfaces of the `origins` on the server's core, and
    /// those of other namespaces elsewhere. Older kernels cannot do this.
    pub fn steer(&self, origins: &NetNs, others: &[&NetNs]) {
        let set = |namespace: &NetNs, core| {
            let _ = namespace.run(|| sysctl::set(RECEIVING, &cores::mask(core)));
        };
        set(origins, self.core);
        for namespace in others {
            set(namespace, self.others[0]);
        }
    }

    /// Returns the use of its time so far. `foreign` is set for an external server.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn used(&self, foreign: bool) -> io::Result<(CoreTime, u64)> {
        let own = std::process::id();
        let of_server = |pid, name: &str| if foreign { pid != own } else { pid == own && name == ORIGINS };
        Ok((CoreTime::of(self.core)?, cores::run_time_ns(of_server)))
    }

    /// Returns the use between two readings.
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
