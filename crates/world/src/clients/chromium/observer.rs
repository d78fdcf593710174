//! Observes the requests of a load through the events of the `DevTools` protocol, and adds the browser's
//! times to the records that come from the origins.

use std::collections::{BTreeMap, BTreeSet};

use fastopen_replay::tls::SessionStart;
use serde_json::Value;

use super::pipe::{Event, PipeError};
use super::{at_ns, nanoseconds, text};
use crate::clients::{Loaded, Loading};
use crate::contract::{Cached, RequestRecord, SeenAt};

/// Maps a method and URL to the indices of matching resources, and to the number of such requests so far.
pub(super) struct Resources(BTreeMap<(String, String), (Vec<usize>, usize)>);

impl Resources {
    pub(super) fn of(loading: &Loading) -> Self {
        let mut resources: BTreeMap<_, (Vec<usize>, usize)> = BTreeMap::new();
        for (number, resource) in loading.job.page.resources.iter().enumerate() {
            let key = (resource.method.clone(), super::url_of(loading, number));
            resources.entry(key).or_default().0.push(number);
        }
        Self(resources)
    }

    /// Takes the next resource of the page that matches a `Network.Request` in method and URL. Returns its
    /// index and false or, if all were taken, the last index and true. Returns None if no resource matches.
    pub(super) fn next(&mut self, request: &Value) -> Option<(usize, bool)> {
        let key = (text(&request["method"]).to_owned(), text(&request["url"]).to_owned());
        let (numbers, observed) = self.0.get_mut(&key)?;
        *observed += 1;
        let number = numbers.get(*observed - 1).or(numbers.last())?;
        Some((*number, *observed > numbers.len()))
    }
}

/// Errors of requests to hosts outside the page. The second occurs if the browser considers itself offline.
const UNKNOWN_HOST: [&str; 2] = ["net::ERR_NAME_NOT_RESOLVED", "net::ERR_INTERNET_DISCONNECTED"];

/// The requests of one load that the browser has reported so far.
pub(super) struct LoadObserver<'a> {
    loading: &'a Loading<'a>,
    resources: Resources,
    /// For each resource of a synthetic page, true if its request is still missing; None for other pages.
    expected: Option<Vec<bool>>,
    /// The requests that have not ended, by the browser's request ID.
    in_flight: BTreeMap<String, ObservedRequest>,
    done: Vec<ObservedRequest>,
    frame: Option<String>,
    pub(super) loaded: bool,
}

/// A request as the browser reports it. Times are in nanoseconds on the monotonic clock.
#[derive(Debug, Clone, Default)]
struct ObservedRequest {
    method: String,
    url: String,
    /// Index of the resource with this URL; None if the page does not contain the URL.
    resource: Option<usize>,
    /// True if earlier requests had already taken all of the page's resources with this method and URL.
    again: bool,
    queued_ns: Option<u64>,
    connect_start_ns: Option<u64>,
    connected_ns: Option<u64>,
    tls_end_ns: Option<u64>,
    sent_ns: Option<u64>,
    first_byte_ns: Option<u64>,
    end_ns: Option<u64>,
    status: Option<u16>,
    from_cache: bool,
    error: Option<String>,
}

impl<'a> LoadObserver<'a> {
    pub(super) fn new(loading: &'a Loading<'a>) -> Self {
        let expected = loading.synthetic_page.map(|synthetic| synthetic.requested.clone());
        let (in_flight, done) = (BTreeMap::new(), Vec::new());
        let resources = Resources::of(loading);
        Self { loading, resources, expected, in_flight, done, frame: None, loaded: false }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.loaded && self.in_flight.is_empty()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_idle() && self.expected.as_ref().is_some_and(|expected| !expected.contains(&true))
    }

    /// Returns the longest emulated processing time, in nanoseconds, of resources not requested yet; or 0.
    pub(super) fn longest_timer_ns(&self) -> u64 {
        let expected = self.expected.iter().flatten().zip(&self.loading.job.page.resources);
        let timers = expected
            .filter(|(expected, _)| **expected)
            .map(|(_, resource)| self.loading.policy.processing(resource.processing_us));
        timers.max().unwrap_or(0)
    }

    pub(super) fn timeout_reason(&self) -> String {
        let url = |observed: &ObservedRequest| {
            observed.resource.map(|number| self.loading.job.page.resources[number].url.to_string())
        };
        let waits = self.in_flight.values().find_map(url).map(|url| format!(", waiting for {url}"));
        let waits = waits.unwrap_or_default();
        let what = if self.loaded { "requests went on" } else { "no load event" };
        format!("{what} within the time limit{waits}")
    }

