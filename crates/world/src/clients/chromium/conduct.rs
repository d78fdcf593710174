//! Supervises a page during its load: accepts its dialogs, and makes the load fail with a reason if the page
//! navigates away, closes the tab, opens a window, makes too many requests or blocks its main thread.

use fastopen_netns::clock::monotonic_ns;
use serde_json::json;

use super::browser::Browser;
use super::pipe::{Event, PipeError};
use super::text;

/// Interval between liveness checks, and timeout of a check, in nanoseconds.
const PERIOD_NS: u64 = 8_000_000_000;
/// Maximum number of requests in addition to those for the page's resources.
const UNKNOWN_REQUESTS: usize = 1000;

/// Watches one page load for misbehaviour of the page, such as navigating away.
pub(super) struct Conduct {
    /// IDs of the page's frame and of the navigation that loads the page; None before the first request.
    page: Option<(String, String)>,
    requests: usize,
    most_requests: usize,
    pub(super) dialogs: u64,
    /// The time of the next liveness check, in nanoseconds of the monotonic clock.
    pub(super) due_ns: u64,
}

impl Conduct {
    pub(super) fn new(resources: usize) -> Self {
        let due_ns = monotonic_ns() + PERIOD_NS;
        Self { page: None, requests: 0, most_requests: resources + UNKNOWN_REQUESTS, dialogs: 0, due_ns }
    }

    /// Handles an event. Fails if the page navigates, closes, opens a window or makes too many requests.
    pub(super) fn handle(&mut self, event: &Event, browser: &mut Browser) -> Result<(), PipeError> {
        let not_allowed = |what: String| Err(PipeError::Refused(format!("the page {what}")));
        let params = &event.params;
        match event.method.as_str() {
            "Page.javascriptDialogOpening" => {
                self.dialogs += 1;
                browser.send("Page.handleJavaScriptDialog", &json!({"accept": true}))?;
            }
            "Network.requestWillBeSent" => {
                self.requests += 1;
                if self.requests > self.most_requests {
                    return not_allowed(format!("made more than {} requests", self.most_requests));
                }
                let navigation = (text(&params["frameId"]).to_owned(), text(&params["loaderId"]).to_owned());
                let page = self.page.get_or_insert_with(|| navigation.clone());
                if params["type"] == "Document" && navigation.0 == page.0 && navigation.1 != page.1 {
                    return not_allowed(format!("navigated to {}", text(&params["request"]["url"])));
                }
            }
            "Page.frameNavigated" => {
                let frame = &params["frame"];
                let (id, loader) = (text(&frame["id"]), text(&frame["loaderId"]));
                if self.page.as_ref().is_some_and(|page| page.0 == id && page.1 != loader) {
                    return not_allowed(format!("navigated to {}", text(&frame["url"])));
                }
            }
            "Page.windowOpen" => {
                return not_allowed(format!("opened a window with {}", text(&params["url"])));
            }
            "Target.detachedFromTarget" if params["sessionId"] == browser.session.as_str() => {
                return not_allowed("closed itself".into());
            }
            _ => {}
        }
        Ok(())
    }

    /// Starts a liveness check: evaluates a script in the page. Fails if the previous check is unanswered.
    pub(super) fn check_liveness(&mut self, browser: &mut Browser) -> Result<(), PipeError> {
        if browser.pipe.awaited.is_some() {
            let seconds = PERIOD_NS / 1_000_000_000;
            return Err(PipeError::Refused(format!("the page did not respond for {seconds} s")));
        }
        browser.pipe.awaited = Some(browser.send("Runtime.evaluate", &json!({"expression": "0"}))?);
        self.due_ns = monotonic_ns() + PERIOD_NS;
        Ok(())
    }
}
