//! Uses unmodified Chromium as a client, driven over the `DevTools` protocol.
//!
//! One browser runs all loads of a job, unless it crashes or does not finish a load. Each load uses a new
//! browser context, or the context of its earlier visit. The kernel reports connections and their `TCP_INFO`.
//! The browser, whose clock is the monotonic clock, reports the times.

mod browser;
mod conduct;
mod film;
mod heads;
mod observer;
mod pipe;

use fastopen_netns::clock::monotonic_ns;
use fastopen_page::{SyntheticPage, UrlRewrite, is_name};
use serde_json::{Value, json};

use self::browser::Browser;
use self::conduct::Conduct;
use self::film::Film;
use self::heads::HeadPadder;
use self::observer::LoadObserver;
use self::pipe::PipeError;
use super::{Loaded, Loading, UserAgent, seen_at_origins};
use crate::contract::{self, Bodies, BrowserRecord, Fault, Job, View};
use crate::engine;
use crate::failure::{Blame, Failure};

/// Idle time in ns, after the load event, that ends a load. While idle, the browser has no request in flight
/// and sends no event. For a synthetic page, `LoadObserver::longest_timer_ns` is added to this time.
const QUIET_NS: u64 = 1_000_000_000;

/// Maximum time in nanoseconds from the load event to the end of a load with recorded bodies.
const SETTLE_NS: u64 = 5_000_000_000;

/// A script that makes times and random numbers repeatable. The date of the recording replaces `RECORDED`.
const FIXED_SCRIPTS: &str = include_str!("fixed_scripts.js");

/// The client that loads pages in Chromium. The browser starts with the first load.
#[derive(Default)]
pub struct Chromium {
    browser: Option<Browser>,
    /// The browser in which the page was visited before the measured load, and the result of this visit.
    visited: Option<(Browser, Result<(), PipeError>)>,
}

/// Returns true if the browser may use its HTTP cache: for a repeat view, or with recorded response bodies.
/// In first views of a synthetic page, a cache would suppress the second of two identical recorded requests.
fn uses_cache(job: &Job) -> bool {
    job.client.view == View::Repeat || job.origins.bodies == Bodies::Recorded
}

fn pads_heads(job: &Job) -> bool {
    job.client.request_heads == contract::RequestHeads::Recorded
}

/// Returns the script to inject: `FIXED_SCRIPTS`, the script of a synthetic page, both, or None.
fn script(loading: &Loading) -> Option<String> {
    let recorded = json!(loading.recorded_date.unwrap_or_default()).to_string();
    let fixed = loading.job.client.fixed_scripts.then(|| FIXED_SCRIPTS.replacen("RECORDED", &recorded, 1));
    let runtime = loading.synthetic_page.map(SyntheticPage::script);
    let scripts: Vec<_> = fixed.into_iter().chain(runtime).collect();
    (!scripts.is_empty()).then(|| scripts.join(";\n"))
}

impl Chromium {
    /// Opens a new context with a tab in the previous load's browser or, if that fails, in a new browser.
    fn open(&mut self, loading: &Loading) -> Result<Browser, Failure> {
        if let Some(mut browser) = self.browser.take() {
            if browser.open_context(loading).is_ok() {
                return Ok(browser);
            }
        }
        let mut browser = Browser::start(loading)?;
        browser.open_context(loading).blame(Fault::Machine, "opening a tab")?;
        Ok(browser)
    }
}

impl UserAgent for Chromium {
    /// Loads the page before the measured load, so that the browser has session tickets and a filled cache.
    fn visit(&mut self, loading: &Loading) -> Result<(), Failure> {
        let mut browser = self.open(loading)?;
        engine::begin_load(loading.engine, loading.job.start_phase_us);
        let outcome = follow(&mut browser, loading, &mut LoadObserver::new(loading), None);
        // Close the tab. The next load opens a new tab, which has no memory cache. If the visit failed, the
        // closed tab cannot request the page again when its connections are reset.
        let closed = match &outcome {
            Ok(_) | Err(PipeError::Refused(_)) => browser.close_tab(),
            Err(_) => Ok(()),
        };
        self.visited = Some((browser, outcome.and(closed)));
        Ok(())
    }

