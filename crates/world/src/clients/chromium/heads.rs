//! Pads the header sections of the browser's requests to the sizes that the page specifies. The browser
//! pauses each request (`Fetch` domain of `DevTools`), and continues it with an added `Cookie` field.
//!
//! A `Cookie` field never causes a CORS preflight, even in requests without credentials, because scripts
//! cannot set it (Fetch standard, "forbidden request-header"). HTTP/2 compresses each cookie in the field
//! separately (RFC 9113 section 8.2.3).

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use fastopen_netns::clock::monotonic_ns;
use fastopen_page::site;
use serde_json::{Value, json};

use super::observer::Resources;
use super::pipe::Event;
use super::{is_local, text, uses_cache};
use crate::clients::Loading;
use crate::engine;

const COOKIE_MIN: usize = "Cookie: .\r\n".len();
/// Fields whose values are shortened if the browser's header section is longer than the page specifies.
const SPARE: [&str; 2] = ["User-Agent", "Accept"];
/// Header fields that Chromium's network stack adds to a request after `Fetch.continueRequest`.
const ADDED: &str = "Accept-Encoding: gzip, deflate\r\nAccept-Language: en-US,en;q=0.9\r\n";
const ADDED_WITHOUT_CACHE: &str = "Pragma: no-cache\r\nCache-Control: no-cache\r\n";
/// Encodings that the network stack adds to `Accept-Encoding` for potentially trustworthy origins.
const ADDED_TO_TRUSTWORTHY: &str = ", br, zstd";
const ADDED_BY_HTTP1: &str = "Connection: keep-alive\r\n";
const ADDED_BY_HTTP2: &str = "priority: u=1, i\r\n";

/// Pads the header sections of requests that the browser has paused (`Fetch.requestPaused`) in one page load.
pub(super) struct HeadPadder<'a> {
    loading: &'a Loading<'a>,
    resources: Resources,
    /// The earliest time, on the monotonic clock, at which the browser may send the next paused request.
    next_ns: u64,
    /// URL of the page's document.
    page: String,
    /// URLs of the documents in frames, by frame ID.
    frames: HashMap<String, String>,
    /// Largest size so far, in bytes, of the client hint fields that the browser added to a request.
    client_hints: usize,
}

impl<'a> HeadPadder<'a> {
    pub(super) fn new(loading: &'a Loading<'a>) -> Self {
        let (resources, page, frames) = (Resources::of(loading), String::new(), HashMap::new());
        Self { loading, resources, next_ns: 0, page, frames, client_hints: 0 }
    }

    /// Sleeps until the next paused request may continue. Requests continue one at a time. Otherwise, it
    /// would be random whether a request on an open connection or the SYN of a new connection is sent first.
    fn wait_for_turn(&mut self) {
        let now_ns = monotonic_ns();
        let wait_ns = self.next_ns.saturating_sub(now_ns);
        if wait_ns > 0 {
            thread::sleep(Duration::from_nanos(wait_ns));
        }
        self.next_ns = now_ns + wait_ns + engine::request_spacing_ns(self.loading.engine);
    }

    /// Returns the parameters of `Fetch.continueRequest` for a paused request; None for other events.
    pub(super) fn continued(&mut self, event: &Event) -> Option<Value> {
        if event.method != "Fetch.requestPaused" {
            return None;
        }
        let request = &event.params["request"];
        let mut answer = json!({"requestId": event.params["requestId"]});
        if let Some((number, false)) = self.resources.next(request) {
            let fields = request["headers"].as_object().into_iter().flatten();
            let fields = fields.map(|(name, value)| (name.clone(), text(value).to_owned())).collect();
            let filled = self.filled(number, &event.params, fields).into_iter();
            answer["headers"] = filled.map(|(name, value)| json!({"name": name, "value": value})).collect();
        }
        self.wait_for_turn();
        Some(answer)
    }

    /// Returns a paused request's header fields, padded to the size listed in the page for resource `number`.
    fn filled(&mut self, number: usize, paused: &Value, mut fields: Vec<Field>) -> Vec<Field> {
        let resource = &self.loading.job.page.resources[number];
        let added = self.added_bytes(number, paused, &fields);
        let missing = |fields: &[Field]| {
            (resource.request_header_bytes as usize)
                .saturating_sub(added + fields.iter().map(line_bytes).sum::<usize>())
        };
        if missing(&fields) < COOKIE_MIN {
            fields.retain(|(name, _)| !is_client_hint(name));
            for (_, value) in fields.iter_mut().filter(|(name, _)| SPARE.contains(&name.as_str())) {
                ".".clone_into(value);
            }
        }
        let missing = missing(&fields);
        if missing >= COOKIE_MIN {
            fields.push(("Cookie".into(), cookie(missing + 1 - COOKIE_MIN)));
        } else if let Some((_, value)) = fields.iter_mut().find(|(name, _)| name == SPARE[0]) {
            value.push_str(&".".repeat(missing));
        }
        fields
    }

