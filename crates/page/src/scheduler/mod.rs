//! Which request may start now, and on which connection: events and times in, actions out.

mod discovery;
mod event;
mod plan;
mod policy;
mod pool;

pub use discovery::Outcome;
pub use event::{Action, ConnectionId, Event, OriginId};
pub use policy::{Limits, Policy, PolicyError, Profile};

pub(crate) use plan::wanted;

use discovery::Discovery;
use plan::Plan;
use pool::Pool;

use crate::{Nanos, Origin, Page};

/// Loads one page, once.
///
/// The driver tells what happened with [`Scheduler::handle`] and that a wake-up time has come with
/// [`Scheduler::advance`], and after each call carries out what [`Scheduler::next_action`] gives until it gives
/// `None`. It has no clock of its own: every time is one that the driver gave, or lies a processing time after
/// one. Time does not go backwards; an earlier time than the last counts as the last.
///
/// Events about connections that the scheduler has given up, or requests that have ended, are ignored: they
/// cross with its actions on the way.
///
/// What is not modelled: the limit of ten delayable requests that Chromium's resource scheduler adds, speculative
/// connections, backup connections after 250 ms, and caches (a URL that stands twice in the page is asked twice).
#[derive(Debug)]
pub struct Scheduler {
    origins: Vec<Origin>,
    discovery: Discovery,
    pool: Pool,
    now: Nanos,
}

impl Scheduler {
    /// A load of `page`, which must be valid ([`Page::validate`]), that has not begun.
    ///
    /// # Errors
    /// [`PolicyError`] when the policy asks for what cannot be.
    pub fn new(page: &Page, policy: &Policy) -> Result<Self, PolicyError> {
        debug_assert_eq!(page.validate(), Ok(()), "only valid pages are loaded");
        policy.validate()?;
        let (origins, origin_of) = page.number_origins();
        let plan = Plan::new(page, policy);
        let pool = Pool::new(policy, page, origin_of.into_iter().map(OriginId).collect(), &origins);
        Ok(Self { origins, discovery: Discovery::new(plan), pool, now: 0 })
    }

    /// Tells what happened at `now`.
    pub fn handle(&mut self, now: Nanos, event: Event) {
        self.queue_due(now);
        match event {
            Event::Start => self.discovery.start(self.now),
            Event::ConnectionReady { connection } => self.pool.connection_ready(connection),
            Event::ConnectionFailed { connection } | Event::ConnectionClosed { connection } => {
                let failed = self.pool.connection_lost(connection);
                self.fail(failed);
            }
            Event::BodyProgress { resource, bytes_so_far } => {
                self.discovery.body_progress(self.now, resource, bytes_so_far);
            }
            Event::ResponseEnd { resource, connection, reusable } => {
                if self.pool.response_ended(connection, resource, reusable) {
                    self.discovery.ended(self.now, resource);
                }
            }
            Event::ResponseFailed { resource, connection, answered } => {
                let failed = self.pool.response_failed(connection, resource, answered);
                self.fail(failed);
            }
        }
        self.queue_due(now);
        self.pool.open_needed();
    }

    /// Whether some part of this resource's body gives another away, so that [`Event::BodyProgress`] makes a difference.
    pub fn wants_progress(&self, resource: usize) -> bool {
        self.discovery.wants_progress(resource)
    }

    /// Tells that it is `now`, so that what is due happens.
    pub fn advance(&mut self, now: Nanos) {
        self.queue_due(now);
        self.pool.open_needed();
    }

    /// The next thing to do, in order; `None` when there is nothing to do before the next event or wake-up.
    pub fn next_action(&mut self) -> Option<Action> {
        self.pool.next_action()
    }

    /// When [`Scheduler::advance`] must be called at the latest; `None` when only an event can go on.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.discovery.next_wakeup()
    }

    /// The page load time: from [`Event::Start`] to the load event. `None` while resources that the load event
    /// waits for are missing, and for ever when one of them failed or was never asked.
    ///
    /// Known as soon as the last of those resources has ended, which may be before the load event itself.
    pub fn plt(&self) -> Option<Nanos> {
        self.discovery.plt()
    }

    /// Whether nothing is left to do: everything wanted has ended or failed, and the load event has come.
    pub fn is_finished(&self) -> bool {
        self.discovery.is_finished()
    }

    /// When the request for `resource` was queued, whether or not a connection was free.
    pub fn queued_at(&self, resource: usize) -> Option<Nanos> {
        self.discovery.queued_at(resource)
    }

    /// What has become of `resource`.
    pub fn outcome(&self, resource: usize) -> Outcome {
        self.discovery.outcome(resource)
    }

    /// The resources that were asked for in vain or never asked for, as far as it is known.
    pub fn failures(&self) -> impl Iterator<Item = (usize, Outcome)> + '_ {
        self.discovery.failures()
    }

    /// The servers of the page, as [`Page::origins`] gives them.
    pub fn origins(&self) -> &[Origin] {
        &self.origins
    }

    fn queue_due(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        while let Some(resource) = self.discovery.next_due(self.now) {
            self.pool.queue(resource);
        }
    }

    fn fail(&mut self, resources: impl IntoIterator<Item = usize>) {
        for resource in resources {
            self.discovery.failed(self.now, resource);
        }
    }
}
