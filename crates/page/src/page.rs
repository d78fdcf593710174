//! A page as the job contract has it (`docs/contract.md`, "Page").

use serde::{Deserialize, Serialize};

use crate::{PageUrl, Resource};

/// The resources of one page, in an order in which each stands after what made the client ask for it.
///
/// Reading one from JSON checks keys, types and URLs; [`Page::validate`] checks the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Which version of the format this is.
    pub format: Format,
    /// What tables call it.
    pub name: String,
    /// The URL that a person would type.
    pub url: PageUrl,
    /// Where the facts come from.
    pub source: String,
    /// How the initiators are known.
    pub initiators: Initiators,
    /// What a reader should know: what was missing, guessed, left out.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Client processing between the last byte of the last `load` resource and the load event, in microseconds.
    #[serde(default)]
    pub load_event_processing_us: u64,
    /// What is loaded; the first is the root document.
    pub resources: Vec<Resource>,
}

/// The version of the page format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// The only version so far.
    #[serde(rename = "fastopen-page/1")]
    One,
}

/// How it is known what made the client ask for each resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initiators {
    /// The browser recorded them.
    Recorded,
    /// The importer concluded them from times and types.
    Inferred,
    /// Some of each.
    Mixed,
    /// The author of the page wrote them down.
    Declared,
}
