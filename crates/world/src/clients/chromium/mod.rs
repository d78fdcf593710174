//! Unmodified Chromium as a client, driven over the `DevTools` protocol.
//!
//! One browser for all loads of a world; each load has a profile of its own, but for one that is to find what an earlier visit left. Connections and their evidence are the kernel's, as for
//! any command; what is timed is timed by the browser, whose clock is the machine's monotonic one.

mod account;
mod browser;
mod pipe;

use fastopen_netns::clock::monotonic_ns;
use fastopen_page::UrlRewrite;
use serde_json::{Value, json};

use self::account::Account;
use self::browser::{Browser, Profile, Tab};
use self::pipe::Silence;
use super::{Loaded, Loading, at_origins};
use crate::contract::{BrowserRecord, Fault};
use crate::failure::Failure;

/// How long nothing may happen, beside the timers of the page, before what is missing counts as never asked for, in nanoseconds.
const QUIET_NS: u64 = 1_000_000_000;

/// The browser of a world.
pub struct Chromium {
    /// One that is fine.
    browser: Option<Browser>,
    /// Where the page was loaded once already.
    visited: Option<Visited>,
    screenshot: bool,
}

/// A browser that has been at the page, and a profile that remembers it.
struct Visited {
    browser: Browser,
    profile: Profile,
    /// Why the page did not load.
    trouble: Option<Silence>,
}

impl Chromium {
    /// One that is started when it is first needed; `screenshot`: it is to show what it sees at the end of each load.
    pub fn new(screenshot: bool) -> Self {
        Self { browser: None, visited: None, screenshot }
    }

    /// Loads the page for the first time, so that the next load is a repeat visit: with what is kept of this one. Its connections
    /// are to be ended before that.
    ///
    /// # Errors
    /// Where no browser can be started.
    pub fn visit(&mut self, loading: &Loading) -> Result<(), Failure> {
        let (mut browser, profile, tab) = self.open(loading, true)?;
        loading.engine.begin_load();
        let told = follow(&mut browser, &tab, loading, &mut Account::new(loading));
        // In a tab of its own the next visit has nothing in memory. One that failed would ask again, once its connection is reset.
        let closed = match &told {
            Ok(_) | Err(Silence::Refused(_)) => browser.close_tab(&tab),
            Err(_) => Ok(()),
        };
        self.visited = Some(Visited { browser, profile, trouble: told.and(closed).err() });
        Ok(())
    }

    /// Loads the page once: where it was visited before, else in a profile of its own.
    ///
    /// # Errors
    /// Where no browser can be started.
    pub fn load(&mut self, loading: &Loading, after: &mut dyn FnMut()) -> Result<Loaded, Failure> {
        let (mut browser, profile, tab) = match self.visited.take() {
            None => {
                let (browser, profile, tab) = self.open(loading, false)?;
                (browser, profile, Ok(tab))
            }
            Some(Visited { mut browser, profile, trouble }) => {
                let tab = trouble.map_or_else(|| browser.open_tab(&profile, true), Err);
                (browser, profile, tab)
            }
        };
        let kernel = |error| {
            Failure::new(
                Fault::Machine,
                format!("reading the kernel's word on the browser's connections: {error}"),
            )
        };
        browser.watch.connections(loading.first_port).map_err(kernel)?;
        loading.engine.begin_load();
        let began_ns = monotonic_ns();
        let mut account = Account::new(loading);
        let told = match &tab {
            Ok(tab) => follow(&mut browser, tab, loading, &mut account),
            Err(silence) => Err(Silence::Refused(format!("the first visit: {silence}"))),
        };
        let opened = browser.watch.connections(None).map_err(kernel)?;
        let unfinished = told.as_ref().err().map(ToString::to_string);
        let figures = told.ok();
        let start_ns = figures.as_ref().map_or(began_ns, |figures| figures.start_ns);
        let plt_ns = figures.as_ref().map(|figures| figures.plt_ns(loading));
        let mut loaded = at_origins::loaded(loading, start_ns, &opened, plt_ns, unfinished);
        account.tell(&mut loaded, start_ns);
        loaded.browser = figures.map(|figures| figures.record(browser.product.clone()));
        after();
        // It takes time, and frames that no load has.
        if let Some((record, tab)) =
            loaded.browser.as_mut().zip(tab.as_ref().ok()).filter(|_| self.screenshot)
        {
            match browser.screenshot(tab) {
                Ok(picture) => record.screenshot_png = Some(picture),
                Err(silence) => record.screenshot_error = Some(silence.to_string()),
            }
        }
        // Whoever does not part with a profile is not trusted with another.
        if loaded.unfinished.is_none() && browser.close(&profile).is_ok() {
            self.browser = Some(browser);
        }
        Ok(loaded)
    }

