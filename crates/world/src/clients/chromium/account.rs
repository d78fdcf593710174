//! What the browser tells of its requests while it loads a page.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pipe::{Event, Silence};
use super::{at_ns, nanoseconds};
use crate::clients::{Loaded, Loading};
use crate::contract::{Cached, RequestRecord, SeenAt};

/// The account of a load.
pub(super) struct Account<'a> {
    loading: &'a Loading<'a>,
    /// By method and URL: the resources, and how many of them were asked for.
    resources: BTreeMap<(String, String), (Vec<usize>, usize)>,
    /// Resources that are to be asked for, and were not yet; none where that is not known.
    awaited: Option<Vec<bool>>,
    /// By the browser's number of the request: what it is doing at the moment.
    current: BTreeMap<String, Asked>,
    done: Vec<Asked>,
    frame: Option<String>,
    loaded: bool,
}

/// A request as the browser tells of it; times of the monotonic clock.
#[derive(Debug, Clone, Default)]
struct Asked {
    resource: Option<usize>,
    queued_ns: Option<u64>,
    connect_start_ns: Option<u64>,
    connected_ns: Option<u64>,
    secured_ns: Option<u64>,
    sent_ns: Option<u64>,
    first_byte_ns: Option<u64>,
    end_ns: Option<u64>,
    /// Of the answer, as the page is told.
    status: Option<u16>,
    /// Whether the browser had the answer, and did not ask.
    kept: bool,
    error: Option<String>,
}

impl<'a> Account<'a> {
    pub(super) fn new(loading: &'a Loading<'a>) -> Self {
        let mut resources: BTreeMap<_, (Vec<usize>, usize)> = BTreeMap::new();
        for (number, resource) in loading.page.resources.iter().enumerate() {
            let key = (resource.method.clone(), super::url_of(loading, number));
            resources.entry(key).or_default().0.push(number);
        }
        let awaited = loading.synthetic_page.map(|synthetic| synthetic.requested.clone());
        let (current, done) = (BTreeMap::new(), Vec::new());
        Self { loading, resources, awaited, current, done, frame: None, loaded: false }
    }

    /// Whether the load event is over and nothing is under way: what has not begun by now may never.
    pub(super) fn is_idle(&self) -> bool {
        self.loaded && self.current.is_empty()
    }

    /// Whether all is over that was to come.
    pub(super) fn is_complete(&self) -> bool {
        self.is_idle() && self.awaited.as_ref().is_some_and(|awaited| !awaited.contains(&true))
    }

    /// The longest time, in nanoseconds, that the page may take before it asks for something that is still to come.
    pub(super) fn longest_timer_ns(&self) -> u64 {
        let awaited = self.awaited.iter().flatten().zip(&self.loading.page.resources);
        let timers = awaited
            .filter(|(awaited, _)| **awaited)
            .map(|(_, resource)| self.loading.policy.processing(resource.processing_us));
        timers.max().unwrap_or(0)
    }

    pub(super) fn what_is_missing(&self) -> String {
        let url =
            |asked: &Asked| asked.resource.map(|number| self.loading.page.resources[number].url.to_string());
        let waits = self
            .current
            .values()
            .find_map(url)
            .map_or_else(String::new, |url| format!(", waiting for {url}"));
        let what = if self.loaded { "requests went on" } else { "no load event" };
        format!("{what} in the time given{waits}")
    }

    /// Takes note of an event.
    ///
    /// # Errors
    /// Where it means that the page will not load.
    pub(super) fn take(&mut self, event: &Event) -> Result<(), Silence> {
        let params = &event.params;
        let id = || params["requestId"].as_str().unwrap_or_default().to_owned();
        match event.method.as_str() {
            "Network.requestWillBeSent" => self.will_be_sent(id(), params),
            "Network.responseReceived" => {
                if let Some(asked) = self.current.get_mut(&id()) {
                    asked.answered(&params["response"]);
                }
            }
            "Network.requestServedFromCache" => {
                if let Some(asked) = self.current.get_mut(&id()) {
                    asked.kept = true;
                }
            }
            "Network.loadingFinished" => self.ended(&id(), at_ns(&params["timestamp"]), None),
            "Network.loadingFailed" => {
                let error = params["errorText"].as_str().filter(|text| !text.is_empty()).unwrap_or("failed");
                self.ended(&id(), at_ns(&params["timestamp"]), Some(error.to_owned()));
            }
            "Page.lifecycleEvent"
                if params["name"] == "load" && self.frame.as_deref() == params["frameId"].as_str() =>
            {
                self.loaded = true;
            }
            "Inspector.targetCrashed" => {
                return Err(Silence::Refused("the page crashed in the browser".into()));
            }
            _ => {}
        }
        Ok(())
    }

