//! Delayable requests: images, which are only displayed. As Chromium's resource scheduler the client has so
//! many in flight at most, in all and to one server; the others wait before they ask for a connection.

use std::collections::VecDeque;

use super::{OriginId, Policy, Profile};
use crate::{Page, ResourceType};

#[derive(Debug)]
pub(crate) struct Throttle {
    /// By resource: the server of a delayable request. Connections that carry several requests at once have
    /// priorities in place of the limit.
    delayable: Vec<Option<OriginId>>,
    limit: usize,
    limit_per_server: usize,
    /// By server.
    in_flight: Vec<usize>,
    waiting: VecDeque<usize>,
}

impl Throttle {
    pub(crate) fn new(page: &Page, policy: &Policy, origin_of: &[OriginId]) -> Self {
        let delayable = page.resources.iter().zip(origin_of).map(|(resource, origin)| {
            let delayable = policy.profile == Profile::Browser
                && resource.kind == ResourceType::Image
                && policy.limits(resource.url.host()).streams == 1;
            delayable.then_some(*origin)
        });
        Self {
            delayable: delayable.collect(),
            limit: Policy::DELAYABLE_REQUESTS.max(policy.connections_per_host),
            limit_per_server: Policy::browser().connections_per_host.max(policy.connections_per_host),
            in_flight: vec![0; origin_of.len()],
            waiting: VecDeque::new(),
        }
    }

    /// Whether the request may start now; else a later [`Throttle::ended`] returns it.
    pub(crate) fn admits(&mut self, resource: usize) -> bool {
        let Some(OriginId(server)) = self.delayable[resource] else { return true };
        let admits = self.in_flight.iter().sum::<usize>() < self.limit
            && self.in_flight[server] < self.limit_per_server;
        if admits {
            self.in_flight[server] += 1;
        } else {
            self.waiting.push_back(resource);
        }
        admits
    }

    /// Ends an admitted request. Returns the one that may start in its place: the first that waits, except for
    /// a server that has as many as it may.
    pub(crate) fn ended(&mut self, resource: usize) -> Option<usize> {
        let OriginId(server) = self.delayable[resource]?;
        self.in_flight[server] -= 1;
        let has_room = |waiting: &usize| {
            self.delayable[*waiting]
                .is_some_and(|OriginId(server)| self.in_flight[server] < self.limit_per_server)
        };
        let place = self.waiting.iter().position(has_room)?;
        let next = self.waiting.remove(place)?;
        self.admits(next).then_some(next)
    }
}
