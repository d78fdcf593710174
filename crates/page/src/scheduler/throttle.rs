//! Delayable requests: images, which are only displayed. As Chromium's resource scheduler each frame has so
//! many in flight at most, in all and to one server; the others wait before they ask for a connection.

use std::collections::{BTreeMap, VecDeque};

use super::{OriginId, Policy, Profile};
use crate::{Page, ResourceType};

#[derive(Debug)]
pub(crate) struct Throttle {
    /// By resource. Connections that carry several requests at once have priorities in place of the limit.
    delayable: Vec<Option<Delayable>>,
    limit: usize,
    limit_per_server: usize,
    /// By the resource of its document.
    frames: BTreeMap<usize, Frame>,
}

/// The server of a delayable request, and the document of its frame.
#[derive(Debug, Clone, Copy)]
struct Delayable {
    server: OriginId,
    frame: usize,
}

#[derive(Debug, Default)]
struct Frame {
    in_flight: BTreeMap<OriginId, usize>,
    waiting: VecDeque<usize>,
}

impl Throttle {
    /// `frames`: by resource, the document of the frame that it belongs to.
    pub(crate) fn new(page: &Page, policy: &Policy, origin_of: &[OriginId], frames: &[usize]) -> Self {
        let delayable = page.resources.iter().zip(origin_of.iter().zip(frames));
        let delayable = delayable.map(|(resource, (&server, &frame))| {
            let delayable = policy.profile == Profile::Browser
                && resource.kind == ResourceType::Image
                && policy.limits(resource.url.host()).streams == 1;
            delayable.then_some(Delayable { server, frame })
        });
        Self {
            delayable: delayable.collect(),
            limit: Policy::DELAYABLE_REQUESTS.max(policy.connections_per_host),
            limit_per_server: Policy::browser().connections_per_host.max(policy.connections_per_host),
            frames: BTreeMap::new(),
        }
    }

    /// Whether the request may start now; else a later [`Throttle::ended`] returns it.
    pub(crate) fn admits(&mut self, resource: usize) -> bool {
        let Some(Delayable { server, frame }) = self.delayable[resource] else { return true };
        let admits = self.has_room(frame, server);
        let frame = self.frames.entry(frame).or_default();
        if admits {
            *frame.in_flight.entry(server).or_default() += 1;
        } else {
            frame.waiting.push_back(resource);
        }
        admits
    }

    /// Ends an admitted request. Returns the one that may start in its place: the first of the frame that
    /// waits, except for a server that has as many as it may.
    pub(crate) fn ended(&mut self, resource: usize) -> Option<usize> {
        let Delayable { server, frame: number } = self.delayable[resource]?;
        *self.frames.get_mut(&number)?.in_flight.get_mut(&server)? -= 1;
        let may_start = |waiting: &usize| {
            self.delayable[*waiting].is_some_and(|Delayable { server, frame }| self.has_room(frame, server))
        };
        let place = self.frames[&number].waiting.iter().position(may_start)?;
        let next = self.frames.get_mut(&number)?.waiting.remove(place)?;
        self.admits(next).then_some(next)
    }

    fn has_room(&self, frame: usize, server: OriginId) -> bool {
        let Some(Frame { in_flight, .. }) = self.frames.get(&frame) else { return true };
        in_flight.values().sum::<usize>() < self.limit
            && in_flight.get(&server).is_none_or(|&of_server| of_server < self.limit_per_server)
    }
}
