//! Tests of external servers: the kernel's reports on their listeners and connections, and the errors when
//! servers fail.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Run, image, job, list, network, page, plt_ms, root, run, with, with_syn_data};
use crate::virtual_time::{exactly, on_each_engine};

/// A Python program that serves the bodies of a.test. Unless `QUEUE` is 0, the program itself sets a Fast
/// Open queue of this length.
const SERVER: &str = r#"
import functools, http.server, os, socketserver
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 100
    def server_activate(self):
        super().server_activate()
        if QUEUE: self.socket.setsockopt(6, 23, QUEUE)
Handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="site/a.test")
Server(("", 80), Handler).serve_forever()
"#;

/// A proxy in Python that opens a connection to the origins for each request.
const PROXY: &str = r#"
import socket, socketserver
class Proxy(socketserver.BaseRequestHandler):
    def handle(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.request.recv(65536)
        with socket.create_connection((self.request.getsockname()[0], 8080)) as origin:
            origin.sendall(head[:-2] + b"connection: close\r\n\r\n")
            while answer := origin.recv(65536):
                self.request.sendall(answer)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("", 80), Proxy).serve_forever()
"#;

/// Returns a job that loads two resources of a.test from the server that this command line starts.
fn meeting(words: &[&str], arms: &[&str], server_listen: bool) -> Value {
    let page = page(&[root(5000), image("http://a.test/x%20y.png?1", 20_000)]);
    let origins = json!({"server": words, "server_listen": server_listen, "tfo_queue": 99});
    with(job(&page, &network(100_000), arms), json!({"origins": origins}))
}

fn python(queue: u32) -> [String; 3] {
    ["python3".into(), "-c".into(), SERVER.replace("QUEUE", &queue.to_string())]
}

fn meeting_python(queue: u32, arms: &[&str], server_listen: bool) -> Value {
    meeting(&python(queue).each_ref().map(String::as_str), arms, server_listen)
}

fn listener(load: &Value) -> &Value {
    let [listener] = list(&load["server"]["listeners"]) else { panic!("not one listener: {load:#}") };
    listener
}

/// Returns the kind and detail of the first reason why the load `id` is invalid.
fn reason<'a>(run: &'a Run, id: &str) -> (&'a str, &'a str) {
    let reason = &run.load(id)["invalid"][0];
    (reason["kind"].as_str().expect("it is invalid"), reason["detail"].as_str().expect("it is text"))
}

/// Returns the message of the run's only error.
fn error(run: &Run) -> &str {
    run.only("error")["message"].as_str().expect("it is text")
}

#[test]
fn a_server_that_asks_for_fast_open_saves_a_round_trip_by_the_kernels_word() {
    for run in on_each_engine(&meeting_python(16, &["tcp", "warm"], false)) {
        let [tcp, warm] = ["tcp", "warm"].map(|arm| run.valid(arm));
        assert!(plt_ms(tcp) - plt_ms(warm) > 90.0 || !run.is_of("virtual"), "{run}");
        let connections = list(&warm["connections"]).len();
        assert_eq!(with_syn_data(warm, "client"), connections, "{run}");
        assert_eq!(with_syn_data(warm, "origin"), connections, "{run}");
        let seen = json!({"address": "0.0.0.0", "port": 80, "fastopen_queue": 16, "connections": connections,
            "syn_data": connections});
        assert_eq!(listener(warm), &seen);
        assert_eq!(listener(tcp)["syn_data"], 0);
    }
}

