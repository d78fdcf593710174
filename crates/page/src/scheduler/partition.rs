//! Decides which requests may share connections. A browser uses separate connections for requests without
//! credentials, and for requests of frames from other sites.

use crate::{Origin, Page, Resource, ResourceType};

/// A group of requests that may share connections. Different partitions never share a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Partition {
    /// True for a request without credentials: a font whose origin differs from its document's (Fetch
    /// standard, "network partition keys" and CSS Fonts section 4.9).
    anonymous: bool,
    /// True for the document of a frame whose site differs from the page's, and for requests in such a frame
    /// (Chromium's `NetworkAnonymizationKey`).
    cross_site_frame: bool,
}

/// Returns, for each resource, the index of the document to whose frame the resource belongs. Each document
/// belongs to its own frame. `top` is the index of the page's main document, after redirects.
pub(crate) fn frames(page: &Page, top: usize) -> Vec<usize> {
    let mut frames: Vec<usize> = Vec::with_capacity(page.resources.len());
    for (index, resource) in page.resources.iter().enumerate() {
        frames.push(match resource.initiator {
            Some(initiator) if index > top && resource.kind != ResourceType::Document => frames[initiator],
            _ => index,
        });
    }
    frames
}

/// Returns the group of each request: only requests of one group may share connections. `top` is the index of
/// the page's main document, and `frames` is the result of [`frames`].
pub(crate) fn partitions(page: &Page, top: usize, frames: &[usize]) -> Vec<Partition> {
    let top_site = site(page.resources[top].url.host());
    let of = |(index, (resource, &document)): (usize, (&Resource, &usize))| {
        let url = &page.resources[document].url;
        Partition {
            anonymous: resource.kind == ResourceType::Font && Origin::of(&resource.url) != Origin::of(url),
            cross_site_frame: index > top && document > top && site(url.host()) != top_site,
        }
    };
    page.resources.iter().zip(frames).enumerate().map(of).collect()
}

/// Returns the site of a host: the last two labels of a name, or a whole address. All hosts below a public
/// suffix of two labels, such as `co.uk`, count as one site.
pub fn site(host: &str) -> &str {
    let mut dots = host.rmatch_indices('.').map(|(at, _)| at + 1);
    let start =
        if host.ends_with(|end: char| end.is_ascii_digit() || end == ']') { None } else { dots.nth(1) };
    &host[start.unwrap_or(0)..]
}

#[cfg(test)]
#[path = "../../tests/unit/partition.rs"]
mod tests;
