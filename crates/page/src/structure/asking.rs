//! How a browser is made to ask for each resource: by which element or call, after what, and when.

use std::collections::BTreeSet;

use crate::scheduler::wanted;
use crate::{Origin, Page, Phase, Policy, Resource, ResourceType};

/// By what the browser asks. The numbers are those of `runtime.js`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Via {
    Image = 0,
    Script = 1,
    Stylesheet = 2,
    Frame = 3,
    Fetch = 4,
    Font = 5,
    /// Fetched and run: the load event does not wait for it.
    Evaluated = 6,
}

/// What can hold references of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Document,
    Stylesheet,
    Script,
}

/// A resource that something has to refer to; what redirects lead to is asked for by itself.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// What is asked for.
    pub(super) first: usize,
    /// What comes in the end: the same, or where redirects lead.
    pub(super) last: usize,
    /// All on the way, both included.
    pub(super) chain: Vec<usize>,
    pub(super) via: Via,
    /// What the answer can hold, if anything.
    pub(super) holder: Option<Holder>,
    /// The one whose answer makes the browser ask; none for the root.
    pub(super) parent: Option<usize>,
    /// After how many bytes of that answer.
    pub(super) at_bytes: Option<u64>,
    /// How long after, in milliseconds: what timers count in.
    pub(super) delay_ms: u64,
    pub(super) phase: Phase,
    pub(super) method: String,
    pub(super) request_body_bytes: u64,
    /// The browser is to ask for leave first: that question is in the chain.
    pub(super) preflight: bool,
    /// The document (by number among the asked) that it is asked in: itself for the root.
    pub(super) frame: usize,
}

/// Everything that is to be asked for, each after its parent; the first is the root.
pub(super) fn asked(page: &Page, policy: &Policy) -> Vec<Asked> {
    let wanted = wanted(page, policy);
    let followed = Followed::of(page, &wanted);
    let mut asked: Vec<Asked> = Vec::new();
    // By resource: the number of whom it was asked for with.
    let mut of = vec![None; page.resources.len()];
    let mut urls = BTreeSet::new();
    for (index, resource) in page.resources.iter().enumerate() {
        if !wanted[index] || of[index].is_some() {
            continue;
        }
        let parent = resource.initiator.and_then(|initiator| of[initiator]);
        let number = asked.len();
        let frame = parent.map_or(0, |parent: usize| match asked[parent].holder {
            Some(Holder::Document) => parent,
            _ => asked[parent].frame,
        });
        let document = &page.resources[asked.get(frame).map_or(index, |frame| frame.last)];
        let mut chain = vec![index];
        let mut preflight = false;
        while let Some(next) = followed.next[chain[chain.len() - 1]] {
            let last = &page.resources[chain[chain.len() - 1]];
            if last.method == "OPTIONS" {
                // A browser asks for leave of other origins only.
                if Origin::of(&last.url) == Origin::of(&document.url) {
                    break;
                }
                preflight = true;
            }
            chain.push(next);
        }
        for &index in &chain {
            of[index] = Some(number);
        }
        let last = chain[chain.len() - 1];
        let again = !urls.insert(resource.url.as_str());
        let whole = &page.resources[last];
        // Whoever asks for leave means the request after it.
        let meant = if preflight { whole } else { resource };
        let via = if parent.is_none() {
            Via::Frame
        } else if again || preflight {
            Via::Fetch
        } else {
            via(resource, whole)
        };
        asked.push(Asked {
            first: index,
            last,
            via,
            holder: holder(via, whole),
            parent,
            // Only a resource that is asked for by itself has bytes that name others.
            at_bytes: resource
                .initiator_at_bytes
                .filter(|_| followed.next[resource.initiator.unwrap_or(0)].is_none()),
            delay_ms: (policy.processing(resource.processing_us) + 500_000) / 1_000_000,
            phase: resource.phase,
            method: meant.method.clone(),
            request_body_bytes: meant.request_body_bytes,
            preflight,
            frame,
            chain,
        });
    }
    asked
}

fn via(resource: &Resource, whole: &Resource) -> Via {
    let answers = !matches!(whole.status, 204 | 205 | 304) && !(300..400).contains(&whole.status);
    if resource.method != "GET" {
        return Via::Fetch;
    }
    match (whole.kind, resource.phase) {
        (ResourceType::Script, Phase::Async) => Via::Evaluated,
        (_, Phase::Async) => Via::Fetch,
        (ResourceType::Document, _) if answers => Via::Frame,
        (ResourceType::Stylesheet, _) => Via::Stylesheet,
        (ResourceType::Script, _) => Via::Script,
        // Beside pictures, browsers keep from pages what other origins send as something else (Opaque Response Blocking).
        (ResourceType::Image, _) if whole.mime.starts_with("image/") => Via::Image,
        (ResourceType::Font, _) => Via::Font,
        _ => Via::Fetch,
    }
}

fn holder(via: Via, whole: &Resource) -> Option<Holder> {
    let fine = (200..300).contains(&whole.status);
    match via {
        Via::Frame => Some(Holder::Document),
        Via::Stylesheet if fine => Some(Holder::Stylesheet),
        Via::Script | Via::Evaluated if fine => Some(Holder::Script),
        _ => None,
    }
}

/// By resource: where its redirect leads, or what it gives leave for.
struct Followed {
    next: Vec<Option<usize>>,
}

impl Followed {
    fn of(page: &Page, wanted: &[bool]) -> Self {
        let mut next = vec![None; page.resources.len()];
        for (index, resource) in page.resources.iter().enumerate() {
            let Some(initiator) = resource.initiator.filter(|_| wanted[index]) else { continue };
            let parent = &page.resources[initiator];
            let follows = parent.redirect_to.is_some()
                || (parent.method == "OPTIONS" && parent.url == resource.url && resource.method != "OPTIONS");
            if follows && next[initiator].is_none() {
                next[initiator] = Some(index);
            }
        }
        Self { next }
    }
}
