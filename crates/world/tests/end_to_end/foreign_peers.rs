//! Tests of interoperation with other implementations: the clients of nghttp2 (HTTP/2) and ngtcp2 (HTTP/3
//! with 0-RTT) load pages from the origins, and the loader's QUIC client loads a page from ngtcp2's server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use fastopen_netns::clock::realtime_ns;
use fastopen_replay::http3::{Early, Quic, StreamTable};
use fastopen_replay::quic::table::{QuicEnd, QuicTable};
use fastopen_replay::quic::{Connected, QuicClient, Runtime, Settings, congestion_control};
use fastopen_replay::tls::{self, Authority, KeyShare};
use h3::error::StreamError;
use hyper::Request;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{job, list, network, page, root, with};
use crate::virtual_time::exactly;

/// Returns a program's path. If it is not installed, prints that the test is skipped and returns `None`.
fn installed(program: &str, package: &str) -> Option<PathBuf> {
    let found = ["/usr/bin", "/usr/sbin"].map(|folder| Path::new(folder).join(program));
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: no {program} (Debian's package {package})");
    }
    found
}

/// Returns a job that loads one document of 5000 bytes over TLS.
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
            // The time when the origin sends the first byte: after one round trip for TCP, one for TLS, and
            // half a round trip for the request.
            let ms = request["first_byte_ns"].as_u64().expect("it was answered") / 1_000_000;
            assert_eq!(ms, 250, "{words:?}");
        }
    }
}

/// A shell script that visits the origin twice with ngtcp2's client and prints the client's output. The
/// second visit uses the session, transport parameters and token of the first.
const TWO_VISITS: &str = r#"folder=$(mktemp -d) && trap 'rm -r "$folder"' EXIT && cd "$folder" || exit
for visit in 1 2; do
    gtlsclient --exit-on-all-streams-close --no-quic-dump --session-file=session --tp-file=parameters \
        --token-file=token a.test 443 https://a.test/ 2>&1; echo "visit $visit is over"; done"#;

