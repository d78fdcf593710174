//! Limits the memory of all processes of a client together.
//!
//! cgroups do this in the kernel, but a user without an empty delegated group, as in a session or a
//! container, cannot create one with a limit.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastopen_netns::process::{kill_all_others, memory_of_others};

/// The most memory of a client, in bytes.
const MOST_BYTES: u64 = 2 << 30;
/// Interval of checks. A process touches about 200 MB in it.
const INTERVAL: Duration = Duration::from_millis(100);

/// Kills the processes of a client that use too much memory, until it is dropped.
pub struct MemoryGuard {
    exceeded: Arc<AtomicBool>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryGuard {
    /// Starts the guard of the other processes of this PID namespace.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start() -> io::Result<Self> {
        let exceeded = Arc::new(AtomicBool::new(false));
        let (stop, stopped) = channel();
        let found = exceeded.clone();
        let thread = thread::Builder::new().name("memory".into()).spawn(move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if memory_of_others() > MOST_BYTES {
                    found.store(true, Ordering::SeqCst);
                    kill_all_others();
                }
            }
        })?;
        Ok(Self { exceeded, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the reason if it has killed the client since the last call.
    pub fn reason(&self) -> Option<String> {
        let exceeded = self.exceeded.swap(false, Ordering::SeqCst);
        exceeded
            .then(|| format!("out of memory: the programs of others had more than {} GiB", MOST_BYTES >> 30))
    }
}

impl Drop for MemoryGuard {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
