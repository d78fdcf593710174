//! The memory of a client, all its processes together: a limit of each process alone is none.
//!
//! cgroups would do it in the kernel, but whoever has no group delegated to him that is empty, as in a
//! session or a container, can make none with a limit.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastopen_netns::process::{kill_all_others, memory_of_others};

/// The most memory of a client, in bytes.
const MOST_BYTES: u64 = 2 << 30;
/// Time between two looks: some 200 MB are touched within it.
const INTERVAL: Duration = Duration::from_millis(100);

/// Ends the processes of a client that have too much memory. Ends with its drop.
pub struct MemoryGuard {
    exceeded: Arc<AtomicBool>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryGuard {
    /// Starts the guard of the other processes of this PID namespace.
    ///
    /// # Errors
    /// Where there can be no more threads.
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

    /// Why the client was ended since the last call, if it was.
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
