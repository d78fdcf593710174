//! Runs the browser in the client's namespace, intercepts its system calls, and ends all its processes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fastopen_intercept::{Started, Watch};
use fastopen_netns::clock::monotonic_ns;
use fastopen_page::{Origin, alias_host};
use fastopen_replay::tls::SessionStart;
use serde_json::{Value, json};

use super::pipe::{Pipe, PipeError};
use super::{pads_heads, resolver_rules, script, text, uses_cache};
use crate::clients::Loading;
use crate::contract::{Engine, Fault};
use crate::failure::{Blame, Failure};
use crate::sandbox::program::{Home, PATH, Program, path};

/// Names of Chromium's program on various systems, in the order in which to look for them.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const START_TIMEOUT_NS: u64 = 120_000_000_000;
const ANSWER_TIMEOUT_NS: u64 = 30_000_000_000;

/// Chromium's command-line flags. Most flags without a comment suppress windows or Chromium's own requests.
const FLAGS: [&str; 31] = [
    "--headless",
    "--remote-debugging-pipe", // `DevTools` messages do not pass through the client's network
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--no-proxy-server",
    "--no-service-autorun",
    "--disable-background-networking",
    // Makes an invisible page run like a visible one, as `--disable-renderer-backgrounding` does.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-breakpad", // Chromium then writes only to its own folder
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage", // Chromium then writes only to its own folder
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-gpu",
    "--disable-renderer-backgrounding",
    "--disable-search-engine-choice-screen",
    "--disable-site-isolation-trials", // keeps frames in the page's process: new ones cost more than the load
    "--disable-sync",
    "--dns-prefetch-disable", // looks up no names before requests need them
    "--force-effective-connection-type=4G", // fonts and images have the same priorities in every load
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic", // stores passwords without a desktop's keyring
    "--window-size=1366,768",
    // Without these features, names are looked up with the system's resolver (AsyncDns), `http` is not
    // upgraded to `https` (Https*), frames stay in the page's process (IsolateOrigins, site-per-process,
    // SpareRenderer*), nothing is learned from earlier loads (LoadingPredictor*), and two pages behind the
    // address bar are omitted, which cost a second of processor time per load (WebUIOmnibox*).
    "--disable-features=AsyncDns,DialMediaRouteProvider,HttpsFirstBalancedModeAutoEnable,HttpsUpgrades,\
     IsolateOrigins,LoadingPredictorUseLocalPredictions,MediaRouter,NetworkTimeServiceQuerying,\
     OptimizationHints,SpareRendererForSitePerProcess,Translate,WebUIOmniboxAimPopup,WebUIOmniboxPopup,\
     site-per-process",
];

/// The flag that makes the browser trust all certificates for one public key. Its value is the key's digest.
const TRUST: &str = "--ignore-certificate-errors-spki-list";

/// The flag that enables early data over TCP, which Debian's build disables. Over QUIC it is always enabled.
const EARLY_DATA: &str = "--enable-features=EnableTLS13EarlyData";

/// A running browser with one open tab. Dropping this value ends its processes and removes its folder.
pub(super) struct Browser {
    _program: Program,
    pub(super) pipe: Pipe,
    pub(super) watch: Watch,
    /// Name and version of the browser.
    pub(super) product: String,
    /// ID of the browser context, which is a separate profile of the browser.
    context: String,
    tab_id: String,
    /// ID of the `DevTools` session that controls the tab.
    pub(super) session: String,
    _home: Home,
}

impl Browser {
    pub(super) fn start(loading: &Loading) -> Result<Self, Failure> {
        let program = find().ok_or_else(|| {
            Failure::new(Fault::Machine, "client.kind: chromium is not installed on this machine")
                .with_remedy("apt install chromium (as root)")
        })?;
        let making = "making a folder for the browser";
        let home = Home::make("chromium").blame(Fault::Machine, making)?;
        let command = command(&program, &home, loading).blame(Fault::Machine, making)?;
        let starting = format!("starting {}", program.display());
        let Started { mut child, watch, .. } = home.start(command, None, true, &starting)?;
        let (to, from) = child.stdin.take().zip(child.stdout.take()).expect("they are pipes");
        let mut pipe = Pipe::new(to, from);
        let program = Program(child);
        let until = monotonic_ns() + START_TIMEOUT_NS;
        let version = pipe.call(None, "Browser.getVersion", &json!({}), until).map_err(|error| {
            let last = home.output.last_lines(1);
            Failure::new(Fault::Machine, format!("starting the browser: {error}{last}"))
        })?;
        let product = version["product"].as_str().unwrap_or("unknown").to_owned();
        let (context, tab_id, session) = Default::default();
        Ok(Self { _program: program, pipe, watch, product, context, tab_id, session, _home: home })
    }

    /// Opens a tab in a new browser context, with its own connections, caches, cookies and TLS sessions.
    pub(super) fn open_context(&mut self, loading: &Loading) -> Result<(), PipeError> {
        let created = self.call_browser("Target.createBrowserContext", &json!({}))?;
        text(&created["browserContextId"]).clone_into(&mut self.context);
        self.open_tab(loading)
    }

