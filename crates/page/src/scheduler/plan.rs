//! Plans a page load in advance: the resources to request, and the response bytes that reveal each of them.

use super::{Policy, Profile};
use crate::{Nanos, Page, Phase, Resource};

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) requests: Vec<PlannedRequest>,
    /// Time in nanoseconds between the last response that the load event waits for and the event itself.
    pub(crate) load_event_processing: Nanos,
}

#[derive(Debug)]
pub(crate) struct PlannedRequest {
    /// True if the policy selects the resource (see [`selected`]).
    pub(crate) selected: bool,
    /// Resources that the client discovers in the response, or that the server pushes with it, in the order
    /// of discovery. [`Policy::order_seed`] shuffles resources that are discovered at the same byte.
    pub(crate) children: Vec<Child>,
    pub(crate) body_bytes: u64,
    /// Time from the moment at which the client learns of the resource until it queues the request.
    pub(crate) processing: Nanos,
    /// True if the load event waits for the resource, unless it is discovered too late ([`Phase::Load`]).
    pub(crate) before_load_event: bool,
    pub(crate) after_load_event: bool,
}

/// A resource that the client discovers when `at_bytes` bytes of its initiator's body have arrived, or the
/// whole response ([`AT_END`]). `None` for a pushed resource, which is discovered at the initiator's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Child {
    pub(crate) at_bytes: Option<u64>,
    /// Sort key of resources with equal `at_bytes`: random to shuffle them, 0 for the order of the page.
    tie_breaker: u64,
    pub(crate) resource: usize,
}

pub(crate) const AT_END: u64 = u64::MAX;

impl Plan {
    pub(crate) fn new(page: &Page, policy: &Policy) -> Self {
        let selected = selected(page, policy);
        let is_browser = policy.profile == Profile::Browser;
        let processing = |us| if is_browser { policy.processing(us) } else { 0 };
        let request = |(resource, &selected): (&Resource, &bool)| PlannedRequest {
            selected,
            children: Vec::new(),
            body_bytes: resource.body_bytes,
            processing: processing(resource.processing_us),
            before_load_event: resource.phase == Phase::Load,
            after_load_event: is_browser && resource.phase == Phase::After,
        };
        let mut requests: Vec<_> = page.resources.iter().zip(&selected).map(request).collect();
        let documents = root_and_redirects(page, &selected);
        for (index, resource) in page.resources.iter().enumerate().filter(|(index, _)| selected[*index]) {
            let initiator = match policy.profile {
                Profile::Mget if !documents.contains(&index) => documents.last().copied(),
                _ => resource.initiator,
            };
            let Some(initiator) = initiator else { continue };
            let redirects = page.resources[initiator].redirect_to.is_some();
            let at_bytes = resource.initiator_at_bytes.filter(|_| is_browser && !redirects).unwrap_or(AT_END);
            let at_bytes = (!(is_browser && resource.pushed)).then_some(at_bytes);
            let seed = policy.order_seed.filter(|_| is_browser);
            let tie_breaker = seed.map_or(0, |seed| split_mix(seed.wrapping_add(index as u64)));
            requests[initiator].children.push(Child { at_bytes, tie_breaker, resource: index });
        }
        for request in &mut requests {
            request.children.sort_unstable();
        }
        Self { requests, load_event_processing: processing(page.load_event_processing_us) }
    }
}

/// Returns the `seed`-th output of a `SplitMix64` generator with state 0 (Steele, Lea, Flood, OOPSLA 2014).
fn split_mix(seed: u64) -> u64 {
    let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Returns, for each resource, true if the policy selects its phase and the phases of all its initiators.
pub(crate) fn selected(page: &Page, policy: &Policy) -> Vec<bool> {
    let mut selected: Vec<bool> = Vec::with_capacity(page.resources.len());
    for resource in &page.resources {
        let initiator_wanted = resource.initiator.is_none_or(|initiator| selected[initiator]);
        selected.push(initiator_wanted && policy.phases.contains(&resource.phase));
    }
    selected
}

pub(crate) fn root_and_redirects(page: &Page, selected: &[bool]) -> Vec<usize> {
    let mut documents = vec![0];
    for (index, resource) in page.resources.iter().enumerate() {
        let last = documents[documents.len() - 1];
        if selected[index] && resource.initiator == Some(last) && page.resources[last].redirect_to.is_some() {
            documents.push(index);
        }
    }
    documents
}
