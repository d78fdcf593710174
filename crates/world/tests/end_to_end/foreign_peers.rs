//! Clients of others against the origins: nghttp2's over HTTP/2, ngtcp2's over HTTP/3 with 0-RTT.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{job, list, network, page, root, with};
use crate::virtual_time::exactly;

/// Where the program is; none, in words, where it is not.
fn installed(program: &str, package: &str) -> Option<PathBuf> {
    let found = ["/usr/bin", "/usr/sbin"].map(|folder| Path::new(folder).join(program));
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: no {program} (Debian's package {package})");
    }
    found
}

/// A page over TLS whose document has 5000 bytes.
fn of(http: &str, changes: Value) -> Value {
    let root = with(root(5000), json!({"url": "https://a.test/"}));
    let job = job(&page(&[root]), &network(100_000), &["tls"]);
    with(with(job, json!({"origins": {"http": http}, "tls": {"key_share": "x25519"}})), changes)
}

#[test]
fn clients_of_nghttp2_take_a_page_in_the_round_trips_that_its_first_flight_needs() {
    for (words, times) in [
        (&["nghttp", "-n", "https://a.test/"][..], 1),
        (&["h2load", "-n", "3", "-c", "1", "-m", "3", "https://a.test/"], 3),
    ] {
        if installed(words[0], "nghttp2-client").is_none() {
            return;
        }
        let command = json!({"client": {"kind": "command", "command": words}});
        let Some(run) = exactly(&of("2", command)) else { return };
        let load = run.valid("tls");
        let [connection] = list(&load["connections"]) else { panic!("not one connection: {run}") };
        assert_eq!(
            (&connection["tls"]["alpn"], &connection["tls"]["version"]),
            (&json!("h2"), &json!("1.3"))
        );
        let requests = list(&load["requests"]);
        assert_eq!(requests.len(), times, "{run}");
        for request in requests {
            assert_eq!((&request["status"], &request["body_bytes"]), (&json!(200), &json!(5000)));
            // Half a round trip before the client has it: TCP, TLS, and half of the request's own.
            let ms = request["first_byte_ns"].as_u64().expect("it was answered") / 1_000_000;
            assert_eq!(ms, 250, "{words:?}");
        }
    }
}

/// What both visits of a client print, of which the second has session, transport parameters and token of
/// the first.
const TWO_VISITS: &str = r#"cd "$(mktemp -d)"; for visit in 1 2; do
    gtlsclient --exit-on-all-streams-close --no-quic-dump --session-file=session --tp-file=parameters \
        --token-file=token a.test 443 https://a.test/ 2>&1; echo "visit $visit is over"; done"#;

#[test]
fn the_client_of_ngtcp2_is_answered_over_http3_and_its_early_data_is_taken() {
    if installed("gtlsclient", "ngtcp2-client").is_none() {
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign-peers-http3.json");
    fs::write(&file, of("3", json!({})).to_string()).expect("it is written");
    let shell = r#"exec "$0" --shell 3 4 -- sh -c "$1" 3<"$2" 4>/dev/null"#;
    let done = Command::new("sh")
        .args(["-c", shell, env!("CARGO_BIN_EXE_fastopen-world"), TWO_VISITS])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout);
    let visits: Vec<_> = said.split(" is over").collect();
    let [first, second, _] = visits[..] else { panic!("{said}{}", String::from_utf8_lossy(&done.stderr)) };
    let at = |visit: &str, words| visit.find(words).unwrap_or_else(|| panic!("no {words}: {visit}"));
    for visit in [first, second] {
        at(visit, "[:status: 200]");
        at(visit, "Negotiated ALPN is h3");
        assert!(!visit.contains("rejected"), "{visit}");
    }
    let (asked, complete) = ("submit request headers", "QUIC handshake has completed");
    assert!(at(first, complete) < at(first, asked), "{first}");
    assert!(at(second, asked) < at(second, complete), "{second}");
}
