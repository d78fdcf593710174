use super::{cookie, host_of, is_trustworthy, site_of};

#[test]
fn sites_are_told_by_scheme_and_the_last_labels_of_names() {
    let page = "https://www.a.test/page";
    assert_eq!(site_of("https://www.a.test/x", page), "same-origin");
    assert_eq!(site_of("https://cdn.a.test:8443/x", page), "same-site");
    assert_eq!(site_of("http://www.a.test/x", page), "cross-site");
    assert_eq!(site_of("https://b.test/x", page), "cross-site");
    assert_eq!(site_of("https://10.0.0.1/", "https://10.1.0.1/"), "cross-site");
    assert_eq!(site_of("https://b.test/x", ""), "cross-site");
}

#[test]
fn tls_and_this_machine_are_trustworthy() {
    for url in ["https://a.test/", "http://localhost:80/", "http://a.localhost/x?y", "http://127.9.9.9/"] {
        assert!(is_trustworthy(url), "{url}");
    }
    assert!(is_trustworthy("http://[::1]:8080/"));
    for url in ["http://a.test/", "http://localhost.a.test/", "http://128.0.0.1/", "http://[::2]/", ""] {
        assert!(!is_trustworthy(url), "{url}");
    }
    assert_eq!((host_of("http://[::1]:8080/"), host_of("http://a.test?x")), ("[::1]", "a.test"));
}

#[test]
fn cookies_have_any_length_and_their_long_crumbs_in_common() {
    for len in [1, 2, 31, 32, 33, 400, 5000] {
        assert_eq!(cookie(len).len(), len);
    }
    let crumbs = |len: usize| cookie(len).split("; ").skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(crumbs(200), crumbs(205));
    assert_eq!(crumbs(200).len(), 2);
}
