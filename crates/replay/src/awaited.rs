//! What one thread changes and another waits for. Waking nobody costs nothing, where a bare condition variable makes a system call
//! of every change: in virtual time those are what a load costs.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A value behind a lock, and those who wait for it to change.
#[derive(Debug, Default)]
pub(crate) struct Awaited<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner<T> {
    value: T,
    waiting: usize,
}

impl<T> Awaited<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the value, or changes what nobody waits for.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.lock().value)
    }

    /// Changes the value, and has those who wait look again.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut inner = self.lock();
        let result = change(&mut inner.value);
        if inner.waiting > 0 {
            self.changed.notify_all();
        }
        result
    }

    /// Waits until `reached` says so, or `patience` is over. Says whether it was reached.
    pub(crate) fn wait_until(&self, patience: Duration, reached: impl Fn(&T) -> bool) -> bool {
        let mut inner = self.lock();
        inner.waiting += 1;
        let waited = self.changed.wait_timeout_while(inner, patience, |inner| !reached(&inner.value));
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        inner.waiting -= 1;
        reached(&inner.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn who_waits_sees_a_change_that_comes_later() {
        let number = Arc::new(Awaited::<u32>::default());
        let waiter = {
            let number = number.clone();
            thread::spawn(move || number.wait_until(Duration::from_secs(600), |&number| number == 2))
        };
        for _ in 0..2 {
            number.change(|number| *number += 1);
        }
        assert!(waiter.join().expect("it does not panic"));
    }

    #[test]
    fn what_does_not_come_is_not_waited_for_longer_than_patience() {
        let number = Awaited::<u32>::default();
        assert!(!number.wait_until(Duration::from_millis(1), |&number| number == 2));
        assert!(number.wait_until(Duration::ZERO, |&number| number == 0));
    }
}