#[test]
fn the_client_of_ngtcp2_is_answered_over_http3_and_its_early_data_is_taken() {
    if installed("gtlsclient", "ngtcp2-client").is_none() {
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign-peers-http3.json");
    let plan = json!({"job": of("3", json!({})), "servers": [], "start_s": 0});
    fs::write(&file, plan.to_string()).expect("it is written");
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

#[test]
fn the_client_of_ngtcp2_takes_a_page_over_http3_in_the_round_trips_of_each_first_flight() {
    if installed("gtlsclient", "ngtcp2-client").is_none() {
        return;
    }
    let words = "gtlsclient --exit-on-all-streams-close --no-quic-dump --no-http-dump --session-file=session \
        --tp-file=parameters --token-file=token a.test 443 https://a.test/";
    // The time when the origin sends the first byte, half a round trip before the client receives it.
    for (session, ms) in [("none", 150), ("resumed", 150), ("early", 50)] {
        // By default, the client sends 0-RTT packets with any ticket, even if the ticket does not allow early
        // data.
        let option = if session == "early" { "" } else { "--disable-early-data" };
        let command: Vec<_> = words.split_whitespace().chain(option.split_whitespace()).collect();
        let changes = json!({"client": {"kind": "command", "command": command},
            "tls": {"session": session, "chain_bytes": 3000}});
        let Some(run) = exactly(&of("3", changes)) else { return };
        let load = run.valid("tls");
        let [connection] = list(&load["connections"]) else { panic!("not one connection: {run}") };
        assert_eq!(connection["tls"]["resumed"], json!(session != "none"), "{run}");
        let [request] = list(&load["requests"]) else { panic!("not one request: {run}") };
        assert_eq!((&request["status"], &request["body_bytes"]), (&json!(200), &json!(5000)));
        assert_eq!(request["first_byte_ns"].as_u64().map(|ns| ns / 1_000_000), Some(ms), "{session}: {run}");
    }
}

#[test]
fn a_command_that_keeps_no_session_of_its_earlier_visit_has_an_invalid_load() {
    if installed("nghttp", "nghttp2-client").is_none() {
        return;
    }
    let command = json!({"kind": "command", "command": ["nghttp", "-n", "https://a.test/"]});
    let Some(run) = exactly(&of("2", json!({"client": command, "tls": {"session": "resumed"}}))) else {
        return;
    };
    assert_eq!(run.load("tls")["invalid"][0]["kind"], "not_resumed", "{run}");
}

/// A shell script that requests the page. Its second visit fails if the first one took less than the 60 ms of
/// three round trips: for TCP, TLS and the request.
const TIMED_VISIT: &str = r"begin=$(date +%s%N); curl --silent --output page https://a.test/ || exit
test -f took && exit $(($(cat took) < 60)); echo $((($(date +%s%N) - begin) / 1000000)) > took";

#[test]
fn the_earlier_visit_of_a_command_has_a_round_trip_time() {
    if installed("curl", "curl").is_none() {
        return;
    }
    let command = json!({"kind": "command", "command": ["sh", "-c", TIMED_VISIT]});
    let Some(run) = exactly(&of("1.1", json!({"client": command, "tls": {"session": "resumed"}}))) else {
        return;
    };
    // This curl keeps no session.
    let kinds: Vec<_> = list(&run.load("tls")["invalid"]).iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, ["not_resumed"], "{run}");
}

/// The process of ngtcp2's server; killed on drop.
struct Served(Child);

impl Served {
    /// Waits until the server ends by itself. Without this, a test would wait forever for the response of a
    /// server that has ended.
    async fn ended(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.0.try_wait().expect("it is a child") {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests the document over HTTP/3, and returns the number of bytes of its body.
async fn document(connected: &Connected, early: &watch::Sender<Early>) -> Result<usize, StreamError> {
    let adapter = Quic::new(connected.connection.clone(), StreamTable::default(), early.subscribe());
    let built = h3::client::builder().build::<_, Quic, bytes::Bytes>(adapter).await;
    let (mut http, mut sender) = built.expect("it speaks HTTP/3");
    let driver = tokio::spawn(async move { drop(http.wait_idle().await) });
    let request = Request::get("https://a.test/").body(()).expect("it is one");
    let asked = async {
        let mut stream = sender.send_request(request).await?;
        stream.finish().await?;
        assert_eq!(stream.recv_response().await?.status(), 200);
        let mut bytes = 0;
        while let Some(chunk) = stream.recv_data().await? {
            bytes += chunk.remaining();
        }
        Ok(bytes)
    };
    let bytes = asked.await;
    driver.abort();
    bytes
}

/// A clock that stands still, for rustls, which computes a ticket's age from whole seconds of its clock. With
/// a clock that runs, a ticket received at 0.9 s would be one second old at 1.0 s. ngtcp2's server rejects
/// early data if the ticket's reported age exceeds its true age.
#[derive(Debug)]
struct Standing(UnixTime);

impl TimeProvider for Standing {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

/// The results of one visit of the loader's QUIC client to ngtcp2's server.
#[derive(Debug)]
struct Visit {
    /// Bytes of the document's body.
    bytes: usize,
    resumed: bool,
    /// True if early data was accepted; `None` if the client had no session to send it with.
    early: Option<bool>,
    /// The QUIC packets that the client's socket sent and received.
    seen: QuicEnd,
}

async fn visit(client: QuicClient, address: SocketAddr) -> Visit {
    let table = Arc::<QuicTable>::default();
    let mut connected = client.connect("a.test", address, None, &table, |_| {}).await.expect("it answers");
    let accepted = connected.early.take();
    let early = watch::Sender::new(if accepted.is_some() { Early::Pending } else { Early::Taken });
    let settled = async {
        let accepted = accepted?.await;
        early.send_replace(if accepted { Early::Taken } else { Early::Rejected });
        Some(accepted)
    };
    let (bytes, accepted) = tokio::join!(document(&connected, &early), settled);
    // Wait for the tickets, which the server sends after the handshake.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let resumed = connected.handshake(0).session.resumed;
    let seen = table.seen(connected.four_tuple);
    Visit { bytes: bytes.expect("it is answered"), resumed, early: accepted, seen }
}

#[test]
fn the_loaders_quic_is_answered_by_the_server_of_ngtcp2_which_takes_its_early_data() {
    let Some(program) = installed("gtlsserver", "ngtcp2-server") else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign-server");
    fs::create_dir_all(folder.join("htdocs")).expect("it is made");
    fs::write(folder.join("htdocs/index.html"), "x".repeat(5000)).expect("it is written");
    let authority = Authority::new(realtime_ns()).expect("it has keys");
    let (chain, key) = authority.identity_pem(&["a.test".to_owned()].into(), 3000).expect("it is a name");
    fs::write(folder.join("chain.pem"), chain).expect("it is written");
    fs::write(folder.join("key.pem"), key).expect("it is written");
    let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.expect("there is one").port()));
    let served = Command::new(program)
        .args(["-q", "-d", "htdocs", "127.0.0.1", &address.port().to_string(), "key.pem", "chain.pem"])
        .current_dir(&folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut served = Served(served.expect("it runs"));
    let settings = Settings {
        control: congestion_control("cubic", 10).expect("quinn has it"),
        address_tokens: true,
        retry: false,
    };
    let clock = Arc::new(Standing(UnixTime::now()));
    let tls = tls::Settings { key_share: KeyShare::X25519, ..tls::Settings::default() };
    let client = QuicClient::new(settings, &tls, &authority, 1, true, clock);
    let client = client.expect("its authority is good");
    let runtime = Runtime::new().expect("it runs");
    let visits = runtime.block_on(async {
        let both = async {
            // Each visit is a spawned task. In `block_on`'s own future, the first flight would leave before
            // the request is queued, because tokio polls epoll before each poll of that future.
            let first = tokio::spawn(visit(client.clone(), address)).await.expect("it is answered");
            [first, tokio::spawn(visit(client, address)).await.expect("it is answered")]
        };
        tokio::select! {
            visits = both => visits,
            status = served.ended() => panic!("the server has ended: {status}"),
        }
    });
    let [first, second] = visits;
    assert_eq!((first.bytes, first.resumed, first.early), (5000, false, None), "{first:?}");
    assert_eq!((second.bytes, second.resumed, second.early), (5000, true, Some(true)), "{second:?}");
    for Visit { seen, .. } in [&first, &second] {
        assert!(seen.received.handshake > 0 && seen.received.one_rtt > 0, "{seen:?}");
    }
    assert!(second.seen.sent.zero_rtt > 0, "{second:?}");
}
