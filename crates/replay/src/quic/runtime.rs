//! Runs quinn on tokio with timers as precise as the kernel's. tokio's own timers round up to a millisecond.

use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Instant;

use fastopen_netns::clock::monotonic_ns;
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};

use super::reactor::Timer;
use super::verifier::CERTIFIED;

/// The runtime of one QUIC endpoint, with exact timers.
#[derive(Debug, Default)]
pub(super) struct ExactRuntime {
    /// True once the server has sent a certificate. Valid only for an endpoint with one connection.
    pub(super) certified: Arc<AtomicBool>,
}

impl Runtime for ExactRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer::new(ns_at(at)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(CERTIFIED.scope(self.certified.clone(), future));
    }

    /// Always fails, because this crate gives each endpoint a socket of its own type.
    fn wrap_udp_socket(&self, _: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Converts an instant to the monotonic clock; a past instant becomes the current time.
fn ns_at(instant: Instant) -> u64 {
    let left = instant.saturating_duration_since(Instant::now());
    monotonic_ns().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.at_ns = ns_at(at);
    }

    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<()> {
        if monotonic_ns() >= self.at_ns {
            self.clear();
            return Poll::Ready(());
        }
        self.arm(context.waker());
        Poll::Pending
    }
}