    /// Returns the size in bytes of the request line and of the fields added after `Fetch.continueRequest`.
    fn added_bytes(&mut self, number: usize, paused: &Value, fields: &[Field]) -> usize {
        let resource = &self.loading.job.page.resources[number];
        let url = text(&paused["request"]["url"]);
        // For `http://host/target`, the request line contains the target, and the `Host` field the host.
        let scheme = url.find("://").map_or(0, |at| at + 3);
        let lines = resource.method.len() + "  HTTP/1.1\r\nHost: \r\n\r\n".len() + url.len() - scheme;
        let length = match resource.request_body_bytes {
            0 if resource.method != "POST" => 0,
            bytes => format!("Content-Length: {bytes}\r\n").len(),
        };
        let cache = if uses_cache(self.loading.job) { 0 } else { ADDED_WITHOUT_CACHE.len() };
        let metadata = self.metadata(paused).len();
        let hints: usize = fields.iter().filter(|(name, _)| is_client_hint(name)).map(line_bytes).sum();
        let trusted = if is_trustworthy(url) {
            // After a redirect, `fields` has no client hints, but the network stack adds them again.
            let hints_again = if hints == 0 { self.client_hints } else { 0 };
            ADDED_TO_TRUSTWORTHY.len() + metadata + hints_again
        } else {
            0
        };
        self.client_hints = self.client_hints.max(hints);
        let multiplexed = self.loading.http_at(&resource.url).is_multiplexed();
        let version = if multiplexed { ADDED_BY_HTTP2 } else { ADDED_BY_HTTP1 };
        lines + length + ADDED.len() + cache + trusted + version.len()
    }

    /// Returns Fetch Metadata fields (W3C) that are as long as those that the browser adds to this request.
    fn metadata(&mut self, paused: &Value) -> String {
        let (request, kind) = (&paused["request"], text(&paused["resourceType"]));
        let url = text(&request["url"]);
        let frame = self.frames.entry(text(&paused["frameId"]).to_owned()).or_default();
        let asker = match kind {
            "Document" => text(&request["headers"]["Referer"]).to_owned(),
            _ => frame.clone(),
        };
        // True for the page's own document, also after redirects.
        let by_user = kind == "Document" && asker.is_empty();
        if kind == "Document" {
            url.clone_into(frame);
        }
        if by_user {
            url.clone_into(&mut self.page);
        }
        let (mode, destination) = match kind {
            "Document" if by_user => ("navigate", "document"),
            "Document" => ("navigate", "iframe"),
            "Stylesheet" => ("no-cors", "style"),
            "Script" => ("no-cors", "script"),
            "Font" => ("cors", "font"),
            "Image" => ("no-cors", "image"),
            "Media" => ("no-cors", "video"),
            "XHR" | "Fetch" => ("cors", "empty"),
            _ => ("no-cors", "empty"),
        };
        let site = if by_user { "none" } else { site_of(url, &asker) };
        let user = if by_user { "Sec-Fetch-User: ?1\r\n" } else { "" };
        // `Sec-Fetch-Storage-Access` is sent if URL or asker is cross-site, with credentials (not for fonts).
        let third_party = [url, &asker].iter().any(|one| site_of(one, &self.page) == "cross-site");
        let sends_storage_access = third_party && !by_user && kind != "Font";
        let storage = if sends_storage_access { "Sec-Fetch-Storage-Access: none\r\n" } else { "" };
        format!(
            "Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: {mode}\r\n{user}Sec-Fetch-Dest: {destination}\r\n\
             {storage}"
        )
    }
}

fn is_client_hint(name: &str) -> bool {
    name.starts_with("sec-ch-")
}

/// Returns `Sec-Fetch-Site` for a request to `url` by the document at the URL `asker`. Takes the last two
/// labels of a host name as its site, so the result for `a.co.uk` and `b.co.uk` is wrong (`same-site`).
fn site_of(url: &str, asker: &str) -> &'static str {
    let origin = |url: &str| url.split('/').take(3).collect::<Vec<_>>().join("/");
    let same_scheme = url.split(':').next() == asker.split(':').next();
    let same_site = site(host_of(url)) == site(host_of(asker));
    match (origin(url) == origin(asker), same_scheme && same_site) {
        (true, _) => "same-origin",
        (false, true) => "same-site",
        (false, false) => "cross-site",
    }
}

/// Returns the host in an absolute URL, which must not contain a user name (`user@host`).
fn host_of(url: &str) -> &str {
    let authority =
        url.split("//").nth(1).unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
    match authority.split_once(']') {
        Some((address, _)) => &authority[..=address.len()],
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Returns true if a URL is potentially trustworthy (W3C Secure Contexts).
fn is_trustworthy(url: &str) -> bool {
    let host = host_of(url);
    let loopback = host == "[::1]" || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    url.starts_with("https:") || is_local(host) || loopback
}

/// Name and value of a header field.
type Field = (String, String);

fn line_bytes((name, value): &Field) -> usize {
    name.len() + value.len() + ": \r\n".len()
}

/// Returns a cookie of `len` bytes. The lengths of its parts are powers of two, so that cookies of similar
/// length have most parts in common, and header compression (HPACK) can reuse them.
fn cookie(len: usize) -> String {
    let (mut rest, mut crumbs) = (len, String::new());
    for exponent in fastopen_replay::header::FILLER_EXPONENTS.rev() {
        let crumb = 1_usize << exponent;
        if rest > crumb {
            let name = format!("; {exponent}=");
            crumbs += &name;
            crumbs += &".".repeat(crumb - name.len());
            rest -= crumb;
        }
    }
    ".".repeat(rest) + &crumbs
}

#[cfg(test)]
#[path = "../../../tests/unit/heads.rs"]
mod tests;
