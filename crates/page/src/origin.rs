//! Finds the servers of a page. A connection is never used for two servers.

use crate::{Page, PageUrl};

/// A server: a host and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The host name or address, as written in the URL.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl Origin {
    /// Returns the server of `url`.
    pub fn of(url: &PageUrl) -> Self {
        Self { host: url.host().to_owned(), port: url.port() }
    }
}

impl Page {
    /// Returns the servers of the page without duplicates, in the order of the resources.
    pub fn origins(&self) -> Vec<Origin> {
        self.number_origins().0
    }

    /// Returns the servers, and for each resource the index of its server.
    pub(crate) fn number_origins(&self) -> (Vec<Origin>, Vec<usize>) {
        let mut origins = Vec::new();
        let mut numbers = std::collections::BTreeMap::new();
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