    fn will_be_sent(&mut self, id: String, params: &Value) {
        let now = at_ns(&params["timestamp"]);
        // The root's frame is the page's.
        if self.frame.is_none() {
            self.frame = params["frameId"].as_str().map(str::to_owned);
        }
        if let Some(mut redirected) = self.current.remove(&id) {
            redirected.answered(&params["redirectResponse"]);
            redirected.end_ns = now;
            self.done.push(redirected);
        }
        let request = &params["request"];
        let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
        if !text("url").starts_with("http") {
            return;
        }
        let found = self.resources.get_mut(&(text("method"), text("url")));
        let resource = found.and_then(|(numbers, asked)| {
            *asked += 1;
            numbers.get(*asked - 1).copied()
        });
        if let (Some(number), Some(awaited)) = (resource, &mut self.awaited) {
            awaited[number] = false;
        }
        self.current.insert(id, Asked { resource, queued_ns: now, ..Asked::default() });
    }

    fn ended(&mut self, id: &str, at_ns: Option<u64>, error: Option<String>) {
        if let Some(mut asked) = self.current.remove(id) {
            asked.end_ns = at_ns;
            asked.error = error;
            self.done.push(asked);
        }
    }

    /// Puts what the browser said into what the origins saw.
    pub(super) fn tell(self, loaded: &mut Loaded, start_ns: u64) {
        let since = |at: Option<u64>| at.map(|at| at.saturating_sub(start_ns));
        let missing: Vec<_> =
            self.awaited.iter().flatten().enumerate().filter(|(_, missing)| **missing).collect();
        for asked in self.done.into_iter().chain(self.current.into_values()) {
            let Some(resource) = asked.resource else { continue };
            let position = loaded.requests.iter().position(|request| request.resource == resource);
            let position = position.unwrap_or_else(|| {
                loaded.requests.push(RequestRecord { resource, ..RequestRecord::default() });
                loaded.requests.len() - 1
            });
            let request = &mut loaded.requests[position];
            request.queued_ns = since(asked.queued_ns);
            if asked.connect_start_ns.is_some() {
                request.connect_start_ns = since(asked.connect_start_ns);
                request.connected_ns = since(asked.connected_ns);
            }
            let connection = request.connection.and_then(|id| loaded.connections.get_mut(id));
            let session = connection.and_then(|connection| connection.tls.as_mut());
            if let Some((session, secured_ns)) = session.zip(since(asked.secured_ns)) {
                session.secured_ns = secured_ns;
            }
            request.end_ns = since(asked.end_ns).or(request.end_ns);
            // Of what the origins saw nothing, the browser alone can tell. It was never sent, whatever it says of that.
            if asked.kept && asked.error.is_none() && request.status.is_none() {
                (request.cache, request.status) = (Some(Cached::Fresh), asked.status);
                continue;
            }
            request.sent_ns = since(asked.sent_ns).or(request.sent_ns);
            request.first_byte_ns = since(asked.first_byte_ns).or(request.first_byte_ns);
            // A browser gives up what it has no use for, and may have had it whole by then.
            if let Some(error) = asked.error.filter(|_| request.status.is_none()) {
                request.error = Some(error);
            }
        }
        // Where the browser failed, that is the reason: not what it did not come to.
        for (resource, _) in missing.into_iter().filter(|_| loaded.unfinished.is_none()) {
            if loaded.requests.iter().all(|request| request.resource != resource) {
                let error = Some("the browser did not ask for it".to_owned());
                loaded.requests.push(RequestRecord { resource, error, ..RequestRecord::default() });
            }
        }
        loaded.requests.sort_by_key(|request| request.resource);
        loaded.seen_at = SeenAt::Client;
    }
}

impl Asked {
    /// When things happened, from the timing of an answer: milliseconds since a time in seconds.
    fn answered(&mut self, response: &Value) {
        self.status = response["status"].as_u64().and_then(|status| status.try_into().ok());
        self.kept |= response["fromDiskCache"] == true;
        let timing = &response["timing"];
        let Some(base) = timing["requestTime"].as_f64() else { return };
        let at = |key: &str| {
            timing[key].as_f64().filter(|ms| *ms >= 0.0).map(|ms| nanoseconds(base + ms / 1000.0))
        };
        if response["connectionReused"] == false {
            // To the browser, TLS is a part of connecting.
            let connected = at("sslStart").or(at("connectEnd"));
            (self.connect_start_ns, self.connected_ns) = (at("connectStart"), connected);
            self.secured_ns = at("sslEnd");
        }
        self.sent_ns = at("sendStart");
        self.first_byte_ns = at("receiveHeadersStart").or(at("receiveHeadersEnd"));
    }
}