    fn load(&mut self, loading: &Loading, after: &mut dyn FnMut()) -> Result<Loaded, Failure> {
        let settings = &loading.job.client;
        let (mut browser, opened) = match self.visited.take() {
            None => (self.open(loading)?, Ok(())),
            Some((mut browser, visited)) => {
                let opened = visited.and_then(|()| {
                    browser.open_tab(loading)?;
                    // Only the TLS sessions of the visit are needed, not its cache.
                    if uses_cache(loading.job) && settings.view == View::First {
                        browser.call("Network.clearBrowserCache", &json!({}))?;
                    }
                    Ok(())
                });
                (browser, opened)
            }
        };
        let reading = "reading the browser's connections from the kernel";
        browser.watch.connections(engine::first_port(loading.engine)).blame(Fault::Machine, reading)?;
        engine::begin_load(loading.engine, loading.job.start_phase_us);
        let started_ns = monotonic_ns();
        let mut observer = LoadObserver::new(loading);
        let mut film = None;
        let outcome = opened.map_err(|error| {
            let what = if settings.view == View::Repeat { "first view" } else { "earlier visit" };
            PipeError::Refused(format!("the {what}: {error}"))
        });
        let outcome = outcome.and_then(|()| {
            film = settings.filmstrip.then(|| Film::start(&mut browser)).transpose()?;
            follow(&mut browser, loading, &mut observer, film.as_mut())
        });
        let opened = browser.watch.connections(None).blame(Fault::Machine, reading)?;
        let unfinished = outcome.as_ref().err().map(ToString::to_string);
        let (navigated_ns, metrics) = outcome.ok().unzip();
        let start_ns = navigated_ns.unwrap_or(started_ns);
        let plt_ns = metrics.as_ref().map(|metrics| plt_ns(metrics, loading));
        let mut loaded = seen_at_origins::load_results(loading, start_ns, &opened, plt_ns, unfinished);
        observer.complete(&mut loaded, start_ns);
        loaded.browser = metrics;
        after();
        if let Some(record) = &mut loaded.browser {
            // A screenshot takes time and makes the browser draw, so it is taken after the load.
            if settings.screenshot {
                match browser.screenshot() {
                    Ok(picture) => record.screenshot_png = Some(picture),
                    Err(error) => record.screenshot_error = Some(error.to_string()),
                }
            }
            // A browser that has ended returns no pictures, which is not an error.
            if let Some(Ok((frames, dropped))) = film.map(|film| film.end(&mut browser, start_ns)) {
                (record.frames, record.frames_dropped) = (frames, dropped);
            }
        }
        // A browser that fails to close its context is not used again.
        if loaded.unfinished.is_none() && browser.close_context().is_ok() {
            self.browser = Some(browser);
        }
        Ok(loaded)
    }
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

/// Returns the `--host-resolver-rules` for hosts that need no lookup: IP addresses and `localhost`.
fn resolver_rules(loading: &Loading) -> String {
    let rules = loading.hosts.iter().filter(|(host, _)| !is_name(host) || is_local(host));
    let rules = rules.map(|(host, one)| format!("MAP {} {}", host.trim_matches(['[', ']']), one.preferred));
    rules.collect::<Vec<_>>().join(",")
}

/// Loads the page. After the load event, the load ends as soon as all expected requests have ended, the
/// browser was idle for `QUIET_NS`, or `SETTLE_NS` have passed (recorded bodies only). Fails at the timeout.
/// Returns the start of the load in nanoseconds of the monotonic clock, and the browser's metrics.
fn follow(
    browser: &mut Browser,
    loading: &Loading,
    observer: &mut LoadObserver,
    mut film: Option<&mut Film>,
) -> Result<(u64, BrowserRecord), PipeError> {
    let deadline = monotonic_ns() + loading.timeout_ns();
    let mut padder = pads_heads(loading.job).then(|| HeadPadder::new(loading));
    browser.send("Page.navigate", &json!({"url": url_of(loading, 0)}))?;
    let recorded = loading.job.origins.bodies == Bodies::Recorded;
    let mut settled_at = None;
    let mut conduct = Conduct::new(loading.job.page.resources.len());
    browser.pipe.awaited = None;
    loop {
        let until = if observer.is_idle() {
            deadline.min(monotonic_ns() + observer.longest_timer_ns() + QUIET_NS)
        } else {
            deadline
        };
        if recorded && observer.loaded && settled_at.is_none() {
            settled_at = Some(monotonic_ns() + SETTLE_NS);
        }
        let until = settled_at.map_or(until, |settled_at| until.min(settled_at));
        match browser.pipe.event(until.min(conduct.due_ns)) {
            // This event belongs to the closed tab of an earlier load.
            Ok(event) if event.session.as_ref().is_some_and(|session| *session != browser.session) => {}
            Ok(mut event) => {
                if let Some(film) = &mut film {
                    film.handle(&mut event, browser)?;
                }
                conduct.handle(&event, browser)?;
                if let Some(params) = padder.as_mut().and_then(|padder| padder.continued(&event)) {
                    browser.send("Fetch.continueRequest", &params)?;
                }
                observer.handle(&event)?;
            }
            Err(PipeError::TimedOut) if monotonic_ns() < until => conduct.check_liveness(browser)?,
            Err(PipeError::TimedOut) if observer.is_idle() || settled_at.is_some() => break,
            Err(PipeError::TimedOut) => return Err(PipeError::Refused(observer.timeout_reason())),
            Err(PipeError::Ended) => return Err(PipeError::Refused("the browser crashed".into())),
            Err(error) => return Err(error),
        }
        if observer.is_complete() {
            break;
        }
    }
    let (start_ns, metrics) = measure(browser)?;
    Ok((start_ns, BrowserRecord { dialogs: conduct.dialogs, ..metrics }))
}

/// Returns the URL of resource `number` as it appears in the served bodies.
fn url_of(loading: &Loading, number: usize) -> String {
    let rewrite = UrlRewrite { aliased: loading.synthetic_page.is_some(), schemes: loading.schemes };
    loading.job.page.resources[number].url.rewritten(rewrite)
}

/// A script that returns the times of events such as load, in milliseconds since the navigation's start.
const METRICS_SCRIPT: &str = "(() => {
    const observer = new PerformanceObserver(() => {});
    observer.observe({type: 'largest-contentful-paint', buffered: true});
    const largest = observer.takeRecords().at(-1);
    const navigation = performance.getEntriesByType('navigation')[0];
    const paint = performance.getEntriesByName('first-contentful-paint')[0];
    const {loadEventEnd, domContentLoadedEventEnd} = navigation;
    return [loadEventEnd, domContentLoadedEventEnd, paint?.startTime, largest?.startTime];
})()";