#[test]
fn the_kernel_proves_fast_open_with_each_example() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/servers");
    for example in ["nginx.conf", "nginx-proxy.conf", "haproxy.cfg", "h2o.conf", "lighttpd.conf"] {
        let text = fs::read_to_string(examples.join(example)).expect("it is there");
        let line = text.split("--server '").nth(1).expect("its command is in the first lines");
        let line = line.split('\'').next().expect("it begins");
        let line = line.replace("examples/servers", examples.to_str().expect("it is text"));
        let words: Vec<_> = line.split(' ').collect();
        let program = ["/usr/sbin", "/usr/bin"].map(|folder| Path::new(folder).join(words[0]));
        let Some(program) = program.iter().find(|program| program.exists()) else {
            eprintln!(
                "skipped: {} is not installed (apt install nginx-light haproxy h2o lighttpd)",
                words[0]
            );
            continue;
        };
        let words = [&[program.to_str().expect("it is text")], &words[1..]].concat();
        // This resource is on another port. Examples that connect to port 8080 are proxies; for these, the
        // resource is a redirect, which a server of files cannot send.
        let mut other = image("https://b.test/r", 3000);
        if text.contains(":8080") {
            other = json!({"url": "https://b.test/r", "type": "image", "status": 302, "body_bytes": 0,
                "redirect_to": "http://a.test/x", "initiator": 0});
        }
        let page = page(&[root(5000), image("http://a.test/x", 20_000), other]);
        let origins = json!({"server": words, "server_listen": text.contains("--server-listen")});
        let job = with(job(&page, &network(50_000), &["tcp", "warm"]), json!({"origins": origins}));
        for run in on_each_engine(&job) {
            let [tcp, warm] = ["tcp", "warm"].map(|arm| run.valid(arm));
            assert_eq!(listener(tcp)["syn_data"], 0, "{example}: {run}");
            assert_eq!(listener(warm)["syn_data"], list(&warm["connections"]).len(), "{example}: {run}");
        }
    }
}

#[test]
fn a_listener_without_a_queue_is_named_or_gets_one_from_outside() {
    let run = run(&meeting_python(0, &["warm"], false));
    let (kind, detail) = reason(&run, "warm");
    assert_eq!(kind, "no_listener_queue");
    assert!(detail.starts_with("the server's listener on 0.0.0.0:80 has no Fast Open queue: "), "{detail}");
    for run in on_each_engine(&meeting_python(0, &["cold", "warm"], true)) {
        assert_eq!(listener(run.valid("cold"))["fastopen_queue"], 99);
        assert_eq!(listener(run.valid("warm"))["syn_data"], listener(run.load("warm"))["connections"]);
    }
    // A queue that the server sets itself is kept.
    if let Some(run) = exactly(&meeting_python(5, &["warm"], true)) {
        assert_eq!(listener(run.valid("warm"))["fastopen_queue"], 5);
    }
}

#[test]
fn hosts_that_a_server_does_not_serve_are_met_at_their_origins() {
    let page = page(&[root(5000), image("https://b.test/x", 20_000)]);
    let origins = json!({"server": python(16), "server_hosts": ["a.test"]});
    let job = with(job(&page, &network(50_000), &["tcp", "cold", "warm"]), json!({"origins": origins}));
    for run in on_each_engine(&job) {
        let warm = run.valid("warm");
        assert_eq!((with_syn_data(warm, "client"), with_syn_data(warm, "origin")), (2, 2), "{run}");
        assert_eq!((&listener(warm)["connections"], &listener(warm)["syn_data"]), (&json!(1), &json!(1)));
        // The server itself opens no connections to the origins.
        assert_eq!(warm["server"]["upstream"], json!({"connections": 0, "syn_data": 0}));
        run.valid("tcp");
        run.valid("cold");
    }
}

#[test]
fn a_proxys_connection_to_the_origins_costs_their_round_trip_and_fast_open_saves_it_by_the_kernels_word() {
    let load = |upstream_tfo: bool, rtt_ms: u64| {
        let origins = json!({"server": ["python3", "-c", PROXY], "server_listen": true,
            "upstream_tfo": upstream_tfo, "upstream_rtt_us": rtt_ms * 1000});
        with(job(&page(&[root(5000)]), &network(100_000), &["tcp", "warm"]), json!({"origins": origins}))
    };
    let mut took = Vec::new();
    for (upstream_tfo, rtt_ms) in [(false, 0), (false, 40), (true, 40)] {
        let Some(run) = exactly(&load(upstream_tfo, rtt_ms)) else { return };
        for arm in ["tcp", "warm"] {
            let upstream = json!({"connections": 1, "syn_data": u64::from(upstream_tfo)});
            assert_eq!(run.valid(arm)["server"]["upstream"], upstream, "{arm}: {run}");
        }
        took.push(["tcp", "warm"].map(|arm| plt_ms(run.valid(arm)).round()));
    }
    let [plain, far, saved] = took[..] else { panic!("three loads") };
    for arm in 0..2 {
        assert_eq!((far[arm] - plain[arm], saved[arm] - plain[arm]), (80.0, 40.0), "{took:?}");
    }
    for run in on_each_engine(&load(true, 0)) {
        assert_eq!(run.valid("warm")["server"]["upstream"]["syn_data"], 1, "{run}");
        assert_eq!(run.valid("tcp")["server"]["upstream"]["syn_data"], 1, "{run}");
    }
}

