//! Parses and rewrites the URLs of a page.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use url::{Position, Url};

/// An absolute `http` or `https` URL with a host in lower case, a path, and neither fragment nor user name.
///
/// The text of the URL is stored as written, because request lines contain it as written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PageUrl {
    text: String,
    /// The URL as a browser writes it (WHATWG URL).
    url: Url,
    target_start: usize,
}

impl PageUrl {
    /// Parses a URL and checks the rules of [`PageUrl`].
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::of(text).map_err(|problem| format!("`{}`: {problem}", abbreviated(text)))
    }

    fn of(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("not an absolute URL: {error}"))?;
        let scheme = url.scheme();
        let host_start = scheme.len() + "://".len();
        if !matches!(scheme, "http" | "https") || !text.starts_with(&format!("{scheme}://")) {
            return Err("not an absolute http or https URL".to_owned());
        }
        if url.fragment().is_some() {
            return Err("has a fragment".to_owned());
        }
        let target_start = text[host_start..].find(['/', '?']).map_or(text.len(), |at| host_start + at);
        let authority = &text[host_start..target_start];
        if authority.contains('@') {
            return Err("has a user name".to_owned());
        }
        let host = url.host_str().unwrap_or_default();
        let Some(port_text) = authority.strip_prefix(host).filter(|_| !host.is_empty()) else {
            return Err(format!("host is not written as `{host}`"));
        };
        let port = url.port_or_known_default().unwrap_or_default();
        if port == 0 {
            return Err("port 0 is not a port".to_owned());
        }
        if !port_text.is_empty() && port_text != format!(":{port}") {
            return Err("port is not a plain number".to_owned());
        }
        let target = &text[target_start..];
        if !target.starts_with('/') || !target.bytes().all(may_stand_in_target) {
            return Err("path is missing or has characters that must be percent-encoded".to_owned());
        }
        Ok(Self { text: text.to_owned(), url, target_start })
    }

    /// Returns the URL as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the host in lower case. An IPv6 address is in brackets.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns the port of the URL, or the default port of its scheme if the URL has none.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    /// Returns the path and query as written, as in a request line (origin-form, RFC 9112 section 3.2.1).
    pub fn target(&self) -> &str {
        &self.text[self.target_start..]
    }

    /// Returns path and query as a browser requests them (WHATWG URL): without `..`, and percent-encoded.
    pub fn normalized_target(&self) -> String {
        self.url[Position::BeforePath..Position::AfterQuery].to_owned()
    }

    /// Returns true if a page load uses TLS for this URL. `schemes` may replace the URL's own scheme.
    pub fn is_encrypted(&self, schemes: Schemes) -> bool {
        match schemes {
            Schemes::Http => false,
            Schemes::Https => true,
            Schemes::Recorded => self.text.starts_with("https:"),
        }
    }

    /// Returns the URL as a browser writes it, with its scheme and host changed according to `rewrite`.
    pub fn rewritten(&self, rewrite: UrlRewrite) -> String {
        let (scheme, usual_port) =
            if self.is_encrypted(rewrite.schemes) { ("https", 443) } else { ("http", 80) };
        let host = if rewrite.aliased { &alias_host(self.host()) } else { self.host() };
        let port = if self.port() == usual_port { String::new() } else { format!(":{}", self.port()) };
        format!("{scheme}://{host}{port}{}", self.normalized_target())
    }
}

/// Changes to a page's URLs, for clients that follow the references in response bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UrlRewrite {
    /// True to replace each host by its [alias](alias_host).
    pub aliased: bool,
    /// The schemes that the changed URLs have.
    pub schemes: Schemes,
}

/// The schemes of URLs in a page load: `http` for all, `https` for all, or each URL's own scheme.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Schemes {
    /// All URLs are `http`: no server uses TLS.
    #[default]
    Http,
    /// All URLs are `https`: every server uses TLS, on the port that it has in the page.
    Https,
    /// Each URL keeps the scheme that it has in the page.
    Recorded,
}

/// Returns true if a host is a name, and false if it is an address. IPv6 addresses may be in brackets.
pub fn is_name(host: &str) -> bool {
    host.parse::<IpAddr>().is_err() && !host.starts_with('[')
}

/// Returns an alias of a host: its name with a different last letter, such as `en.wikipedia.orh`. Returns
/// addresses and names without a usable top-level domain unchanged.
///
/// Browsers use only `https` for hosts on the HSTS preload list. No alias is on the list, so browsers use
/// `http` for aliases as well. Different hosts have different aliases. If two hosts belong to one site, so do
/// their aliases, except under public suffixes of two labels such as `co.uk`.
pub fn alias_host(host: &str) -> String {
    let last = host.rsplit('.').next().unwrap_or_default();
    let stays =
        last == host || last.starts_with("xn--") || !last.ends_with(|end: char| end.is_ascii_lowercase());
    if stays {
        return host.to_owned();
    }
    let (rest, end) = host.split_at(host.len() - 1);
    let next = match end.as_bytes()[0] {
        b'z' => 'a',
        letter => char::from(letter + 1),
    };
    format!("{rest}{next}")
}

fn may_stand_in_target(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'`')
}

fn abbreviated(text: &str) -> String {
    const SHOWN: usize = 120;
    let rest = if text.chars().count() > SHOWN { "…" } else { "" };
    format!("{text:.SHOWN$}{rest}")
}

impl fmt::Display for PageUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl TryFrom<String> for PageUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<PageUrl> for String {
    fn from(url: PageUrl) -> Self {
        url.text
    }
}