    /// Opens an empty tab in the browser context, and sets up its cache, script and request interception.
    pub(super) fn open_tab(&mut self, loading: &Loading) -> Result<(), PipeError> {
        let target = json!({"url": "about:blank", "browserContextId": self.context});
        text(&self.call_browser("Target.createTarget", &target)?["targetId"]).clone_into(&mut self.tab_id);
        let attach = json!({"targetId": self.tab_id, "flatten": true});
        let attached = self.call_browser("Target.attachToTarget", &attach)?;
        text(&attached["sessionId"]).clone_into(&mut self.session);
        let (cache, pauses) = (uses_cache(loading.job), pads_heads(loading.job));
        for (method, params) in [
            ("Page.enable", json!({})),
            ("Page.setLifecycleEventsEnabled", json!({"enabled": true})),
            ("Network.enable", json!({})),
            ("Network.setCacheDisabled", json!({"cacheDisabled": !cache})),
            ("Performance.enable", json!({})),
            ("Inspector.enable", json!({})),
        ]
        .into_iter()
        .chain(pauses.then(|| ("Fetch.enable", json!({"patterns": [{"urlPattern": "http*"}]}))))
        .chain(
            script(loading)
                .map(|source| ("Page.addScriptToEvaluateOnNewDocument", json!({"source": source}))),
        ) {
            self.call(method, &params)?;
        }
        Ok(())
    }

    /// Calls a method of the tab without waiting for the result. Returns the call's ID.
    pub(super) fn send(&mut self, method: &str, params: &Value) -> Result<u64, PipeError> {
        self.pipe.send(Some(&self.session), method, params)
    }

    /// Calls a method of the tab, and waits up to `ANSWER_TIMEOUT_NS` for its result.
    pub(super) fn call(&mut self, method: &str, params: &Value) -> Result<Value, PipeError> {
        self.pipe.call(Some(&self.session), method, params, monotonic_ns() + ANSWER_TIMEOUT_NS)
    }

    /// Calls a method of the browser itself, and waits up to `ANSWER_TIMEOUT_NS` for its result.
    fn call_browser(&mut self, method: &str, params: &Value) -> Result<Value, PipeError> {
        self.pipe.call(None, method, params, monotonic_ns() + ANSWER_TIMEOUT_NS)
    }

    /// Takes a screenshot of the tab. Returns a PNG in base64.
    pub(super) fn screenshot(&mut self) -> Result<String, PipeError> {
        let answer = self.call("Page.captureScreenshot", &json!({"format": "png"}))?;
        let data = answer["data"].as_str().filter(|data| !data.is_empty());
        data.map(str::to_owned).ok_or_else(|| PipeError::Refused("the browser returned no picture".into()))
    }

    pub(super) fn close_tab(&mut self) -> Result<(), PipeError> {
        self.call_browser("Target.closeTarget", &json!({"targetId": self.tab_id})).map(drop)
    }

    pub(super) fn close_context(&mut self) -> Result<(), PipeError> {
        let context = json!({"browserContextId": self.context});
        self.call_browser("Target.disposeBrowserContext", &context).map(drop)
    }
}

fn find() -> Option<PathBuf> {
    let folders: Vec<_> = std::env::split_paths(&path()).collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| file.is_file())
}

/// Returns the flag to use QUIC for all origins with HTTP/3, and no others, without waiting for `Alt-Svc`.
fn quic(loading: &Loading) -> String {
    let urls = loading.job.page.resources.iter().map(|resource| &resource.url);
    let spoken: BTreeSet<_> = urls.filter(|url| loading.http_at(url).is_quic()).map(Origin::of).collect();
    let aliased = loading.synthetic_page.is_some();
    let places: Vec<_> = spoken
        .iter()
        .map(|origin| {
            let host = if aliased { &alias_host(&origin.host) } else { &origin.host };
            format!("{host}:{}", origin.port)
        })
        .collect();
    match places[..] {
        [] => "--disable-quic".to_owned(),
        _ => format!("--origin-to-force-quic-on={}", places.join(",")),
    }
}

/// Returns the command that starts the browser. A shell moves the `DevTools` pipes to descriptors 3 and 4.
fn command(program: &Path, home: &Home, loading: &Loading) -> std::io::Result<Command> {
    // The handler of SECCOMP_RET_TRAP compares the system call's number with the register that held it.
    // User-Mode Linux does not restore this register (syscall_rollback), so renderers with a filter crash.
    let unfiltered = (loading.engine == Engine::Virtual).then_some("--disable-seccomp-filter-sandbox");
    let mut command =
        home.command(&["/bin/sh", "-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])?;
    command
        .arg(program)
        .args(FLAGS)
        .args(unfiltered)
        .args(loading.authority.map(|authority| format!("{TRUST}={}", authority.pin())))
        .arg(quic(loading))
        .args((loading.job.tls.session == SessionStart::Early).then_some(EARLY_DATA))
        .arg(format!("--host-resolver-rules={}", resolver_rules(loading)))
        .arg(format!("--user-data-dir={}", home.folder.join("profile").display()))
        .arg("about:blank")
        .env("PATH", PATH)
        .env("XDG_RUNTIME_DIR", &home.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Ok(command)
}