#[test]
fn a_server_that_does_not_listen_where_it_has_to_is_told_with_its_last_lines() {
    let script = "echo one; echo; echo two >&2; exit 3";
    for run in on_each_engine(&meeting(&["sh", "-c", script], &["tcp"], false)) {
        assert_eq!(error(&run), "the server sh ended with exit code 3: one | two", "{run}");
        assert_eq!((run.code, &run.only("error")["fault"]), (Some(4), &json!("world")));
    }
    let elsewhere =
        "python3 -c 'import http.server as s; s.HTTPServer((\"127.0.0.1\", 81), None).serve_forever()'";
    for (script, problem) in [
        ("true", "sh ended with exit code 0, and nothing listens on port 80"),
        ("kill -9 $$", "sh was ended by signal 9"),
        ("exec sleep 1000", "sh does not listen on port 80"),
        (elsewhere, "sh listens on 127.0.0.1:81, not on port 80 of the page's hosts"),
    ] {
        if let Some(run) = exactly(&meeting(&["sh", "-c", script], &["tcp"], false)) {
            assert_eq!(error(&run), format!("the server {problem}"), "{run}");
        }
    }
    let missing = run(&meeting(&["/nowhere/server"], &["tcp"], false));
    assert!(error(&missing).starts_with("origins.server: starting it: No such file"), "{missing}");
}

#[test]
fn a_server_that_may_not_write_where_it_would_is_told_with_what_to_do() {
    let script = ["sh", "-c", "echo 1 > /var/log/own.log"];
    for run in on_each_engine(&meeting(&script, &["tcp"], false)) {
        let told = error(&run);
        let (words, remedy) = told.rsplit_once("; ").expect("a remedy");
        assert!(words.contains("/var/log/own.log"), "{run}");
        assert!(remedy.starts_with("a server may write only below its working directory"), "{run}");
    }
}

#[test]
fn a_server_that_dies_during_a_load_or_answers_wrongly_makes_it_invalid() {
    let dying = "import os, socket\n\
        listener = socket.create_server(('', 80))\n\
        listener.accept(); print('enough'); os._exit(7)";
    let run = run(&meeting(&["python3", "-uc", dying], &["tcp", "tcp"], false));
    let dead = "the server python3 ended with exit code 7: enough";
    assert_eq!(reason(&run, "tcp"), ("server_failed", dead), "{run}");
    assert_eq!(error(&run), dead, "{run}");
    let other = ["python3", "-m", "http.server", "80"];
    if let Some(run) = exactly(&meeting(&other, &["tcp"], false)) {
        let wrong = "http://a.test/x%20y.png?1: status 404 and 335 bytes instead of 200 and 20000";
        let details: Vec<_> = list(&run.load("tcp")["invalid"]).iter().map(|one| &one["detail"]).collect();
        assert!(details.contains(&&json!(wrong)), "{run}");
    }
}

#[test]
fn a_server_writes_to_its_own_folder_alone_and_leaves_nothing() {
    let outside = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("written-by-a-server");
    let script = format!(
        "for place in inside ../beside /etc/x {} /proc/sys/net/ipv4/tcp_fastopen; do \
            (echo 1 > $place) 2>/dev/null && echo $place; done; grep CapEff /proc/self/status; ls site/*; exit 1",
        outside.display()
    );
    for run in on_each_engine(&meeting(&["sh", "-c", &script], &["tcp"], false)) {
        let told = error(&run).rsplit_once("exit code 1: ").expect("it has last lines").1.replace('\t', "");
        assert_eq!(told, "inside | CapEff:0000000000000000 | index.html | x y.png");
    }
    assert!(!outside.exists());
}
