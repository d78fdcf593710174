//! Writes references as HTML, script calls or stylesheet rules. A reference makes a browser send a request.

use std::fmt::Write as _;

use super::reference::{InitiatorType, Reference};
use crate::{Page, Phase, UrlRewrite};

/// Requests that a response body should start, but cannot, for example for lack of room. The HTML element or
/// script call that loads this body starts them instead. The numbers are indices of [`Reference`]s.
#[derive(Debug, Clone, Default)]
pub(super) struct Deferred {
    /// Requests that start when the initiator's response has ended.
    pub(super) on_end: Vec<usize>,
    /// Images and fonts of a stylesheet. A browser requests them only when an element of the page uses them.
    pub(super) on_use: Vec<usize>,
}

pub(super) struct Writer<'a> {
    pub(super) page: &'a Page,
    pub(super) rewrite: UrlRewrite,
    pub(super) references: &'a [Reference],
    pub(super) deferred: Vec<Deferred>,
    /// For each request, true if it starts too early, because there is no room for a script that delays it.
    pub(super) early: Vec<bool>,
}

impl Writer<'_> {
    pub(super) fn url(&self, number: usize) -> String {
        self.page.resources[self.references[number].first].url.rewritten(self.rewrite)
    }

    fn delay_ms(&self, number: usize) -> u64 {
        if self.early[number] { 0 } else { self.references[number].delay_ms }
    }

    /// Returns an HTML element that sends request `number`; `None` if a script must send it. `runtime` is
    /// true if the document runs `runtime.js`, a script that sends delayed requests, for example.
    pub(super) fn element(&self, number: usize, runtime: bool) -> Option<String> {
        let reference = &self.references[number];
        let Deferred { on_end, on_use } = &self.deferred[number];
        let plain = on_end.is_empty()
            && on_use.is_empty()
            && reference.phase == Phase::Load
            && self.delay_ms(number) == 0;
        if runtime && !plain {
            return None;
        }
        let url = escape(&self.url(number));
        match reference.initiator_type {
            InitiatorType::Image => Some(format!("<img src=\"{url}\">")),
            // With `async`, neither the order in the document nor a stylesheet delays the script.
            InitiatorType::Script => {
                Some(format!("<script async fetchpriority=high src=\"{url}\"></script>"))
            }
            InitiatorType::Frame => Some(format!("<iframe src=\"{url}\"></iframe>")),
            InitiatorType::Stylesheet if !runtime => Some(format!("<link rel=stylesheet href=\"{url}\">")),
            InitiatorType::Fetch | InitiatorType::FetchAndEval
                if !runtime && reference.method == "GET" && !reference.preflight =>
            {
                Some(format!("<link rel=preload as=fetch crossorigin=use-credentials href=\"{url}\">"))
            }
            _ => None,
        }
    }

    /// Returns HTML that starts the requests with these indices together: a `<template>` with their URLs, and
    /// `<x-r>`, a custom element that `runtime.js` defines, and that sends the requests.
    pub(super) fn template(&self, numbers: &[usize]) -> String {
        let (images, arrays): (Vec<_>, Vec<_>) = numbers.iter().map(|&number| self.parts(number)).unzip();
        format!("<template>{}</template><x-r a='[{}]'></x-r>", images.concat(), arrays.join(","))
    }

    /// Returns the number of bytes that request `number` adds to the HTML of [`Writer::template`].
    pub(super) fn template_bytes(&self, number: usize) -> usize {
        let (images, array) = self.parts(number);
        images.len() + array.len() + ",".len()
    }

    /// Returns two strings that describe a request and its deferred requests: `<img>` elements with the URLs,
    /// which clients without scripts can read, and a JavaScript array of other values, such as delays.
    fn parts(&self, number: usize) -> (String, String) {
        let mut images = String::new();
        let array = self.array(number, &mut |url| {
            let _ = write!(images, "<img src=\"{}\">", escape(&url));
            "0".to_owned()
        });
        (images, array)
    }

    /// Returns a JavaScript call that starts request `number`. `runtime.js` defines the called function.
    pub(super) fn call(&self, number: usize) -> String {
        format!("_({});", self.array(number, &mut |url| quote(&url)))
    }

    /// Returns a JavaScript array of the requests with these indices, for [`super::SyntheticPage::script`].
    pub(super) fn list(&self, numbers: &[usize]) -> String {
        let arrays: Vec<_> =
            numbers.iter().map(|&number| self.array(number, &mut |url| quote(&url))).collect();
        format!("[{}]", arrays.join(","))
    }

    /// Returns a JavaScript array that describes the request with index `number` for `runtime.js`. Default
    /// values at the end of the array are omitted. `write` formats the URLs in the array.
    fn array(&self, number: usize, write: &mut dyn FnMut(String) -> String) -> String {
        let reference = &self.references[number];
        let url = write(self.url(number));
        let Deferred { on_end, on_use } = &self.deferred[number];
        let on_end: Vec<_> = on_end.iter().map(|&number| self.array(number, write)).collect();
        let on_use: Vec<_> = on_use.iter().map(|&number| self.use_of(number)).collect();
        let more = match reference.initiator_type {
            InitiatorType::Stylesheet => on_use,
            InitiatorType::Fetch | InitiatorType::FetchAndEval if reference.preflight => {
                vec![quote(&reference.method), reference.request_body_bytes.to_string(), "1".into()]
            }
            InitiatorType::Fetch if reference.request_body_bytes > 0 => {
                vec![quote(&reference.method), reference.request_body_bytes.to_string()]
            }
            InitiatorType::Fetch if reference.method != "GET" => vec![quote(&reference.method)],
            _ => vec![],
        };
        let list = |items: &[String]| format!("[{}]", items.join(","));
        let mut array = vec![
            url,
            (reference.initiator_type as u8).to_string(),
            self.delay_ms(number).to_string(),
            list(&on_end),
            (reference.phase as u8).to_string(),
            list(&more),
        ];
        while array.len() > 2 && ["0", "[]"].contains(&array[array.len() - 1].as_str()) {
            array.pop();
        }
        list(&array)
    }

    /// Returns a JavaScript array for an image or font of a stylesheet. From the array, `runtime.js` creates
    /// an element that uses the image or font, so that the browser requests it.
    fn use_of(&self, number: usize) -> String {
        let reference = &self.references[number];
        let mut text = format!(
            "[{},{},{}",
            reference.first,
            u8::from(reference.initiator_type == InitiatorType::Font),
            self.delay_ms(number)
        );
        if reference.phase != Phase::Load {
            let _ = write!(text, ",{}", reference.phase as u8);
        }
        text + "]"
    }

    /// Returns a CSS rule that loads the request with index `number`; `None` if CSS cannot load its type.
    pub(super) fn rule(&self, number: usize) -> Option<String> {
        let reference = &self.references[number];
        let url = self.url(number).replace('\\', "\\\\");
        let name = reference.first;
        match reference.initiator_type {
            InitiatorType::Font => Some(format!("@font-face{{font-family:r{name};src:url(\"{url}\")}}")),
            InitiatorType::Image => Some(format!(".r{name}{{background:url(\"{url}\")}}")),
            InitiatorType::Stylesheet => Some(format!("@import \"{url}\";")),
            _ => None,
        }
    }
}

/// Escapes the ampersands of a URL for an HTML attribute, except ampersands that parsers read as plain text
/// ("named character reference state"), because not all download programs decode `&amp;`.
fn escape(url: &str) -> String {
    let mut parts = url.split('&');
    let mut escaped = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name = part.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let is_text = if name > 0 { part[name..].starts_with('=') } else { !part.starts_with('#') };
        escaped.push_str(if is_text { "&" } else { "&amp;" });
        escaped.push_str(part);
    }
    escaped
}

/// Returns `text`, which must have no quotes or control characters, as a JavaScript string in quotes.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\"))
}

#[cfg(test)]
#[path = "../../tests/unit/markup.rs"]
mod tests;
