//! Parses and formats the priority that a client requests for a response (RFC 9218).

use hyper::header::HeaderMap;

/// The name of the request header field with the priority (RFC 9218 section 5).
pub const PRIORITY_HEADER: &str = "priority";

/// The priority parameters of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// Urgency of the response, from 0, the most urgent, to 7.
    pub urgency: u8,
    /// True if the client can process the response part by part. Parts of such responses are sent in turn.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Parses the `Priority` header field. Missing and invalid parameters get defaults (RFC 9218 section 4).
    pub fn of(headers: &HeaderMap) -> Self {
        let mut priority = Self::default();
        let text = headers.get(PRIORITY_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
        for parameter in text.split(',').map(str::trim) {
            match parameter.split_once('=').unwrap_or((parameter, "?1")) {
                ("u", value) => {
                    if let Some(urgency) = value.parse().ok().filter(|urgency| *urgency <= 7) {
                        priority.urgency = urgency;
                    }
                }
                ("i", value) => priority.incremental = value == "?1",
                _ => {}
            }
        }
        priority
    }

    /// Formats the parameters as a value of the `Priority` header field.
    pub fn header(self) -> String {
        format!("u={}{}", self.urgency, if self.incremental { ", i" } else { "" })
    }
}
