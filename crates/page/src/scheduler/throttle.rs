//! Limits requests for images ("delayable" requests), as Chromium's resource scheduler does. An image waits,
//! without a connection, while its frame has too many requests in flight: the maximum number of images, or
//! six requests of any kind (or [`Policy::connections_per_host`], if larger) to the image's server. The
//! target of a redirect counts instead of the redirect.

use std::collections::{BTreeMap, VecDeque};

use super::{OriginId, Policy, Profile, selected};
use crate::{Origin, Page, ResourceType};

#[derive(Debug)]
pub(crate) struct Throttle {
    requests: Vec<Request>,
    limit: usize,
    limit_per_server: usize,
    /// State of each frame, keyed by the index of the resource that is the frame's document.
    frames: BTreeMap<usize, Frame>,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    server: OriginId,
    frame: usize,
    /// True for images on connections with one request at a time. Other connections use priorities instead.
    delayable: bool,
    /// Index of the redirect to this request, if any. The limits count this request instead of the redirect.
    follows: Option<usize>,
    /// True if this request is a redirect, and counts as in flight until its target is requested.
    is_followed: bool,
}

#[derive(Debug, Default)]
struct Frame {
    in_flight: BTreeMap<OriginId, usize>,
    delayable_in_flight: usize,
    waiting: VecDeque<usize>,
}

impl Throttle {
    /// Creates a limit on image requests. For each resource of the page, `origin_of` contains its server, and
    /// `frames` the index of the document (of the page or of an `iframe`) that loads it.
    pub(crate) fn new(page: &Page, policy: &Policy, origin_of: &[OriginId], frames: &[usize]) -> Self {
        let requests = page.resources.iter().zip(origin_of.iter().zip(frames));
        let requests = requests.map(|(resource, (&server, &frame))| {
            let delayable = policy.profile == Profile::Browser
                && resource.kind == ResourceType::Image
                && policy.limits(&Origin::of(&resource.url)).streams == 1;
            Request { server, frame, delayable, follows: None, is_followed: false }
        });
        let mut requests: Vec<_> = requests.collect();
        let selected = selected(page, policy);
        for (number, resource) in page.resources.iter().enumerate() {
            let Some(redirect) = resource.initiator.filter(|_| selected[number]) else { continue };
            let before = &page.resources[redirect];
            // A target in another phase may wait for the load event, and must not occupy the slot meanwhile.
            let leads_on = before.redirect_to.is_some() && before.phase == resource.phase;
            if policy.profile == Profile::Browser && leads_on && !requests[redirect].is_followed {
                requests[redirect].is_followed = true;
                requests[number].follows = Some(redirect);
            }
        }
        Self {
            requests,
            limit: Policy::DELAYABLE_REQUESTS.max(policy.connections_per_host),
            limit_per_server: Policy::browser().connections_per_host.max(policy.connections_per_host),
            frames: BTreeMap::new(),
        }
    }

    /// Returns true if the request for `resource` may start now, and counts it as in flight. Otherwise the
    /// request waits until [`Throttle::ended`] returns it.
    pub(crate) fn admit(&mut self, resource: usize) -> bool {
        let request = self.requests[resource];
        if let Some(redirect) = request.follows {
            self.leave(redirect);
        }
        let admits = request.follows.is_some() || self.may_start(request);
        let frame = self.frames.entry(request.frame).or_default();
        if admits {
            *frame.in_flight.entry(request.server).or_default() += 1;
            frame.delayable_in_flight += usize::from(request.delayable);
        } else {
            frame.waiting.push_back(resource);
        }
        admits
    }

    /// Ends a request. Then starts and returns a waiting image request, if one may start now. A redirect that
    /// got a response (`answered`) makes no room, because the request for its target follows.
    pub(crate) fn ended(&mut self, resource: usize, answered: bool) -> Option<usize> {
        if answered && self.requests[resource].is_followed {
            return None;
        }
        self.leave(resource);
        let number = self.requests[resource].frame;
        let waiting = &self.frames[&number].waiting;
        let at = waiting.iter().position(|&waiting| self.may_start(self.requests[waiting]))?;
        let next = self.frames.get_mut(&number)?.waiting.remove(at)?;
        self.admit(next).then_some(next)
    }

    fn leave(&mut self, resource: usize) {
        let Request { server, frame, delayable, .. } = self.requests[resource];
        let frame = self.frames.entry(frame).or_default();
        if let Some(of_server) = frame.in_flight.get_mut(&server) {
            *of_server -= 1;
        }
        frame.delayable_in_flight -= usize::from(delayable);
    }

    fn may_start(&self, Request { server, frame, delayable, .. }: Request) -> bool {
        let Some(frame) = self.frames.get(&frame).filter(|_| delayable) else { return true };
        frame.delayable_in_flight < self.limit
            && frame.in_flight.get(&server).is_none_or(|&of_server| of_server < self.limit_per_server)
    }
}
