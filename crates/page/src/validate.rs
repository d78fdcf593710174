//! Checks the rules of the page format that types cannot express. Errors name the key that breaks a rule.

use crate::{Page, Phase, Resource};

// No real page reaches these limits. They keep sums over all resources within 64 bits.
const MAX_RESOURCES: usize = 10_000;
const MAX_BYTES: u64 = 1 << 40;
const MAX_ALTERNATIVES: usize = 100;
const MAX_US: u64 = 1_000_000_000_000;
const MAX_FRESH_S: u64 = 1_000_000_000;
const MAX_METHOD_LENGTH: usize = 32;

impl Page {
    /// Checks all rules of the page format that deserialization from JSON does not check. The error names the
    /// first broken rule, such as `resources[12].initiator: 40 is not before 12`.
    pub fn validate(&self) -> Result<(), String> {
        self.check_head()?;
        for (index, resource) in self.resources.iter().enumerate() {
            let checked = resource.check().and_then(|()| self.check_initiator(index, resource));
            checked.map_err(|problem| format!("resources[{index}].{problem}"))?;
        }
        Ok(())
    }

    fn check_head(&self) -> Result<(), String> {
        ensure(!self.name.is_empty(), "name", || "is empty".to_owned())?;
        one_line("name", &self.name)?;
        one_line("source", &self.source)?;
        self.notes.iter().try_for_each(|note| one_line("notes", note))?;
        at_most("load_event_processing_us", self.load_event_processing_us, MAX_US)?;
        let count = self.resources.len();
        ensure((1..=MAX_RESOURCES).contains(&count), "resources", || {
            format!("{count} resources, but a page has 1 to {MAX_RESOURCES}")
        })
    }

    fn check_initiator(&self, index: usize, resource: &Resource) -> Result<(), String> {
        let Some(initiator) = resource.initiator else {
            ensure(index == 0, "initiator", || "only resources[0] may have none".to_owned())?;
            ensure(resource.initiator_at_bytes.is_none(), "initiator_at_bytes", || {
                "the root document has no initiator".to_owned()
            })?;
            ensure(!resource.pushed, "pushed", || "the root document has no initiator".to_owned())?;
            return ensure(resource.phase == Phase::Load, "phase", || {
                "the root document is in phase load".to_owned()
            });
        };
        ensure(index > 0, "initiator", || "the root document has none (null)".to_owned())?;
        ensure(initiator < index, "initiator", || format!("{initiator} is not before {index}"))?;
        let parent = &self.resources[initiator];
        if let Some(at_bytes) = resource.initiator_at_bytes {
            ensure(at_bytes <= parent.body_bytes, "initiator_at_bytes", || {
                format!("{at_bytes} is more than its initiator's {} body bytes", parent.body_bytes)
            })?;
        }
        ensure(parent.phase != Phase::After || resource.phase == Phase::After, "phase", || {
            format!("{}, but its initiator is in phase after", resource.phase)
        })
    }
}

impl Resource {
    fn check(&self) -> Result<(), String> {
        ensure(is_method(&self.method), "method", || {
            format!("{:?} is not 1 to {MAX_METHOD_LENGTH} capital letters", self.method)
        })?;
        ensure((200..=599).contains(&self.status), "status", || {
            format!("{} is not within 200 and 599", self.status)
        })?;
        one_line("mime", &self.mime)?;
        at_most("request_header_bytes", self.request_header_bytes, MAX_BYTES)?;
        at_most("request_body_bytes", self.request_body_bytes, MAX_BYTES)?;
        at_most("response_header_bytes", self.response_header_bytes, MAX_BYTES)?;
        at_most("body_bytes", self.body_bytes, MAX_BYTES)?;
        at_most("body_offset", self.body_offset.unwrap_or_default(), MAX_BYTES)?;
        at_most("head_offset", self.head_offset.unwrap_or_default(), MAX_BYTES)?;
        at_most("server_think_us", self.server_think_us, MAX_US)?;
        at_most("server_send_us", self.server_send_us, MAX_US)?;
        at_most("processing_us", self.processing_us, MAX_US)?;
        at_most("fresh_s", self.fresh_s.unwrap_or_default(), MAX_FRESH_S)?;
        ensure(self.alternatives.len() <= MAX_ALTERNATIVES, "alternatives", || {
            format!("{} URLs are more than {MAX_ALTERNATIVES}", self.alternatives.len())
        })?;
        ensure(self.body_bytes == 0 || !self.must_have_no_body(), "body_bytes", || {
            format!("a {} answered with {} has no body", self.method, self.status)
        })?;
        let Some(redirect_to) = &self.redirect_to else { return Ok(()) };
        ensure((300..400).contains(&self.status), "redirect_to", || {
            format!("status {} does not redirect", self.status)
        })?;
        one_line("redirect_to", redirect_to)
    }

    /// Returns true for responses to HEAD requests and for statuses 204 and 304 (RFC 9110 section 6.4.1).
    fn must_have_no_body(&self) -> bool {
        self.method == "HEAD" || matches!(self.status, 204 | 304)
    }
}

fn ensure(holds: bool, key: &str, problem: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{key}: {}", problem())) }
}

fn at_most(key: &str, value: u64, most: u64) -> Result<(), String> {
    ensure(value <= most, key, || format!("{value} is more than {most}"))
}

fn one_line(key: &str, text: &str) -> Result<(), String> {
    ensure(!text.chars().any(|c| c.is_ascii_control()), key, || format!("{text:?} has control characters"))
}

fn is_method(text: &str) -> bool {
    text.len() <= MAX_METHOD_LENGTH
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_uppercase() || matches!(c, '-' | '_'))
}
