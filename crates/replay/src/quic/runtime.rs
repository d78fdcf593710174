//! quinn on a tokio runtime with timers of the kernel's precision: tokio's own round up to a millisecond.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use fastopen_netns::clock::{Alarm, monotonic_ns};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};

tokio::task_local! {
    /// Of the tasks of a client's connection: whether its server has shown a certificate.
    static CERTIFIED: Arc<AtomicBool>;
}

/// Notes that the server of the current task's connection has shown a certificate.
pub(super) fn note_certificate() {
    let _ = CERTIFIED.try_with(|certified| certified.store(true, Ordering::Relaxed));
}

/// The runtime of an endpoint.
#[derive(Debug, Default)]
pub(super) struct ExactRuntime {
    /// Whether the server of an endpoint with one connection has shown a certificate.
    pub(super) certified: Arc<AtomicBool>,
}

impl Runtime for ExactRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(ExactTimer { at_ns: ns_at(at), set_ns: 0, alarm: Alarm::new().ok() })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(CERTIFIED.scope(self.certified.clone(), future));
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }
}

/// The monotonic clock's time at an instant; now for one that is past.
fn ns_at(instant: Instant) -> u64 {
    let left = instant.saturating_duration_since(Instant::now());
    monotonic_ns().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
}

/// A timer that is set anew only when it goes off too early: the deadline of a connection moves with each
/// packet, mostly to later.
struct ExactTimer {
    at_ns: u64,
    /// When the alarm goes off.
    set_ns: u64,
    /// None where there are no descriptors left: then the load fails for other reasons.
    alarm: Option<Alarm>,
}

impl AsyncTimer for ExactTimer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.at_ns = ns_at(at);
    }

    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<()> {
        let this = &mut *self;
        loop {
            let now = monotonic_ns();
            if now >= this.at_ns {
                return Poll::Ready(());
            }
            if this.set_ns <= now || this.set_ns > this.at_ns {
                this.set_ns = this.at_ns;
            }
            let Some(alarm) = &mut this.alarm else { return Poll::Pending };
            if ready!(alarm.poll_until(context, this.set_ns)).is_err() {
                this.alarm = None;
            }
        }
    }
}

impl Debug for ExactTimer {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "ExactTimer({} ns)", self.at_ns)
    }
}
