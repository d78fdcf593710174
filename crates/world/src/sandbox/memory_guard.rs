//! Limits the total memory of the external programs in an emulated network: the client and the server.
//!
//! The kernel could do this with a cgroup. But to create a cgroup with a limit, a user needs an empty
//! delegated cgroup, which users in a session or a container do not have.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use fastopen_netns::actor::Actor;
use fastopen_netns::process::{kill_all_others, memory_of_others};

/// Maximum memory of the external programs together, in bytes.
const MOST_BYTES: u64 = 2 << 30;
/// Interval between checks. A process can allocate about 200 MB in this time.
const INTERVAL: Duration = Duration::from_millis(100);

/// A thread that kills external programs if they exceed `MOST_BYTES`. Dropping the guard ends the thread.
pub struct MemoryGuard(Actor<Sender<bool>>);

impl MemoryGuard {
    /// Starts the guard. It works only in PID 1: above the limit, it kills all other processes of the PID
    /// namespace.
    pub fn start() -> io::Result<Self> {
        let guard = |askers: Receiver<Sender<bool>>, _| {
            let mut exceeded = false;
            loop {
                match askers.recv_timeout(INTERVAL) {
                    Ok(asker) => drop(asker.send(std::mem::take(&mut exceeded))),
                    Err(RecvTimeoutError::Timeout) if memory_of_others() > MOST_BYTES => {
                        exceeded = true;
                        kill_all_others();
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        Ok(Self(Actor::start("memory", guard)?))
    }

    /// Returns an error message if the guard has killed processes since the last call; otherwise None.
    pub fn reason(&self) -> Option<String> {
        self.0.ask(|asker| asker).unwrap_or_default().then(|| {
            format!("out of memory: client and server programs used more than {} GiB", MOST_BYTES >> 30)
        })
    }
}
