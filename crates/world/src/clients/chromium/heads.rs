//! Requests with headers of the page's sizes: the browser pauses each one (`Fetch` domain of the `DevTools`
//! protocol) and sends it on with a `Cookie` that fills the rest.
//!
//! A `Cookie` makes no request need a CORS preflight, even one without credentials: its name is forbidden to
//! scripts (Fetch standard, "forbidden request-header"). HTTP/2 compresses each crumb of it by itself (RFC
//! 9113 section 8.2.3).

use std::thread;
use std::time::Duration;

use fastopen_netns::clock::monotonic_ns;
use serde_json::{Value, json};

use super::observer::Resources;
use super::pipe::Event;
use crate::clients::Loading;

/// The shortest field that can be added: a cookie of one byte.
const COOKIE_MIN: usize = "Cookie: .\r\n".len();
/// Fields whose values the page does not need, where the browser's own header section is too long.
const SPARE: [&str; 2] = ["User-Agent", "Accept"];
/// Fields that the network stack adds to those of a paused request.
const ADDED: &str = "Accept-Encoding: gzip, deflate\r\nAccept-Language: en-US,en;q=0.9\r\n";
/// The same while the cache is disabled.
const ADDED_WITHOUT_CACHE: &str = "Pragma: no-cache\r\nCache-Control: no-cache\r\n";
/// The same over TLS; the values' lengths differ by a few bytes from request to request.
const ADDED_OVER_TLS: &str =
    ", br, zstdSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n";
/// The same of one version of HTTP.
const ADDED_BY_HTTP1: &str = "Connection: keep-alive\r\n";
const ADDED_BY_HTTP2: &str = "priority: u=1, i\r\n";

/// Continues the requests of one load.
pub(super) struct RequestHeads<'a> {
    loading: &'a Loading<'a>,
    resources: Resources,
    /// Whether the browser has an HTTP cache.
    cache: bool,
    /// Before it no request goes on.
    next_ns: u64,
}

impl<'a> RequestHeads<'a> {
    pub(super) fn new(loading: &'a Loading<'a>, cache: bool) -> Self {
        Self { loading, resources: Resources::of(loading), cache, next_ns: 0 }
    }

    /// Waits until the next request may go on: without processing time those of one moment would be in the
    /// network stack all at once, and chance decide whether a request on an open connection or the SYN for a
    /// later one leaves first.
    fn wait_for_turn(&mut self) {
        let now_ns = monotonic_ns();
        let wait_ns = self.next_ns.saturating_sub(now_ns);
        if wait_ns > 0 {
            thread::sleep(Duration::from_nanos(wait_ns));
        }
        self.next_ns = now_ns + wait_ns + self.loading.engine.request_spacing().as_nanos() as u64;
    }

    /// The parameters of `Fetch.continueRequest`, if the event is of a paused request. Waits until its turn
    /// has come.
    pub(super) fn continued(&mut self, event: &Event) -> Option<Value> {
        if event.method != "Fetch.requestPaused" {
            return None;
        }
        let request = &event.params["request"];
        let mut answer = json!({"requestId": event.params["requestId"]});
        if let Some((number, false)) = self.resources.next(request) {
            let fields = fields(&request["headers"]);
            let fields: Vec<_> = self
                .filled(number, request, fields)
                .into_iter()
                .map(|(name, value)| json!({"name": name, "value": value}))
                .collect();
            answer["headers"] = fields.into();
        }
        self.wait_for_turn();
        Some(answer)
    }

    /// The fields of the request for a resource, so that its header section has the page's size on the wire
    /// of HTTP/1, and with HTTP/2 before compression.
    fn filled(&self, number: usize, request: &Value, mut fields: Vec<Field>) -> Vec<Field> {
        let resource = &self.loading.page.resources[number];
        let added = self.added_bytes(number, request);
        let missing = |fields: &[Field]| {
            (resource.request_header_bytes as usize)
                .saturating_sub(added + fields.iter().map(line_bytes).sum::<usize>())
        };
        if missing(&fields) < COOKIE_MIN {
            fields.retain(|(name, _)| !name.starts_with("sec-ch-"));
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

    /// Bytes of what a paused request does not name: the request line and the fields of the network stack.
    fn added_bytes(&self, number: usize, request: &Value) -> usize {
        let resource = &self.loading.page.resources[number];
        let url = request["url"].as_str().unwrap_or_default();
        // Of `http://host/target`, the request line has the target, and `Host` the host.
        let scheme = url.find("://").map_or(0, |at| at + 3);
        let lines = resource.method.len() + "  HTTP/1.1\r\nHost: \r\n\r\n".len() + url.len() - scheme;
        let length = match resource.request_body_bytes {
            0 if resource.method != "POST" => 0,
            bytes => format!("Content-Length: {bytes}\r\n").len(),
        };
        let cache = if self.cache { 0 } else { ADDED_WITHOUT_CACHE.len() };
        let tls = if self.loading.tls.is_some() { ADDED_OVER_TLS.len() } else { 0 };
        let multiplexed = self.loading.origins.http_of(resource.url.host()).is_multiplexed();
        let version = if multiplexed { ADDED_BY_HTTP2 } else { ADDED_BY_HTTP1 };
        lines + length + ADDED.len() + cache + tls + version.len()
    }
}

/// Name and value of a header field.
type Field = (String, String);

fn fields(headers: &Value) -> Vec<Field> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    headers.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect()
}

fn line_bytes((name, value): &Field) -> usize {
    name.len() + value.len() + ": \r\n".len()
}

/// A cookie of this length. Its crumbs have 32 bytes, 64, 128 and so on with their separator, as the lines of
/// [`fastopen_replay::header::fill`]: two requests have most of them in common, as those of a browser.
fn cookie(len: usize) -> String {
    let (mut rest, mut crumbs) = (len, String::new());
    for power in fastopen_replay::header::FILLER_POWERS.rev() {
        let crumb = 1_usize << power;
        if rest > crumb {
            let name = format!("; {power}=");
            crumbs += &name;
            crumbs += &".".repeat(crumb - name.len());
            rest -= crumb;
        }
    }
    ".".repeat(rest) + &crumbs
}

#[cfg(test)]
mod tests {
    use super::cookie;

    #[test]
    fn cookies_have_any_length_and_their_long_crumbs_in_common() {
        for len in [1, 2, 31, 32, 33, 400, 5000] {
            assert_eq!(cookie(len).len(), len);
        }
        let crumbs = |len: usize| cookie(len).split("; ").skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(crumbs(200), crumbs(205));
        assert_eq!(crumbs(200).len(), 2);
    }
}
