//! When each request is queued: from what has arrived, and the client's processing times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::plan::{self, Plan};
use crate::Nanos;

/// What has become of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is not loaded: its phase is not, or its initiator's is not.
    NotWanted,
    /// The client does not know of it yet.
    Unknown,
    /// The client knows of it and has not queued the request yet.
    Processing,
    /// The request is queued or under way.
    Asked,
    /// The response has ended.
    Ended {
        /// When.
        at: Nanos,
    },
    /// The request or its response failed.
    Failed {
        /// When.
        at: Nanos,
    },
    /// It could not be asked for, because what would have given it away failed.
    NeverAsked,
}

#[derive(Debug)]
pub(crate) struct Discovery {
    plan: Plan,
    resources: Vec<Progress>,
    /// The earliest first, equal ones in the order of setting.
    timers: BinaryHeap<Reverse<(Nanos, u64, Timer)>>,
    timers_set: u64,
    /// Requests that are ready but wait for the load event.
    held: VecDeque<usize>,
    load_event: LoadEvent,
    started_at: Option<Nanos>,
    /// How many wanted resources have neither ended nor failed.
    open: usize,
    /// How many of them the load event waits for.
    open_before_load_event: usize,
    /// Something that the load event waits for failed.
    broken: bool,
}

#[derive(Debug)]
struct Progress {
    outcome: Outcome,
    queued_at: Option<Nanos>,
    /// How many of the children are known.
    children_known: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Queue(usize),
    LoadEvent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoadEvent {
    Waiting,
    Due { at: Nanos },
    Passed { at: Nanos },
}

impl Discovery {
    pub(crate) fn new(plan: Plan) -> Self {
        let progress = |wanted: bool| Progress {
            outcome: if wanted { Outcome::Unknown } else { Outcome::NotWanted },
            queued_at: None,
            children_known: 0,
        };
        Self {
            resources: plan.requests.iter().map(|request| progress(request.is_some())).collect(),
            timers: BinaryHeap::new(),
            timers_set: 0,
            held: VecDeque::new(),
            load_event: LoadEvent::Waiting,
            started_at: None,
            open: plan.requests.iter().flatten().count(),
            open_before_load_event: plan.requests.iter().flatten().filter(|r| r.before_load_event).count(),
            broken: false,
            plan,
        }
    }

    pub(crate) fn start(&mut self, now: Nanos) {
        if self.started_at.is_none() {
            self.started_at = Some(now);
            self.make_known(now, 0);
        }
    }

    pub(crate) fn body_progress(&mut self, now: Nanos, resource: usize, bytes_so_far: u64) {
        if self.outcome(resource) == Outcome::Asked {
            self.make_children_known(now, resource, bytes_so_far);
        }
    }

    pub(crate) fn ended(&mut self, now: Nanos, resource: usize) {
        self.make_children_known(now, resource, Nanos::MAX);
        self.resolve(now, resource, Outcome::Ended { at: now });
    }

    /// What the resource has not given away yet will never be asked for.
    pub(crate) fn failed(&mut self, now: Nanos, resource: usize) {
        self.resolve(now, resource, Outcome::Failed { at: now });
        let mut never_known = vec![resource];
        while let Some(parent) = never_known.pop() {
            while let Some(child) = self.next_child(parent, Nanos::MAX) {
                self.resolve(now, child, Outcome::NeverAsked);
                never_known.push(child);
            }
        }
    }

    pub(crate) fn next_wakeup(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next request to be queued at or before `now`.
    pub(crate) fn next_due(&mut self, now: Nanos) -> Option<usize> {
        loop {
            if let LoadEvent::Passed { at } = self.load_event {
                if let Some(resource) = self.held.pop_front() {
                    return Some(self.queue(at, resource));
                }
            }
            let &Reverse((at, _, timer)) = self.timers.peek()?;
            if at > now {
                return None;
            }
            self.timers.pop();
            match timer {
                Timer::LoadEvent => self.load_event = LoadEvent::Passed { at },
                Timer::Queue(resource) if self.must_wait_for_load_event(resource) => {
                    self.held.push_back(resource);
                }
                Timer::Queue(resource) => return Some(self.queue(at, resource)),
            }
        }
    }

    pub(crate) fn plt(&self) -> Option<Nanos> {
        match self.load_event {
            LoadEvent::Due { at } | LoadEvent::Passed { at } if !self.broken => Some(at - self.started_at?),
            _ => None,
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.open == 0 && matches!(self.load_event, LoadEvent::Passed { .. })
    }

    pub(crate) fn queued_at(&self, resource: usize) -> Option<Nanos> {
        self.resources[resource].queued_at
    }

    pub(crate) fn outcome(&self, resource: usize) -> Outcome {
        self.resources[resource].outcome
    }

    pub(crate) fn failures(&self) -> impl Iterator<Item = (usize, Outcome)> + '_ {
        let outcomes = self.resources.iter().map(|progress| progress.outcome).enumerate();
        outcomes.filter(|(_, outcome)| matches!(outcome, Outcome::Failed { .. } | Outcome::NeverAsked))
    }

    pub(crate) fn wants_progress(&self, resource: usize) -> bool {
        self.plan.requests[resource].as_ref().is_some_and(plan::Request::gives_away_before_its_end)
    }

    fn make_known(&mut self, now: Nanos, resource: usize) {
        self.resources[resource].outcome = Outcome::Processing;
        let processing = self.plan.requests[resource].as_ref().map_or(0, |request| request.processing);
        self.set_timer(now + processing, Timer::Queue(resource));
    }

    fn make_children_known(&mut self, now: Nanos, resource: usize, bytes_so_far: u64) {
        while let Some(child) = self.next_child(resource, bytes_so_far) {
            self.make_known(now, child);
        }
    }

    /// The next child of `parent` that `bytes_so_far` give away and that was not given before.
    fn next_child(&mut self, parent: usize, bytes_so_far: u64) -> Option<usize> {
        let known = &mut self.resources[parent].children_known;
        let child = self.plan.requests[parent].as_ref()?.children.get(*known)?;
        if child.at_bytes > bytes_so_far {
            return None;
        }
        *known += 1;
        Some(child.resource)
    }

    fn must_wait_for_load_event(&self, resource: usize) -> bool {
        let passed = matches!(self.load_event, LoadEvent::Passed { .. });
        !passed && self.plan.requests[resource].as_ref().is_some_and(|request| request.after_load_event)
    }

    fn queue(&mut self, at: Nanos, resource: usize) -> usize {
        let progress = &mut self.resources[resource];
        (progress.outcome, progress.queued_at) = (Outcome::Asked, Some(at));
        resource
    }

    fn resolve(&mut self, now: Nanos, resource: usize, outcome: Outcome) {
        self.resources[resource].outcome = outcome;
        self.open -= 1;
        if self.plan.requests[resource].as_ref().is_some_and(|request| request.before_load_event) {
            self.broken |= !matches!(outcome, Outcome::Ended { .. });
            self.open_before_load_event -= 1;
            if self.open_before_load_event == 0 {
                let at = now + self.plan.load_event_processing;
                self.load_event = LoadEvent::Due { at };
                self.set_timer(at, Timer::LoadEvent);
            }
        }
    }

    fn set_timer(&mut self, at: Nanos, timer: Timer) {
        self.timers.push(Reverse((at, self.timers_set, timer)));
        self.timers_set += 1;
    }
}
