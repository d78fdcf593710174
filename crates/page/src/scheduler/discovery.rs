//! Decides when the client requests each resource: once the bytes that refer to it have arrived, and its
//! processing time is over. Computes the time of the load event.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem;

use super::plan::{AT_END, Plan, PlannedRequest};
use crate::Nanos;

/// The progress of one resource in a page load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceState {
    /// Not part of this page load, which may exclude, for example, all requests after the load event.
    NotSelected,
    /// The client does not know of the resource yet.
    Unknown,
    /// The client knows of the resource, and queues the request when the processing time has passed.
    Processing,
    /// The request is queued or in flight.
    Requested,
    /// The response ended at this time.
    Ended(Nanos),
    /// The request or its response failed at this time.
    Failed(Nanos),
    /// The client never learnt of the resource, because its initiator failed first.
    NeverRequested,
}

#[derive(Debug)]
pub(crate) struct Discovery {
    plan: Plan,
    resources: Vec<Progress>,
    /// Timers, the earliest first. Timers with equal times are in the order of insertion.
    timers: BinaryHeap<Reverse<(Nanos, u64, Timer)>>,
    timers_set: u64,
    /// Requests that are ready, but may be sent only after the load event, which has not happened yet.
    waiting_for_load_event: VecDeque<usize>,
    /// The time of the load event; `None` while the event waits for resources.
    load_event_at: Option<Nanos>,
    load_event_passed: bool,
    started_at: Option<Nanos>,
    /// Number of this load's resources not yet in a final state (ended, failed or never requested).
    pending: usize,
    pending_before_load_event: usize,
    load_event_failed: bool,
}

#[derive(Debug)]
struct Progress {
    state: ResourceState,
    queued_at: Option<Nanos>,
    /// Number of resources initiated by this resource that the client already knows of.
    children_known: usize,
    awaited: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Queue(usize),
    LoadEvent,
}

impl Discovery {
    pub(crate) fn new(plan: Plan) -> Self {
        let progress = |request: &PlannedRequest| Progress {
            state: if request.selected { ResourceState::Unknown } else { ResourceState::NotSelected },
            queued_at: None,
            children_known: 0,
            awaited: false,
        };
        let mut discovery = Self {
            resources: plan.requests.iter().map(progress).collect(),
            timers: BinaryHeap::new(),
            timers_set: 0,
            waiting_for_load_event: VecDeque::new(),
            load_event_at: None,
            load_event_passed: false,
            started_at: None,
            pending: plan.requests.iter().filter(|request| request.selected).count(),
            pending_before_load_event: 0,
            load_event_failed: false,
            plan,
        };
        discovery.await_with_children(0);
        discovery
    }

    pub(crate) fn start(&mut self, now: Nanos) {
        if self.started_at.is_none() {
            self.started_at = Some(now);
            self.make_known(now, 0);
        }
    }

    pub(crate) fn body_progress(&mut self, now: Nanos, resource: usize, bytes_so_far: u64) {
        // When the whole body has arrived, the driver reports the end of the response next. That event frees
        // the connection before it reveals resources.
        let whole = bytes_so_far >= self.plan.requests[resource].body_bytes;
        if !whole && self.state(resource) == ResourceState::Requested {
            self.make_children_known(now, resource, Some(bytes_so_far));
        }
    }

    pub(crate) fn ended(&mut self, now: Nanos, resource: usize) {
        self.make_children_known(now, resource, Some(AT_END));
        self.resolve(now, resource, ResourceState::Ended(now));
    }

    /// Notes that a resource failed. Resources not yet discovered in its response are never requested.
    pub(crate) fn failed(&mut self, now: Nanos, resource: usize) {
        self.resolve(now, resource, ResourceState::Failed(now));
        let mut never_known = vec![resource];
        while let Some(parent) = never_known.pop() {
            while let Some(child) = self.next_child(parent, Some(AT_END)) {
                self.resolve(now, child, ResourceState::NeverRequested);
                never_known.push(child);
            }
        }
    }

