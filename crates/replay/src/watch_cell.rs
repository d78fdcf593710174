//! Stores a value that one thread updates while another waits for it. An update without a waiting thread
//! makes no system call, unlike `Condvar::notify_all`. System calls are slow in User-Mode Linux.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::lock;

#[derive(Debug, Default)]
pub(crate) struct WatchCell<T> {
    inner: Mutex<Guarded<T>>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Guarded<T> {
    value: T,
    waiters: usize,
}

impl<T> WatchCell<T> {
    /// Calls `look` with the locked value, and returns its result. Does not wake any thread.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut lock(&self.inner).value)
    }

    /// Changes the locked value with `update`, and wakes the waiting threads. Returns the result of `update`.
    pub(crate) fn update<R>(&self, update: impl FnOnce(&mut T) -> R) -> R {
        let mut inner = lock(&self.inner);
        let result = update(&mut inner.value);
        if inner.waiters > 0 {
            self.changed.notify_all();
        }
        result
    }

    /// Waits until `reached` is true for the value, at most for `timeout`. Returns false after the timeout.
    pub(crate) fn wait_until(&self, timeout: Duration, reached: impl Fn(&T) -> bool) -> bool {
        let mut inner = lock(&self.inner);
        inner.waiters += 1;
        let waited = self.changed.wait_timeout_while(inner, timeout, |inner| !reached(&inner.value));
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        inner.waiters -= 1;
        reached(&inner.value)
    }
}

#[cfg(test)]
#[path = "../tests/unit/watch_cell.rs"]
mod tests;
