//! Schedules a page load: decides from events and times which connections to open and which requests to send.

mod discovery;
mod event;
mod partition;
mod plan;
mod policy;
mod pool;
mod throttle;

pub use discovery::ResourceState;
pub use event::{Action, ConnectionId, Event, OriginId};
pub use partition::site;
pub use policy::{Limits, Policy, Profile};

pub(crate) use plan::selected;

use discovery::Discovery;
use partition::{Partition, frames, partitions};
use plan::{Plan, root_and_redirects};
use pool::Pool;
use throttle::Throttle;

use crate::{Nanos, Origin, Page};

/// The schedule of one load of a page.
///
/// The caller (the driver) reports events with [`Scheduler::handle`] and wake-up times with
/// [`Scheduler::advance`]. After each call it performs the actions of [`Scheduler::next_action`] until there
/// is none. The scheduler has no clock: all times come from the driver, or are a fixed duration after a time
/// from the driver. If a time is before the previous time, the scheduler uses the previous time.
///
/// The scheduler ignores events of connections that it has closed and of requests that have ended, because
/// the driver may report such an event before it performs the actions.
///
/// The scheduler models neither speculative connections nor caches: equal URLs are requested repeatedly.
#[derive(Debug)]
pub struct Scheduler {
    origins: Vec<Origin>,
    discovery: Discovery,
    throttle: Throttle,
    pool: Pool,
    now: Nanos,
}

impl Scheduler {
    /// Creates the schedule of a load that has not begun. The page must be valid ([`Page::validate`]).
    pub fn new(page: &Page, policy: &Policy) -> Self {
        debug_assert_eq!(page.validate(), Ok(()), "only valid pages are loaded");
        let (origins, origin_of) = page.number_origins();
        let plan = Plan::new(page, policy);
        let origin_of: Vec<_> = origin_of.into_iter().map(OriginId).collect();
        let top = root_and_redirects(page, &selected(page, policy)).last().copied().unwrap_or(0);
        let frames = frames(page, top);
        let partitions = match policy.profile {
            Profile::Browser => partitions(page, top, &frames),
            Profile::Mget => vec![Partition::default(); page.resources.len()],
        };
        let throttle = Throttle::new(page, policy, &origin_of, &frames);
        let pool = Pool::new(policy, page, origin_of, partitions, &origins);
        Self { origins, discovery: Discovery::new(plan), throttle, pool, now: 0 }
    }

    /// Handles an event that happened at `now`.
    pub fn handle(&mut self, now: Nanos, event: Event) {
        self.queue_due(now);
        match event {
            Event::Start => self.discovery.start(self.now),
            Event::ConnectionBegins(connection) => self.pool.connection_begins(self.now, connection),
            Event::ConnectionEstablished(connection) => self.pool.connection_established(connection),
            Event::ConnectionReady(connection) => self.pool.connection_ready(self.now, connection),
            Event::ConnectionSecured(connection) => self.pool.connection_secured(connection),
            Event::ConnectionFailed(connection) | Event::ConnectionClosed(connection) => {
                let failed = self.pool.connection_lost(self.now, connection);
                self.fail(failed);
            }
            Event::BodyProgress { resource, bytes_so_far } => {
                self.discovery.body_progress(self.now, resource, bytes_so_far);
            }
            Event::ResponseEnd { resource, connection, reusable } => {
                if self.pool.response_ended(connection, resource, reusable) {
                    self.start_in_place_of(resource, true);
                    self.discovery.ended(self.now, resource);
                }
            }
            Event::ResponseFailed { resource, connection, answered } => {
                let failed = self.pool.response_failed(self.now, connection, resource, answered);
                self.fail(failed);
            }
        }
        self.queue_due(now);
        self.pool.open_needed(self.now);
    }

    /// Returns true if part of this resource's body reveals another resource. Only then does
    /// [`Event::BodyProgress`] have an effect.
    pub fn wants_progress(&self, resource: usize) -> bool {
        self.discovery.wants_progress(resource)
    }

    /// Queues the requests and opens the backup connections that are due by `now`.
    pub fn advance(&mut self, now: Nanos) {
        self.queue_due(now);
        self.pool.advance(self.now);
        self.pool.open_needed(self.now);
    }

    /// Removes and returns the next action; `None` if there is no action until the next event or wake-up.
    pub fn next_action(&mut self) -> Option<Action> {
        self.pool.next_action()
    }

    /// Returns the time by which [`Scheduler::advance`] must be called; `None` if no timer is set.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        if self.is_finished() {
            return None;
        }
        [self.discovery.next_wakeup(), self.pool.next_wakeup()].into_iter().flatten().min()
    }

    /// Returns the page load time, from [`Event::Start`] to the load event; `None` while the load event waits
    /// for resources. The result stays `None` if one of these resources failed or was never requested. The
    /// time may be known before the load event itself, which happens after a processing time.
    pub fn plt(&self) -> Option<Nanos> {
        self.discovery.plt()
    }

    /// Returns true if the load event has passed, and no resource of this load can still end or fail.
    pub fn is_finished(&self) -> bool {
        self.discovery.is_finished()
    }

    /// Returns the time at which the request was queued, even if no connection was free; `None` before then.
    pub fn queued_at(&self, resource: usize) -> Option<Nanos> {
        self.discovery.queued_at(resource)
    }

    /// Returns the progress of `resource`.
    pub fn state(&self, resource: usize) -> ResourceState {
        self.discovery.state(resource)
    }

    /// Returns the servers of the page, in the order of [`Page::origins`].
    pub fn origins(&self) -> &[Origin] {
        &self.origins
    }

    fn queue_due(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        while let Some(resource) = self.discovery.next_due(self.now) {
            if self.throttle.admit(resource) {
                self.pool.queue(self.now, resource);
            }
        }
    }

    fn start_in_place_of(&mut self, ended: usize, answered: bool) {
        if let Some(resource) = self.throttle.ended(ended, answered) {
            self.pool.queue(self.now, resource);
        }
    }

    fn fail(&mut self, resources: impl IntoIterator<Item = usize>) {
        for resource in resources {
            self.start_in_place_of(resource, false);
            self.discovery.failed(self.now, resource);
        }
    }
}
