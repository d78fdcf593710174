//! Runs the origin servers of a page for `fastopen-world`: HTTP on hyper, h2 and h3, with TCP Fast Open, TLS
//! and QUIC. Responses have the page's sizes, times and status codes. The page loader uses the client parts.

pub mod body;
pub mod caching;
pub mod cors;
pub mod counters;
pub mod header;
pub mod http2;
pub mod http3;
pub mod log;
pub mod names;
pub mod origins;
pub mod priority;
pub mod quic;
pub mod recorded_head;
pub mod sockets;
pub mod tls;
mod version;
mod watch_cell;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use version::HttpVersion;

/// Locks a mutex, even if a thread panicked while it held the lock. The value must be consistent at every
/// point where a thread may panic.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
