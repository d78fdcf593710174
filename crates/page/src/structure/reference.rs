//! A reference as it is written: in HTML, in a script, in a stylesheet.

use std::fmt::Write as _;

use super::asking::{Asked, Via};
use crate::{Page, Phase, Spelling};

/// What hangs on a reference beside its own resource, by numbers among the asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Hanging {
    /// Asked for when it has ended.
    pub(super) after: Vec<usize>,
    /// Named by the stylesheet itself, asked for when something uses them.
    pub(super) used: Vec<usize>,
}

/// What all references are written from.
pub(super) struct Writer<'a> {
    pub(super) page: &'a Page,
    pub(super) spelling: Spelling,
    pub(super) asked: &'a [Asked],
    pub(super) hanging: Vec<Hanging>,
    /// Asked for without delay, since there was no room to say so.
    pub(super) hurried: Vec<bool>,
}

impl Writer<'_> {
    pub(super) fn url(&self, number: usize) -> String {
        self.page.resources[self.asked[number].first].url.spelled(self.spelling)
    }

    fn delay_ms(&self, number: usize) -> u64 {
        if self.hurried[number] { 0 } else { self.asked[number].delay_ms }
    }

    /// As an element that any parser knows; none where it takes more than that. With scripts at hand, stylesheets are not
    /// written so: parsers stop at them.
    pub(super) fn element(&self, number: usize, scripts: bool) -> Option<String> {
        let asked = &self.asked[number];
        let Hanging { after, used } = &self.hanging[number];
        let plain =
            after.is_empty() && used.is_empty() && asked.phase == Phase::Load && self.delay_ms(number) == 0;
        if scripts && !plain {
            return None;
        }
        let url = escape(&self.url(number));
        match asked.via {
            Via::Image => Some(format!("<img src=\"{url}\">")),
            // Not in the order of the document, nor when stylesheets before it have come: the page says what waits for what.
            Via::Script => Some(format!("<script async fetchpriority=high src=\"{url}\"></script>")),
            Via::Frame => Some(format!("<iframe src=\"{url}\"></iframe>")),
            Via::Stylesheet if !scripts => Some(format!("<link rel=stylesheet href=\"{url}\">")),
            Via::Fetch | Via::Evaluated if !scripts && asked.method == "GET" && !asked.preflight => {
                Some(format!("<link rel=preload as=fetch crossorigin=use-credentials href=\"{url}\">"))
            }
            _ => None,
        }
    }

    /// As elements for `runtime.js`.
    pub(super) fn template(&self, number: usize) -> String {
        let mut urls = Vec::new();
        let array = self.array(number, &mut |url| {
            urls.push(url);
            "0".to_owned()
        });
        let images: Vec<_> = urls.iter().map(|url| format!("<img src=\"{}\">", escape(url))).collect();
        format!("<template>{}</template><x-r a='{array}'></x-r>", images.concat())
    }

    /// As a call of `runtime.js`.
    pub(super) fn call(&self, number: usize) -> String {
        format!("_({});", self.array(number, &mut |url| quote(&url)))
    }

    /// The array that `runtime.js` reads, URLs as `write` writes them. What stands at its end and says nothing is left out.
    fn array(&self, number: usize, write: &mut dyn FnMut(String) -> String) -> String {
        let asked = &self.asked[number];
        let url = write(self.url(number));
        let Hanging { after, used } = &self.hanging[number];
        let after: Vec<_> = after.iter().map(|&number| self.array(number, write)).collect();
        let used: Vec<_> = used.iter().map(|&number| self.use_of(number)).collect();
        let more = match asked.via {
            Via::Stylesheet => used,
            Via::Fetch | Via::Evaluated if asked.preflight => {
                vec![quote(&asked.method), asked.request_body_bytes.to_string(), "1".into()]
            }
            Via::Fetch if asked.request_body_bytes > 0 => {
                vec![quote(&asked.method), asked.request_body_bytes.to_string()]
            }
            Via::Fetch if asked.method != "GET" => vec![quote(&asked.method)],
            _ => vec![],
        };
        let list = |items: &[String]| format!("[{}]", items.join(","));
        let mut array = vec![
            url,
            (asked.via as u8).to_string(),
            self.delay_ms(number).to_string(),
            list(&after),
            phase(asked.phase).to_string(),
            list(&more),
        ];
        while array.len() > 2 && ["0", "[]"].contains(&array[array.len() - 1].as_str()) {
            array.pop();
        }
        list(&array)
    }

    /// What makes something use what a stylesheet names.
    fn use_of(&self, number: usize) -> String {
        let asked = &self.asked[number];
        let mut text =
            format!("[{},{},{}", asked.first, u8::from(asked.via == Via::Font), self.delay_ms(number));
        if asked.phase != Phase::Load {
            let _ = write!(text, ",{}", phase(asked.phase));
        }
        text + "]"
    }

    /// As a rule of a stylesheet; none for what stylesheets do not name.
    pub(super) fn rule(&self, number: usize) -> Option<String> {
        let asked = &self.asked[number];
        let url = self.url(number).replace('\\', "\\\\");
        let name = asked.first;
        match asked.via {
            Via::Font => Some(format!("@font-face{{font-family:r{name};src:url(\"{url}\")}}")),
            Via::Image => Some(format!(".r{name}{{background:url(\"{url}\")}}")),
            Via::Stylesheet => Some(format!("@import \"{url}\";")),
            _ => None,
        }
    }
}

fn phase(phase: Phase) -> u8 {
    match phase {
        Phase::Load => 0,
        Phase::Async => 1,
        Phase::After => 2,
    }
}

/// A URL as the value of an attribute. An ampersand that begins no name of a character stays as it is: before no letter, digit or `#`,
/// or where the name would end with an equals sign (HTML, "named character reference state"). Not all downloaders know the names.
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

/// A string of JavaScript and JSON. URLs and methods have neither quotes nor control characters.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\"))
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn only_what_could_be_read_as_a_character_is_escaped() {
        assert_eq!(escape("/?a=1&lang=en&lt=2"), "/?a=1&lang=en&lt=2");
        assert_eq!(escape("/?&copy_of=1&amp;&#65;&"), "/?&amp;copy_of=1&amp;amp;&amp;#65;&");
        assert_eq!(escape("/?a=&*"), "/?a=&*");
    }
}
