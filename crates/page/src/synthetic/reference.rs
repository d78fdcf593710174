//! Lists the requests that the generated bodies of a page must start: for each, the element or script call
//! that starts the request, the response that reveals it, and the delay between response and request.

use std::collections::BTreeSet;

use crate::scheduler::selected;
use crate::{Origin, Page, Phase, Policy, Resource, ResourceType};

/// The element or call that starts a request, named like `initiatorType` of the Resource Timing API.
/// `runtime.js` reads the numbers of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InitiatorType {
    Image = 0,
    Script = 1,
    Stylesheet = 2,
    Frame = 3,
    Fetch = 4,
    Font = 5,
    /// A script that `fetch` loads and `eval` runs, so that the load event does not wait for the script.
    FetchAndEval = 6,
    /// An image without an image's Content-Type. Browsers may block it in `<img>`, so `fetch` loads it.
    FetchedImage = 7,
}

/// A resource type whose body can make a browser send further requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Document,
    Stylesheet,
    Script,
}

/// A request that a browser must send while it loads a generated page, and the redirects of this request.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    /// Index of the resource that the browser requests first. It may be a redirect or a CORS preflight.
    pub(super) first: usize,
    /// Index of the resource after all redirects or a preflight; equal to `first` if there are none.
    pub(super) last: usize,
    /// Indices of all resources that the browser requests for this reference: `first`, redirects, and `last`.
    pub(super) chain: Vec<usize>,
    pub(super) initiator_type: InitiatorType,
    /// Type of the resource after redirects, if its body can start requests; `None` if not, as for an image.
    pub(super) container: Option<Container>,
    /// Index of the reference whose response starts this request; `None` for the root document.
    pub(super) parent: Option<usize>,
    /// Bytes of the parent's body that must arrive to reveal the request; `None` for the whole response.
    pub(super) at_bytes: Option<u64>,
    /// The client's processing time before the request, in milliseconds, as for `setTimeout`.
    pub(super) delay_ms: u64,
    pub(super) phase: Phase,
    pub(super) method: String,
    pub(super) request_body_bytes: u64,
    pub(super) preflight: bool,
    /// Index, in the list of references, of the document that sends this request; 0 for the root document.
    pub(super) document: usize,
}

/// Returns the requests that a browser must send to load the page, each after the request that causes it.
pub(super) fn references(page: &Page, policy: &Policy) -> Vec<Reference> {
    let selected = selected(page, policy);
    let successors = successors(page, &selected);
    let mut references: Vec<Reference> = Vec::new();
    // Index of the reference whose chain contains each resource.
    let mut number_of = vec![None; page.resources.len()];
    let mut urls = BTreeSet::new();
    for (index, resource) in page.resources.iter().enumerate() {
        if !selected[index] || number_of[index].is_some() {
            continue;
        }
        let parent = resource.initiator.and_then(|initiator| number_of[initiator]);
        let number = references.len();
        let document = parent.map_or(0, |parent: usize| match references[parent].container {
            Some(Container::Document) => parent,
            _ => references[parent].document,
        });
        let document_resource =
            &page.resources[references.get(document).map_or(index, |reference| reference.last)];
        let mut chain = vec![index];
        let mut preflight = false;
        while let Some(next) = successors[chain[chain.len() - 1]] {
            let last = &page.resources[chain[chain.len() - 1]];
            if last.method == "OPTIONS" {
                // Browsers send preflights only to other origins (Fetch standard, CORS protocol).
                if Origin::of(&last.url) == Origin::of(&document_resource.url) {
                    break;
                }
                preflight = true;
            }
            chain.push(next);
        }
        for &index in &chain {
            number_of[index] = Some(number);
        }
        let last = chain[chain.len() - 1];
        let repeated = !urls.insert(resource.url.as_str());
        let final_resource = &page.resources[last];
        // If there is a preflight, method and body size are those of the request that follows it.
        let described = if preflight { final_resource } else { resource };
        let initiator_type = if parent.is_none() {
            InitiatorType::Frame
        } else if repeated || preflight {
            InitiatorType::Fetch
        } else {
            initiator_type_of(resource, final_resource)
        };
        references.push(Reference {
            first: index,
            last,
            initiator_type,
            container: container_of(initiator_type, final_resource),
            parent,
            // The body of a redirect or a preflight holds no references.
            at_bytes: resource
                .initiator_at_bytes
                .filter(|_| successors[resource.initiator.unwrap_or(0)].is_none()),
            delay_ms: (policy.processing(resource.processing_us) + 500_000) / 1_000_000,
            phase: resource.phase,
            method: described.method.clone(),
            // `fetch()` sends no body with GET and HEAD.
            request_body_bytes: match described.method.as_str() {
                "GET" | "HEAD" => 0,
                _ => described.request_body_bytes,
            },
            preflight,
            document,
            chain,
        });
    }
    references
}

fn initiator_type_of(resource: &Resource, final_resource: &Resource) -> InitiatorType {
    let renders =
        !matches!(final_resource.status, 204 | 205 | 304) && !(300..400).contains(&final_resource.status);
    if resource.method != "GET" {
        return InitiatorType::Fetch;
    }
    match (final_resource.kind, resource.phase) {
        (ResourceType::Script, Phase::Async) => InitiatorType::FetchAndEval,
        (_, Phase::Async) => InitiatorType::Fetch,
        (ResourceType::Document, _) if renders => InitiatorType::Frame,
        (ResourceType::Stylesheet, _) => InitiatorType::Stylesheet,
        (ResourceType::Script, _) => InitiatorType::Script,
        // Browsers block cross-origin responses to `<img>` that are not images (Opaque Response Blocking).
        (ResourceType::Image, _) if final_resource.mime.starts_with("image/") => InitiatorType::Image,
        (ResourceType::Image, _) => InitiatorType::FetchedImage,
        (ResourceType::Font, _) => InitiatorType::Font,
        _ => InitiatorType::Fetch,
    }
}

fn container_of(initiator_type: InitiatorType, final_resource: &Resource) -> Option<Container> {
    let ok = (200..300).contains(&final_resource.status);
    match initiator_type {
        InitiatorType::Frame => Some(Container::Document),
        InitiatorType::Stylesheet if ok => Some(Container::Stylesheet),
        InitiatorType::Script | InitiatorType::FetchAndEval if ok => Some(Container::Script),
        _ => None,
    }
}

/// Returns each resource's successor: the target of a redirect, or the request that a preflight permits.
fn successors(page: &Page, selected: &[bool]) -> Vec<Option<usize>> {
    let mut next = vec![None; page.resources.len()];
    for (index, resource) in page.resources.iter().enumerate() {
        let Some(initiator) = resource.initiator.filter(|_| selected[index]) else { continue };
        let parent = &page.resources[initiator];
        let follows = parent.redirect_to.is_some()
            || (parent.method == "OPTIONS" && parent.url == resource.url && resource.method != "OPTIONS");
        if follows && next[initiator].is_none() {
            next[initiator] = Some(index);
        }
    }
    next
}
