//! Defines a page as a list of requests and responses to load (`docs/dev/contract.md`, "Page").

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{PageUrl, Resource};

/// A web page as a list of resources. Each resource comes after its initiator, which causes the request.
///
/// Reading a page from JSON checks keys, types and URLs; [`Page::validate`] checks the other rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md describes each key")]
pub struct Page {
    pub format: Format,
    pub name: String,
    pub url: PageUrl,
    pub source: String,
    pub initiators: Initiators,
    #[serde(default)]
    pub notes: Vec<String>,
    #[serde(default)]
    pub load_event_processing_us: u64,
    pub resources: Vec<Resource>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<Explanation>,
}

/// Another estimate of the values that a recording does not contain: server think times, and the byte offsets
/// of references. It fits the recorded times of the page load about as well as [`Page::resources`] does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/dev/contract.md describes each key")]
pub struct Explanation {
    pub server_think_us: Vec<u64>,
    pub initiator_at_bytes: Vec<Option<u64>>,
}

/// The version of the page format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// Version 1, the only version so far.
    #[serde(rename = "fastopen-page/1")]
    One,
}

/// The source of the data on initiators: for each resource, the resource that made the browser request it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initiators {
    /// The browser recorded all initiators.
    Recorded,
    /// The importer inferred all initiators from times and types.
    Inferred,
    /// Some initiators were recorded, and others inferred.
    Mixed,
    /// The author of the page specified all initiators.
    Declared,
}

/// A server: a host and a port. Requests to different servers never share a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The host name or IP address, as written in the URL.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl Origin {
    /// Returns the server that `url` names: its host and port.
    pub fn of(url: &PageUrl) -> Self {
        Self { host: url.host().to_owned(), port: url.port() }
    }
}

impl Page {
    /// Returns the servers of the page without duplicates, in the order of the resources.
    pub fn origins(&self) -> Vec<Origin> {
        self.number_origins().0
    }

    /// Returns the servers of the page, and for each resource the index of its server in this list.
    pub(crate) fn number_origins(&self) -> (Vec<Origin>, Vec<usize>) {
        let mut origins = Vec::new();
        let mut numbers = BTreeMap::new();
        let of_resources = self
            .resources
            .iter()
            .map(|resource| {
                *numbers.entry((resource.url.host(), resource.url.port())).or_insert_with(|| {
                    origins.push(Origin::of(&resource.url));
                    origins.len() - 1
                })
            })
            .collect();
        (origins, of_resources)
    }
}