/// Returns the start of the navigation in nanoseconds of the monotonic clock, and the browser's metrics.
fn measure(browser: &mut Browser) -> Result<(u64, BrowserRecord), PipeError> {
    let metrics = browser.call("Performance.getMetrics", &json!({}))?;
    let start = metrics["metrics"]
        .as_array()
        .and_then(|all| all.iter().find(|metric| metric["name"] == "NavigationStart"))
        .and_then(|metric| metric["value"].as_f64());
    let script = json!({"expression": METRICS_SCRIPT, "returnByValue": true});
    let answer = browser.call("Runtime.evaluate", &script)?;
    let value = |number: usize| answer["result"]["value"][number].as_f64().map(|ms| (ms * 1e6) as u64);
    let missing = || PipeError::Refused("the browser did not report when the page was loaded".into());
    let metrics = BrowserRecord {
        product: browser.product.clone(),
        load_event_ns: value(0).filter(|at| *at > 0).ok_or_else(missing)?,
        dom_content_loaded_ns: value(1).ok_or_else(missing)?,
        first_contentful_paint_ns: value(2),
        largest_contentful_paint_ns: value(3),
        ..BrowserRecord::default()
    };
    Ok((nanoseconds(start.ok_or_else(missing)?), metrics))
}

/// Returns the page load time in ns, including a synthetic page's emulated processing before `load`.
fn plt_ns(metrics: &BrowserRecord, loading: &Loading) -> u64 {
    let us = loading.synthetic_page.map_or(0, |_| loading.job.page.load_event_processing_us);
    metrics.load_event_ns + (us as f64 * 1000.0 * loading.policy.processing_scale) as u64
}

/// Converts a time that the browser reports, in seconds with microsecond resolution, to nanoseconds.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64 * 1000
}

fn at_ns(value: &Value) -> Option<u64> {
    value.as_f64().filter(|seconds| *seconds > 0.0).map(nanoseconds)
}

/// Returns the content of a JSON string; an empty string for other types of values.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