    /// Updates the observed requests from a browser event. Fails if the event reports that the page crashed.
    pub(super) fn handle(&mut self, event: &Event) -> Result<(), PipeError> {
        let params = &event.params;
        let id = text(&params["requestId"]);
        match event.method.as_str() {
            "Network.requestWillBeSent" => self.will_be_sent(id, params),
            "Network.responseReceived" => {
                if let Some(observed) = self.in_flight.get_mut(id) {
                    observed.response_received(&params["response"]);
                }
            }
            "Network.requestServedFromCache" => {
                if let Some(observed) = self.in_flight.get_mut(id) {
                    observed.from_cache = true;
                }
            }
            "Network.loadingFinished" => self.ended(id, params, None),
            "Network.loadingFailed" => self.ended(id, params, Some(failure(params))),
            "Page.lifecycleEvent"
                if params["name"] == "load" && self.frame.as_deref() == params["frameId"].as_str() =>
            {
                self.loaded = true;
            }
            "Inspector.targetCrashed" => {
                return Err(PipeError::Refused("the page crashed in the browser".into()));
            }
            _ => {}
        }
        Ok(())
    }

    fn will_be_sent(&mut self, id: &str, params: &Value) {
        let now = at_ns(&params["timestamp"]);
        // The first request is for the page's document.
        if self.frame.is_none() {
            self.frame = params["frameId"].as_str().map(str::to_owned);
        }
        if let Some(mut redirected) = self.in_flight.remove(id) {
            redirected.response_received(&params["redirectResponse"]);
            redirected.end_ns = now;
            // This is an internal redirect of the browser, which no origin sees.
            if params["redirectResponse"]["headers"]["Non-Authoritative-Reason"] == "HSTS" {
                redirected.error = Some(UPGRADED.to_owned());
            }
            self.done.push(redirected);
        }
        let request = &params["request"];
        if !text(&request["url"]).starts_with("http") {
            return;
        }
        let (resource, again) = self.resources.next(request).unzip();
        if let (Some(number), Some(expected)) = (resource, &mut self.expected) {
            expected[number] = false;
        }
        let observed = ObservedRequest {
            method: text(&request["method"]).to_owned(),
            url: text(&request["url"]).to_owned(),
            resource,
            again: again.unwrap_or(false),
            queued_ns: now,
            ..ObservedRequest::default()
        };
        self.in_flight.insert(id.to_owned(), observed);
    }

    fn ended(&mut self, id: &str, params: &Value, error: Option<String>) {
        if let Some(mut observed) = self.in_flight.remove(id) {
            observed.end_ns = at_ns(&params["timestamp"]);
            observed.error = error;
            self.done.push(observed);
        }
    }

