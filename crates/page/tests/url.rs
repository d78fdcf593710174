//! Tests URLs of pages: their parts, their aliases, and the strings that are refused.

use fastopen_page::{PageUrl, Schemes, UrlRewrite, alias_host};
use proptest::prelude::*;

fn problem(text: &str) -> String {
    PageUrl::parse(text).unwrap_err().split_once("`: ").unwrap().1.to_owned()
}

#[test]
fn the_parts_of_a_url_are_as_written() {
    let url = PageUrl::parse("http://a.test:8080/x/../y?q=%20'{}").unwrap();
    assert_eq!((url.host(), url.port(), url.target()), ("a.test", 8080, "/x/../y?q=%20'{}"));
    let url = PageUrl::parse("https://[2001:db8::1]/").unwrap();
    assert_eq!((url.host(), url.port(), url.target()), ("[2001:db8::1]", 443, "/"));
    assert_eq!(PageUrl::parse("http://a_b.test:80/").unwrap().port(), 80);
}

#[test]
fn an_alias_host_has_the_length_of_its_host() {
    let cases = [("en.wikipedia.org", "en.wikipedia.orh"), ("a.xyz", "a.xya"), ("localhost", "localhost")];
    for (host, alias) in [&cases[..], &[("192.0.2.1", "192.0.2.1"), ("a.xn--p1ai", "a.xn--p1ai")]].concat() {
        assert_eq!(alias_host(host), alias);
    }
    let url = PageUrl::parse("https://a.test/x/../y?q={'}").unwrap();
    let rewritten = |aliased, schemes| url.rewritten(UrlRewrite { aliased, schemes });
    assert_eq!(rewritten(false, Schemes::Http), "http://a.test:443/y?q={%27}");
    assert_eq!(rewritten(true, Schemes::Http), "http://a.tesu:443/y?q={%27}");
    assert_eq!(rewritten(true, Schemes::Https), "https://a.tesu/y?q={%27}");
    assert_eq!(rewritten(false, Schemes::Recorded), "https://a.test/y?q={%27}");
    let plain = PageUrl::parse("http://a.test/").unwrap();
    assert_eq!(
        plain.rewritten(UrlRewrite { schemes: Schemes::Https, ..UrlRewrite::default() }),
        "https://a.test:80/"
    );
    assert_eq!(
        plain.rewritten(UrlRewrite { schemes: Schemes::Recorded, ..UrlRewrite::default() }),
        "http://a.test/"
    );
}

#[test]
fn an_invalid_url_is_refused_with_the_reason() {
    assert_eq!(problem("/x"), "not an absolute URL: relative URL without a base");
    assert_eq!(problem("ftp://a.test/"), "not an absolute http or https URL");
    assert_eq!(problem("http:/a.test/"), "not an absolute http or https URL");
    assert_eq!(problem("HTTP://a.test/"), "not an absolute http or https URL");
    assert_eq!(problem("http://a.test/#top"), "has a fragment");
    assert_eq!(problem("http://me@a.test/"), "has a user name");
    assert_eq!(problem("http://A.test/"), "host is not written as `a.test`");
    assert_eq!(problem("http://ü.test/"), "host is not written as `xn--tda.test`");
    assert_eq!(problem("http://1.2/"), "host is not written as `1.0.0.2`");
    assert_eq!(problem("http://a.test:0/"), "port 0 is not a port");
    assert_eq!(problem("http://a.test:080/"), "port is not a plain number");
    assert_eq!(problem("http://a.test:/"), "port is not a plain number");
    let encoded = "path is missing or has characters that must be percent-encoded";
    for text in
        ["http://a.test", "http://a.test?q", "http://a.test/ x", "http://a.test/ä", "http://a.test/\n"]
    {
        assert_eq!(problem(text), encoded, "{text}");
    }
}

#[test]
fn an_error_shows_the_beginning_of_a_long_url() {
    let error = PageUrl::parse(&format!("http://A.test/{}", "x".repeat(500))).unwrap_err();
    assert!(error.starts_with("`http://A.test/xxx"), "{error}");
    assert!(error.ends_with("xxx…`: host is not written as `a.test`"), "{error}");
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(
        text in "(https?:/{0,3})?[a-zA-Zü.@:\\[\\]0-9]{0,12}[/?#\\\\ -~\t]{0,12}",
    ) {
        if let Ok(url) = PageUrl::parse(&text) {
            prop_assert_eq!(url.as_str(), &text);
            prop_assert!(url.target().starts_with('/'));
        }
    }
}