    /// A tab in a profile of its own, in a browser that is still fine or a new one; `cache`: what it brings is kept.
    fn open(&mut self, loading: &Loading, cache: bool) -> Result<(Browser, Profile, Tab), Failure> {
        let open = |browser: &mut Browser| {
            let profile = browser.make_profile()?;
            let tab = browser.open_tab(&profile, cache)?;
            Ok::<_, Silence>((profile, tab))
        };
        // One that did not survive the load before is no fault.
        if let Some(mut browser) = self.browser.take() {
            if let Ok((profile, tab)) = open(&mut browser) {
                return Ok((browser, profile, tab));
            }
        }
        let mut browser = Browser::start(loading.authority)?;
        let opened = open(&mut browser);
        let (profile, tab) =
            opened.map_err(|silence| Failure::new(Fault::Machine, format!("opening a tab: {silence}")))?;
        Ok((browser, profile, tab))
    }
}

/// Navigates and listens until the page is loaded and nothing is under way.
fn follow(
    browser: &mut Browser,
    tab: &Tab,
    loading: &Loading,
    account: &mut Account,
) -> Result<Figures, Silence> {
    let deadline = monotonic_ns() + loading.timeout_ns;
    let url = url_of(loading, 0);
    browser.pipe.send(Some(&tab.session), "Page.navigate", &json!({"url": url}))?;
    loop {
        let until = if account.is_idle() {
            deadline.min(monotonic_ns() + account.longest_timer_ns() + QUIET_NS)
        } else {
            deadline
        };
        match browser.pipe.event(until) {
            Ok(event) => account.take(&event)?,
            Err(Silence::Late) if account.is_idle() => break,
            Err(Silence::Late) => return Err(Silence::Refused(account.what_is_missing())),
            Err(Silence::Ended) => return Err(Silence::Refused("the browser crashed".into())),
            Err(silence) => return Err(silence),
        }
        if account.is_complete() {
            break;
        }
    }
    Figures::ask(browser, tab)
}

/// A resource's URL as the browser knows it.
fn url_of(loading: &Loading, number: usize) -> String {
    let rewrite = UrlRewrite { aliased: loading.synthetic_page.is_some(), encrypted: loading.tls.is_some() };
    loading.page.resources[number].url.rewritten(rewrite)
}

/// What the browser measured itself.
#[expect(clippy::struct_field_names, reason = "a unit is in the name of what has one")]
struct Figures {
    /// The navigation's start, on the monotonic clock; the rest is since then.
    start_ns: u64,
    load_event_ns: u64,
    dom_content_loaded_ns: u64,
    first_contentful_paint_ns: Option<u64>,
    largest_contentful_paint_ns: Option<u64>,
}

/// All in milliseconds since the navigation's start.
const ASK: &str = "(() => {
    const observer = new PerformanceObserver(() => {});
    observer.observe({type: 'largest-contentful-paint', buffered: true});
    const largest = observer.takeRecords().at(-1);
    const navigation = performance.getEntriesByType('navigation')[0];
    const paint = performance.getEntriesByName('first-contentful-paint')[0];
    return [navigation.loadEventEnd, navigation.domContentLoadedEventEnd, paint?.startTime, largest?.startTime];
})()";

impl Figures {
    fn ask(browser: &mut Browser, tab: &Tab) -> Result<Self, Silence> {
        let until = monotonic_ns() + browser::ANSWERING_NS;
        let mut call = |method, params: Value| browser.pipe.call(Some(&tab.session), method, &params, until);
        let metrics = call("Performance.getMetrics", json!({}))?;
        let start = metrics["metrics"]
            .as_array()
            .and_then(|all| all.iter().find(|metric| metric["name"] == "NavigationStart"))
            .and_then(|metric| metric["value"].as_f64());
        let answer = call("Runtime.evaluate", json!({"expression": ASK, "returnByValue": true}))?;
        let value = |number: usize| answer["result"]["value"][number].as_f64().map(|ms| (ms * 1e6) as u64);
        let missing = || Silence::Refused("the browser did not say when the page was loaded".into());
        Ok(Self {
            start_ns: nanoseconds(start.ok_or_else(missing)?),
            load_event_ns: value(0).filter(|at| *at > 0).ok_or_else(missing)?,
            dom_content_loaded_ns: value(1).ok_or_else(missing)?,
            first_contentful_paint_ns: value(2),
            largest_contentful_paint_ns: value(3),
        })
    }

    /// From the navigation's start to the load event's end; structural pages have no script that takes the page's own time there.
    fn plt_ns(&self, loading: &Loading) -> u64 {
        let processing = loading.synthetic_page.map_or(0, |_| {
            (loading.page.load_event_processing_us as f64 * 1000.0 * loading.policy.processing_scale) as u64
        });
        self.load_event_ns + processing
    }

    fn record(self, product: String) -> BrowserRecord {
        BrowserRecord {
            product,
            load_event_ns: self.load_event_ns,
            dom_content_loaded_ns: self.dom_content_loaded_ns,
            first_contentful_paint_ns: self.first_contentful_paint_ns,
            largest_contentful_paint_ns: self.largest_contentful_paint_ns,
            screenshot_png: None,
            screenshot_error: None,
        }
    }
}

/// Of the browser's seconds, which have a fraction of microseconds.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64 * 1000
}

/// A time of the `DevTools` protocol.
fn at_ns(value: &Value) -> Option<u64> {
    value.as_f64().filter(|seconds| *seconds > 0.0).map(nanoseconds)
}
