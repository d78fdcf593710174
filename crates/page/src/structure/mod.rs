//! Bodies that make a browser ask for exactly the page's resources, each of exactly its size.
//!
//! A page says what made the client ask for each resource, after how many bytes, and how long it thought. Here HTML, CSS and
//! scripts are written that have a browser do so. Which resource holds a reference is the page's own initiator where its body
//! can; else the reference of that one says what is to be asked for when it has ended. See docs/clients.md.

mod asking;
mod body;
mod image;
mod placing;
mod reference;

use std::collections::BTreeSet;

pub use body::{Body, Piece};

use asking::Asked;
use body::{C, HTML};
use placing::Placed;

use crate::{Page, Policy, ResourceType, Spelling};

/// How a page's resources are served so that a browser loads the page.
#[derive(Debug, Clone)]
pub struct Structure {
    /// By resource.
    pub resources: Vec<Structural>,
    /// By resource: whether a browser asks for it.
    pub asked: Vec<bool>,
    /// What does not come out as the page has it.
    pub shortcomings: Shortcomings,
}

/// How one resource is served.
#[derive(Debug, Clone)]
pub struct Structural {
    /// Of exactly the page's `body_bytes`.
    pub body: Body,
    /// The Content-Type: the page's, or where no browser would take the body for what it is, what it is.
    pub mime: String,
    /// Where a redirect leads; a redirect without is an answer like any other.
    pub location: Option<String>,
    /// Whether a question for leave (CORS preflight) is refused: the page has no request after it.
    pub refuses: bool,
}

/// What does not come out as the page has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shortcomings {
    /// Resources that nothing asks for: nowhere was room for the reference.
    pub left_out: Vec<usize>,
    /// Resources whose reference stands further up, since its initiator had no room: they are asked for when that has ended.
    pub moved: Vec<usize>,
    /// Resources that are asked for without the page's processing time: no room to say so.
    pub hurried: Vec<usize>,
}

impl Shortcomings {
    /// What is in either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let either = |one: Vec<usize>, other: Vec<usize>| -> Vec<usize> {
            one.into_iter().chain(other).collect::<BTreeSet<_>>().into_iter().collect()
        };
        Self {
            left_out: either(self.left_out, other.left_out),
            moved: either(self.moved, other.moved),
            hurried: either(self.hurried, other.hurried),
        }
    }
}

/// The scripts that references need, as documents carry them.
pub(crate) fn runtime() -> String {
    include_str!("runtime.js").lines().filter(|line| !line.starts_with("//")).collect()
}

impl Structure {
    /// What `page` is to be served as for a browser that loads it as `policy` says.
    ///
    /// References are spelled as `spelling` says. Of the policy, the phases and the processing times count.
    pub fn of(page: &Page, policy: &Policy, spelling: Spelling) -> Self {
        let asked = asking::asked(page, policy);
        let placed = Placed::of(page, &asked, spelling);
        let mut resources: Vec<_> = page
            .resources
            .iter()
            .map(|resource| Structural {
                body: empty(resource.kind, &resource.mime, resource.body_bytes),
                mime: mime(resource.kind, &resource.mime),
                location: None,
                refuses: resource.method == "OPTIONS",
            })
            .collect();
        for Asked { chain, .. } in &asked {
            for pair in chain.windows(2) {
                if page.resources[pair[0]].redirect_to.is_some() {
                    resources[pair[0]].location = Some(page.resources[pair[1]].url.spelled(spelling));
                }
                resources[pair[0]].refuses = false;
            }
        }
        for (resource, body) in placed.bodies {
            resources[resource].body = body;
        }
        let mut will_be_asked = vec![false; page.resources.len()];
        for &resource in asked.iter().flat_map(|one| &one.chain) {
            will_be_asked[resource] = true;
        }
        for &resource in &placed.shortcomings.left_out {
            will_be_asked[resource] = false;
        }
        debug_assert!(
            resources.iter().zip(&page.resources).all(|(ours, page)| ours.body.len() == page.body_bytes)
        );
        Self { resources, asked: will_be_asked, shortcomings: placed.shortcomings }
    }
}

/// A body that refers to nothing.
fn empty(kind: ResourceType, mime: &str, len: u64) -> Body {
    let mut body = Body::default();
    match kind {
        ResourceType::Document => body.comment(len, HTML),
        ResourceType::Stylesheet | ResourceType::Script => body.comment(len, C),
        ResourceType::Image => return image::image(mime, len),
        _ => body.fill(len),
    }
    body
}

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
