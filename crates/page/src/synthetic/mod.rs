//! Generates response bodies of the page's sizes that make a browser request exactly the page's resources.
//!
//! A page names the initiator of each resource, the byte of the initiator's body that reveals the resource,
//! and the processing time before the request. This module writes HTML, CSS and scripts with which a browser
//! makes the same requests. See docs/dev/bodies.md.

mod body;
mod image;
mod markup;
mod placement;
mod reference;

use std::collections::BTreeSet;

pub use body::{Piece, SyntheticBody};

use body::{C, HTML};
use placement::Placement;
use reference::{Reference, references};
use serde::{Deserialize, Serialize};

use crate::{Nanos, Page, Policy, Resource, ResourceType, UrlRewrite};

/// The way in which a browser gets `runtime.js`, a script that starts requests that HTML cannot start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// Documents that need `runtime.js` contain it, if there is room. In a document without `runtime.js`,
    /// each script that starts requests contains it, if there is room.
    InBodies,
    /// The browser's driver runs [`SyntheticPage::script`] in each document before the document's scripts.
    Injected,
}

fn runtime_script() -> String {
    without_comments(include_str!("runtime.js"))
}

fn without_comments(script: &str) -> String {
    script.lines().filter(|line| !line.starts_with("//")).collect()
}

/// Generated responses with the sizes of a page's responses, which make a browser send the page's requests.
#[derive(Debug, Clone)]
pub struct SyntheticPage {
    /// The response for each resource.
    pub responses: Vec<SyntheticResponse>,
    /// For each resource, true if a browser requests it.
    pub requested: Vec<bool>,
    /// The resources that a browser requests too early, too late or never.
    pub gaps: FidelityGaps,
    /// JavaScript arrays of requests that do not fit into a body. The body contains only the arrays' indices.
    lists: Vec<String>,
}

/// The response for one resource of a synthetic page.
#[derive(Debug, Clone)]
pub struct SyntheticResponse {
    /// A body of exactly the resource's `body_bytes`.
    pub body: SyntheticBody,
    /// The resource's Content-Type in the page, if a browser accepts the generated body with this type.
    /// Otherwise the usual Content-Type of the resource's type, such as `text/css`.
    pub mime: String,
    /// Target of a redirect; `None` without a redirect, or if the page has no resource for the target.
    pub location: Option<String>,
    /// True if the origin refuses this CORS preflight, because no request of the page follows the preflight.
    pub refuses_preflight: bool,
    /// Time by which the server delays a redirect or a CORS preflight response; 0 for other responses. It is
    /// the page's processing time before the next request, which a browser would otherwise send at once.
    pub processing_ns: Nanos,
}

/// The indices of resources that a browser cannot load as the page lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md describes each key")]
pub struct FidelityGaps {
    pub left_out: Vec<usize>,
    pub relocated: Vec<usize>,
    pub early: Vec<usize>,
}

impl FidelityGaps {
    /// Merges two reports: each list, such as `early`, becomes the union of both reports' lists of that name.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        let either =
            |one: Vec<usize>, other| BTreeSet::from_iter([one, other].concat()).into_iter().collect();
        Self {
            left_out: either(self.left_out, other.left_out),
            relocated: either(self.relocated, other.relocated),
            early: either(self.early, other.early),
        }
    }
}

impl SyntheticPage {
    /// Generates the responses with which a browser loads `page`. `policy` selects the resources to load, and
    /// scales processing times. `rewrite` changes the page's URLs.
    pub fn of(page: &Page, policy: &Policy, rewrite: UrlRewrite, runtime: Runtime) -> Self {
        let references = references(page, policy);
        let Placement { mut bodies, gaps, lists } = Placement::of(page, &references, rewrite, runtime);
        let respond = |(number, resource): (usize, &Resource)| SyntheticResponse {
            body: bodies.remove(&number).unwrap_or_else(|| empty(resource)),
            mime: mime(resource.kind, &resource.mime),
            location: None,
            refuses_preflight: resource.method == "OPTIONS",
            processing_ns: 0,
        };
        let mut responses: Vec<_> = page.resources.iter().enumerate().map(respond).collect();
        let mut requested = vec![false; page.resources.len()];
        for Reference { chain, .. } in &references {
            for pair in chain.windows(2) {
                if page.resources[pair[0]].redirect_to.is_some() {
                    responses[pair[0]].location = Some(page.resources[pair[1]].url.rewritten(rewrite));
                }
                responses[pair[0]].refuses_preflight = false;
                responses[pair[0]].processing_ns = policy.processing(page.resources[pair[1]].processing_us);
            }
            for &resource in chain {
                requested[resource] = true;
            }
        }
        for &resource in &gaps.left_out {
            requested[resource] = false;
        }
        debug_assert!(
            responses.iter().zip(&page.resources).all(|(ours, page)| ours.body.len() == page.body_bytes)
        );
        Self { responses, requested, gaps, lists }
    }

    /// Returns the script that a browser must run in each document ([`Runtime::Injected`]). This script
    /// sends requests that HTML elements cannot send, and requests that do not fit into a response body.
    pub fn script(&self) -> String {
        let lists = format!(";var R=[{}];", self.lists.join(","));
        [runtime_script(), lists, without_comments(include_str!("injected.js"))].concat()
    }
}

fn empty(resource: &Resource) -> SyntheticBody {
    let (mut body, len) = (SyntheticBody::default(), resource.body_bytes);
    match resource.kind {
        ResourceType::Document => body.comment(len, HTML),
        ResourceType::Stylesheet | ResourceType::Script => body.comment(len, C),
        ResourceType::Image => return image::image(&resource.mime, len),
        _ => body.fill(len),
    }
    body
}

/// Returns the Content-Type `mime` if a browser treats an ASCII body of this type as a resource of `kind`.
/// Otherwise returns the type of HTML, CSS or JavaScript, or an empty string for other kinds.
fn mime(kind: ResourceType, mime: &str) -> String {
    let essence = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let wide = mime.to_ascii_lowercase().contains("utf-16");
    let (fits, own) = match kind {
        ResourceType::Document => (essence == "text/html", "text/html"),
        ResourceType::Stylesheet => (essence == "text/css", "text/css"),
        ResourceType::Script => (essence.contains("javascript"), "text/javascript"),
        _ => (true, ""),
    };
    if fits && !wide { mime.to_owned() } else { own.to_owned() }
}
