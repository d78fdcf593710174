//! A client's clock, by which it judges the age of session tickets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// The system's clock, which can be set ahead.
#[derive(Debug, Default)]
pub struct Clock {
    ahead_s: AtomicU64,
}

impl Clock {
    /// Sets the clock ahead by `by`, in whole seconds. Calls add up.
    pub fn advance(&self, by: Duration) {
        self.ahead_s.fetch_add(by.as_secs(), Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let s = UnixTime::now().as_secs() + self.ahead_s.load(Ordering::Relaxed);
        Some(UnixTime::since_unix_epoch(Duration::from_secs(s)))
    }
}