    /// Merges the browser's observations into `loaded`, which contains the origins' observations. Uses the
    /// browser's times, relative to `start_ns`, and adds requests that did not reach the origins.
    pub(super) fn complete(self, loaded: &mut Loaded, start_ns: u64) {
        let since = |at: Option<u64>| at.map(|at| at.saturating_sub(start_ns));
        // If the origins refuse a CORS preflight, the browser does not send the actual request.
        let responses = self.loading.synthetic_page.map(|synthetic| &synthetic.responses);
        let is_refused = |number: &usize| responses.is_some_and(|all| all[*number].refuses_preflight);
        let refused: BTreeSet<_> =
            loaded.requests.iter().map(|request| request.resource).filter(is_refused).collect();
        // The browser may cut off one of two simultaneous responses to a URL, and complete it from the other.
        let page = &self.loading.job.page;
        let ended = loaded.requests.iter().filter(|one| one.end_ns.is_some());
        let whole: Vec<_> = ended.map(|one| page.resources[one.resource].url.as_str()).collect();
        let is_whole = |number: usize| whole.contains(&page.resources[number].url.as_str());
        for observed in self.done.into_iter().chain(self.in_flight.into_values()) {
            let is_its = |request: &RequestRecord| match &request.url {
                None => Some(request.resource) == observed.resource,
                Some(url) => *url == observed.url,
            };
            let position = find_origins_record(&loaded.requests, is_its, since(observed.sent_ns));
            // A request that did not reach the origins gets a new record.
            let position = position.or_else(|| {
                let resource =
                    observed.resource.filter(|number| !observed.again && !refused.contains(number))?;
                loaded.requests.push(RequestRecord { resource, ..RequestRecord::default() });
                Some(loaded.requests.len() - 1)
            });
            let Some(request) = position.map(|position| &mut loaded.requests[position]) else {
                if observed.error.is_some_and(|error| UNKNOWN_HOST.contains(&error.as_str())) {
                    loaded.unmatched.push(format!("{} {}", observed.method, observed.url));
                }
                continue;
            };
            request.queued_ns = since(observed.queued_ns);
            let cut_off = request.end_ns.is_none() && request.status.is_some();
            if cut_off && observed.is_whole() && observed.resource.is_some_and(is_whole) {
                (request.cache, request.error) = (Some(Cached::Shared), None);
            }
            if observed.connect_start_ns.is_some() {
                request.connect_start_ns = since(observed.connect_start_ns);
                request.connected_ns = since(observed.connected_ns);
            }
            let connection = request.connection.and_then(|id| loaded.connections.get_mut(id));
            let session = connection.and_then(|connection| connection.tls.as_mut());
            // With early data, the browser reports when it could send the data, not the end of the handshake.
            let early = self.loading.job.tls.session == SessionStart::Early;
            let session = session.filter(|session| !(early && session.resumed));
            if let Some((session, secured_ns)) = session.zip(since(observed.tls_end_ns)) {
                session.secured_ns = secured_ns;
            }
            request.end_ns = since(observed.end_ns).or(request.end_ns);
            // A response from the cache has no request at the origins, and no valid `sendStart`.
            if observed.from_cache && observed.error.is_none() && request.status.is_none() {
                (request.cache, request.status) = (Some(Cached::Fresh), observed.status);
                continue;
            }
            request.sent_ns = since(observed.sent_ns).or(request.sent_ns);
            // If the browser hides a response from the page (ORB), it reports only the end. This end then
            // serves as the time of the first byte, because the origins' record has the time at the origin.
            request.first_byte_ns = since(observed.first_byte_ns).or(since(observed.end_ns));
            // The browser cancels unused requests even if the origin has sent the whole response.
            if let Some(error) = observed.error.filter(|_| request.status.is_none()) {
                request.error = Some(error);
            }
        }
        // If the load did not finish, `unfinished` already gives the cause of missing requests.
        let missing = self.expected.into_iter().flatten().enumerate().filter(|(_, missing)| *missing);
        for (resource, _) in missing.filter(|_| loaded.unfinished.is_none()) {
            if loaded.requests.iter().all(|request| request.resource != resource) {
                let error = Some("the browser did not request it".to_owned());
                loaded.requests.push(RequestRecord { resource, error, ..RequestRecord::default() });
            }
        }
        loaded.requests.sort_by_key(|request| request.resource);
        loaded.seen_at = SeenAt::Client;
    }
}

/// Returns the index of a record that belongs to a browser request (`is_its` returns true for the record) and
/// has no browser times yet. Prefers a record of a request that was sent at `sent_ns` or later.
fn find_origins_record(
    requests: &[RequestRecord],
    is_its: impl Fn(&RequestRecord) -> bool,
    sent_ns: Option<u64>,
) -> Option<usize> {
    let is_free = |one: &RequestRecord| one.queued_ns.is_none() && is_its(one);
    let came_after = |one: &RequestRecord| is_free(one) && one.sent_ns >= sent_ns;
    requests.iter().position(came_after).or_else(|| requests.iter().position(is_free))
}

impl ObservedRequest {
    fn is_whole(&self) -> bool {
        self.end_ns.is_some() && self.error.is_none() && self.status.is_some()
    }

    /// Stores the status and the times that the browser reports in a `Network.Response`.
    fn response_received(&mut self, response: &Value) {
        self.status = response["status"].as_u64().and_then(|status| status.try_into().ok());
        self.from_cache |= response["fromDiskCache"] == true;
        let timing = &response["timing"];
        let Some(base) = timing["requestTime"].as_f64() else { return };
        let at = |key: &str| {
            timing[key].as_f64().filter(|ms| *ms >= 0.0).map(|ms| nanoseconds(base + ms / 1000.0))
        };
        if response["connectionReused"] == false {
            // `connectEnd` includes the TLS handshake.
            let connected = at("sslStart").or(at("connectEnd"));
            (self.connect_start_ns, self.connected_ns) = (at("connectStart"), connected);
            self.tls_end_ns = at("sslEnd");
        }
        self.sent_ns = at("sendStart");
        self.first_byte_ns = at("receiveHeadersStart").or(at("receiveHeadersEnd"));
    }
}

/// Error of a request that the browser changed from http to https.
const UPGRADED: &str = "Chromium requests the host only over https, because its HSTS preload list has it; \
     use --engine virtual";

/// Returns the error that a `Network.loadingFailed` event reports.
fn failure(params: &Value) -> String {
    let of = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let error = of(&params["errorText"]).unwrap_or_else(|| "failed".to_owned());
    let status = &params["corsErrorStatus"];
    match of(&status["corsError"]) {
        None => error,
        Some(reason) => {
            let field = of(&status["failedParameter"]).map(|field| format!(" {field}")).unwrap_or_default();
            format!("{error} (CORS: {reason}{field})")
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/observer.rs"]
mod tests;
