//! Limits the total memory of the external programs in an emulated network: the client and the server.
//!
//! The kernel could do this with a cgroup. But to create a cgroup with a limit, a user needs an empty
//! delegated cgroup, which users in a session or a container do not have.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use fastopen_netns::actor::Actor;
use fastopen_netns::process::{kill_all_others, memory_of_others};

/// Maximum memory of the external programs together, in bytes.
const MOST_BYTES: u64 = 2 << 30;
/// Interval between checks. A process can allocate about 200 MB in this time.
const INTERVAL: Duration = Duration::from_millis(100);

/// A thread that kills external programs if they exceed `MOST_BYTES`. Dropping the guard ends the thread.
pub struct MemoryGuard {
    exceeded: Arc<AtomicBool>,
    _thread: Actor<Infallible>,
}

impl MemoryGuard {
    /// Starts the guard. It works only in PID 1: above the limit, it kills all other processes of the PID
    /// namespace.
    pub fn start() -> io::Result<Self> {
        let exceeded = Arc::new(AtomicBool::new(false));
        let found = exceeded.clone();
        let thread = Actor::start("memory", move |stopped: Receiver<Infallible>, _| {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if memory_of_others() > MOST_BYTES {
                    found.store(true, Ordering::SeqCst);
                    kill_all_others();
                }
            }
        })?;
        Ok(Self { exceeded, _thread: thread })
    }

    /// Returns an error message if the guard has killed processes since the last call; otherwise None.
    pub fn reason(&self) -> Option<String> {
        let exceeded = self.exceeded.swap(false, Ordering::SeqCst);
        exceeded.then(|| {
            format!("out of memory: client and server programs used more than {} GiB", MOST_BYTES >> 30)
        })
    }
}