    pub(crate) fn next_wakeup(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    pub(crate) fn next_due(&mut self, now: Nanos) -> Option<usize> {
        loop {
            if self.load_event_passed {
                if let (Some(at), Some(resource)) =
                    (self.load_event_at, self.waiting_for_load_event.pop_front())
                {
                    return Some(self.queue(at, resource));
                }
            }
            let &Reverse((at, _, timer)) = self.timers.peek()?;
            if at > now {
                return None;
            }
            self.timers.pop();
            match timer {
                Timer::LoadEvent => self.load_event_passed = true,
                Timer::Queue(resource) if self.must_wait_for_load_event(resource) => {
                    self.waiting_for_load_event.push_back(resource);
                }
                Timer::Queue(resource) => return Some(self.queue(at, resource)),
            }
        }
    }

    pub(crate) fn plt(&self) -> Option<Nanos> {
        if self.load_event_failed {
            return None;
        }
        Some(self.load_event_at? - self.started_at?)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.pending == 0 && self.load_event_passed
    }

    pub(crate) fn queued_at(&self, resource: usize) -> Option<Nanos> {
        self.resources[resource].queued_at
    }

    pub(crate) fn state(&self, resource: usize) -> ResourceState {
        self.resources[resource].state
    }

    pub(crate) fn wants_progress(&self, resource: usize) -> bool {
        // Children are sorted by `at_bytes`.
        let first = self.plan.requests[resource].children.iter().find_map(|child| child.at_bytes);
        first.is_some_and(|at_bytes| at_bytes != AT_END)
    }

    /// Makes the load event wait for a resource and for all resources that it will reveal. Skips resources
    /// for which the event does not wait, such as asynchronous ones, and the resources that they reveal.
    fn await_with_children(&mut self, resource: usize) {
        let mut added = vec![resource];
        while let Some(resource) = added.pop() {
            let request = &self.plan.requests[resource];
            if request.before_load_event && !mem::replace(&mut self.resources[resource].awaited, true) {
                self.pending_before_load_event += 1;
                added.extend(request.children.iter().map(|child| child.resource));
            }
        }
    }

    fn make_known(&mut self, now: Nanos, resource: usize) {
        if self.load_event_at.is_none() {
            self.await_with_children(resource);
        }
        self.resources[resource].state = ResourceState::Processing;
        self.set_timer(now + self.plan.requests[resource].processing, Timer::Queue(resource));
    }

    fn make_children_known(&mut self, now: Nanos, resource: usize, bytes_so_far: Option<u64>) {
        while let Some(child) = self.next_child(resource, bytes_so_far) {
            self.make_known(now, child);
        }
    }

    /// Returns the next child that the first `bytes_so_far` bytes of the parent's body reveal. Returns no
    /// child twice. If `bytes_so_far` is `None`, returns only resources that the server pushes.
    fn next_child(&mut self, parent: usize, bytes_so_far: Option<u64>) -> Option<usize> {
        let known = &mut self.resources[parent].children_known;
        let child = self.plan.requests[parent].children.get(*known)?;
        if child.at_bytes > bytes_so_far {
            return None;
        }
        *known += 1;
        Some(child.resource)
    }

    fn must_wait_for_load_event(&self, resource: usize) -> bool {
        !self.load_event_passed && self.plan.requests[resource].after_load_event
    }

    fn queue(&mut self, at: Nanos, resource: usize) -> usize {
        let progress = &mut self.resources[resource];
        (progress.state, progress.queued_at) = (ResourceState::Requested, Some(at));
        self.make_children_known(at, resource, None);
        resource
    }

    fn resolve(&mut self, now: Nanos, resource: usize, state: ResourceState) {
        self.resources[resource].state = state;
        self.pending -= 1;
        if self.resources[resource].awaited {
            self.load_event_failed |= !matches!(state, ResourceState::Ended(_));
            self.pending_before_load_event -= 1;
            if self.pending_before_load_event == 0 {
                let at = now + self.plan.load_event_processing;
                self.load_event_at = Some(at);
                self.set_timer(at, Timer::LoadEvent);
            }
        }
    }

    fn set_timer(&mut self, at: Nanos, timer: Timer) {
        self.timers.push(Reverse((at, self.timers_set, timer)));
        self.timers_set += 1;
    }
}
