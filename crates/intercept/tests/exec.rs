//! Tests programs under interception in a separate network namespace: their behaviour, the kernel's counters,
//! and processes that outlive the command or the supervisor.
//!
//! Each test runs itself again inside the namespace, as a separate process.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use fastopen_netns::route::RouteSocket;
use fastopen_netns::{sysctl, tcp};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Environment variable with the name of the test to run inside the namespace.
const INSIDE: &str = "FASTOPEN_TEST_INSIDE";
const V4: &str = "127.0.0.1:8000";
const V6: &str = "[::1]:8000";

/// Runs `inside` in a new network namespace, with `net.ipv4.tcp_fastopen` set to `fast_open`.
fn in_namespace_with(fast_open: &str, name: &str, inside: fn()) {
    if std::env::var(INSIDE).is_ok_and(|wanted| wanted == name) {
        RouteSocket::open().and_then(|mut routes| routes.bring_up("lo")).expect("loopback");
        sysctl::set("net.ipv4.tcp_fastopen", fast_open).expect("the namespace is ours");
        inside();
        return;
    }
    let program = std::env::current_exe().expect("this is a program");
    let done = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net"])
        .arg(program)
        .args(["--exact", "--nocapture", name])
        .env(INSIDE, name)
        .output()
        .expect("unshare (util-linux) is installed");
    let output = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(done.status.success() && output.contains("1 passed"), "{output}");
}

fn in_namespace(name: &str, inside: fn()) {
    in_namespace_with("3", name, inside);
}

/// Compiles the test program and returns its path; `linked` is `static` or `dynamic`.
fn client(linked: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(format!("client-{linked}"));
    // Concurrent tests compile the same program, so each replaces the file atomically.
    let own = folder.join(format!("client-{linked}-{}", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/client.rs");
    let feature = if linked == "static" { "+crt-static" } else { "-crt-static" };
    let done = Command::new("rustc")
        .args(["--edition=2024", "-C", &format!("target-feature={feature}"), "-o"])
        .args([own.as_path(), Path::new(source)])
        .output()
        .expect("rustc is in the PATH");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::rename(&own, &program).expect("they are in one folder");
    program
}

fn dynamic() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| client("dynamic").display().to_string())
}

/// Returns a command that runs `command` under the tested program. The report goes to standard output (as
/// descriptor 9), and the output of `command` to standard error.
fn exec(command: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    let run = "exec 9>&1 >&2; exec \"$0\" 9 -- \"$@\"";
    shell.args(["-c", run, env!("CARGO_BIN_EXE_fastopen-intercept")]).args(command);
    shell
}

/// The exit code, the records and the standard error of a command.
struct Done {
    code: Option<i32>,
    records: Vec<Value>,
    stderr: String,
}

impl Done {
    fn report(&self) -> &Value {
        let last = self.records.last().unwrap_or_else(|| panic!("no record; {}", self.stderr));
        assert_eq!(last["type"], "ended", "{last}; {}", self.stderr);
        last
    }

    fn total(&self, key: &str) -> u64 {
        self.report()["total"][key].as_u64().unwrap_or_else(|| panic!("no {key} in {}", self.report()))
    }

    /// Returns counts: connections, cookie requests, SYNs with data, acknowledged SYN data, unknown outcomes.
    fn counts(&self) -> [u64; 5] {
        ["connections", "cookie_requested", "syn_data_sent", "syn_data_acked", "unknown"]
            .map(|key| self.total(key))
    }
}

fn run(command: &[&str]) -> Done {
    let done = exec(command).output().expect("it runs");
    let records = done.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Done {
        code: done.status.code(),
        records: records.map(|line| serde_json::from_slice(line).expect("a record")).collect(),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

/// Starts a server that issues Fast Open cookies and answers requests until this process ends. On each
/// connection it first sends `greeting`.
fn server(address: &str, greeting: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind(address).expect("the address is free");
    tcp::set_fastopen_queue(&listener, 1000).expect("it listens");
    let bound = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.expect("accept");
                let _ = stream.write_all(greeting);
                let _ = stream.read(&mut [0; 100]);
                let _ = stream.write_all(b"answer");
            });
        }
    });
    bound
}

/// A running command, with its standard input and the records of its run.
struct Running {
    child: Child,
    stdin: ChildStdin,
    records: BufReader<ChildStdout>,
    stderr: BufReader<std::process::ChildStderr>,
    pid: i32,
}

impl Running {
    fn start(command: &[&str]) -> Self {
        let pipes = |mut command: Command| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
        };
        let mut child = pipes(exec(command)).expect("it starts");
        let stdin = child.stdin.take().expect("it is piped");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let records = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut running = Self { child, stdin, records, stderr, pid: 0 };
        running.pid = running.record()["pid"].as_i64().expect("the first record has it") as i32;
        running
    }

    fn record(&mut self) -> Value {
        serde_json::from_str(&line(&mut self.records)).expect("a record")
    }

    /// Makes the program in mode `stepwise` connect once, and returns the line that it prints.
    fn connect_once(&mut self) -> String {
        self.stdin.write_all(b"\n").expect("it reads");
        line(&mut self.stderr)
    }

    fn supervisor(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("it is text");
    line.trim_end().to_owned()
}

#[test]
fn static_and_dynamic_programs_send_data_in_the_syn_over_ipv4_and_ipv6() {
    in_namespace("static_and_dynamic_programs_send_data_in_the_syn_over_ipv4_and_ipv6", || {
        for (linked, port) in [("static", 8000), ("dynamic", 8001)] {
            let program = client(linked).display().to_string();
            for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
                server(&address, b"");
                let done = run(&[&program, "write", &address, "5"]);
                assert_eq!(done.code, Some(0), "{}", done.stderr);
                // The kernel keeps cookies by address, so the second program need not request one.
                let asked = u64::from(linked == "static");
                assert_eq!(done.counts(), [5, asked, 5 - asked, 5 - asked, 0], "{linked} {address}");
                assert_eq!(done.report()["peers"][0]["peer"], address);
            }
        }
    });
}

#[test]
fn nonblocking_sockets_threads_and_children_send_data_in_the_syn() {
    in_namespace("nonblocking_sockets_threads_and_children_send_data_in_the_syn", || {
        server(V4, b"");
        run(&[dynamic(), "write", V4, "1"]);
        for (mode, count, connections) in
            [("nonblocking", "5", 5), ("threads", "10", 80), ("children", "3", 3)]
        {
            let done = run(&[dynamic(), mode, V4, count]);
            assert_eq!(done.code, Some(0), "{mode}: {}", done.stderr);
            assert_eq!(done.counts(), [connections, 0, connections, connections, 0], "{mode}");
        }
    });
}

#[test]
fn a_thousand_connections_are_all_counted() {
    in_namespace("a_thousand_connections_are_all_counted", || {
        server(V6, b"");
        let done = run(&[dynamic(), "threads", V6, "125"]);
        assert_eq!((done.total("connections"), done.total("established")), (1000, 1000), "{}", done.stderr);
        assert_eq!((done.total("unknown"), done.report()["overrun"].as_bool()), (0, Some(false)));
    });
}

#[test]
fn a_client_that_waits_for_the_server_to_speak_does_not_wait_for_ever() {
    in_namespace("a_client_that_waits_for_the_server_to_speak_does_not_wait_for_ever", || {
        server(V4, b"hello");
        let done = run(&[dynamic(), "read", V4, "4"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert_eq!(done.counts(), [4, 1, 0, 0, 0]);
        // The SYN of the first connection is sent at once, because it requests the cookie.
        assert_eq!(done.report()["begun_without_data"], 3);
    });
}

#[test]
fn a_connection_that_waits_for_its_first_write_has_a_peer() {
    in_namespace("a_connection_that_waits_for_its_first_write_has_a_peer", || {
        for address in [V4, V6] {
            server(address, b"");
            let done = run(&[dynamic(), "peer", address, "3"]);
            assert_eq!(done.code, Some(0), "{}", done.stderr);
            assert_eq!(done.counts(), [3, 1, 2, 2, 0]);
        }
    });
}

#[test]
fn nothing_needs_a_privilege_and_none_can_be_gained() {
    in_namespace("nothing_needs_a_privilege_and_none_can_be_gained", || {
        server(V4, b"");
        let script = "exec 9>&1 >&2; exec \"$0\" 9 -- sh -c 'grep -E \"CapEff|NoNewPrivs\" \
            /proc/self/status >&2; \"$0\" write \"$1\" 3' \"$@\"";
        let done = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all", "sh", "-c", script])
            .args([env!("CARGO_BIN_EXE_fastopen-intercept"), dynamic(), V4])
            .output()
            .expect("setpriv (util-linux) is installed");
        let status = String::from_utf8_lossy(&done.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(status, "CapEff: 0000000000000000 NoNewPrivs: 1");
        let last = done.stdout.split(|byte| *byte == b'\n').rev().nth(1).expect("a record");
        let report: Value = serde_json::from_slice(last).expect("a record");
        assert_eq!(report["total"]["syn_data_acked"], 2, "{report}");
    });
}

#[test]
fn connections_of_calls_that_send_with_msg_fastopen_are_counted() {
    in_namespace("connections_of_calls_that_send_with_msg_fastopen_are_counted", || {
        for (address, family) in [(V4, "AF_INET"), (V6, "AF_INET6")] {
            server(address, b"");
            let host = address.parse::<SocketAddr>().expect("an address").ip();
            for send in
                ["sendto(b'request', MSG_FASTOPEN, peer)", "sendmsg([b'request'], [], MSG_FASTOPEN, peer)"]
            {
                let script = format!(
                    "from socket import *\npeer = ('{host}', 8000)\nfor _ in range(3):\n    \
                     with socket({family}) as one:\n        one.{send}\n        assert one.recv(9) == b'answer'"
                );
                let done = run(&["python3", "-c", &script]);
                assert_eq!(done.code, Some(0), "{}", done.stderr);
                assert_eq!(done.report()["peers"][0]["peer"], address);
                // Only the first connection to an address requests a cookie.
                let [connections, .., unknown] = done.counts();
                assert_eq!((connections, unknown), (3, 0));
                assert!(done.total("syn_data_acked") >= 2, "{}", done.report());
            }
        }
    });
}

#[test]
fn sockets_that_are_not_of_tcp_are_left_alone() {
    in_namespace("sockets_that_are_not_of_tcp_are_left_alone", || {
        let done = run(&[dynamic(), "others", V4, "1"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert_eq!(done.counts(), [0; 5]);
        assert_eq!(done.report()["not_helped"], serde_json::json!({}));
    });
}

#[test]
fn a_server_hands_out_cookies_and_takes_data_in_the_syn() {
    in_namespace("a_server_hands_out_cookies_and_takes_data_in_the_syn", || {
        let mut serving = Running::start(&[dynamic(), "serve", V4, "3"]);
        assert_eq!(line(&mut serving.stderr), "listening");
        let done = run(&[dynamic(), "write", V4, "3"]);
        assert_eq!(done.counts(), [3, 1, 2, 2, 0]);
        assert_eq!(serving.record()["listeners"], 1);
        assert_eq!(serving.child.wait().expect("it ends").code(), Some(0));
    });
}

#[test]
fn a_refused_connection_is_counted_as_failed() {
    in_namespace("a_refused_connection_is_counted_as_failed", || {
        let done = run(&[dynamic(), "write", V4, "1"]);
        assert_eq!((done.total("connections"), done.total("failed")), (1, 1));
        assert_eq!(done.code, Some(101), "a panic's");
    });
}

#[test]
fn exit_codes_and_signals_are_the_commands() {
    in_namespace("exit_codes_and_signals_are_the_commands", || {
        let done = run(&["sh", "-c", "exit 42"]);
        assert_eq!((done.code, done.report()["exit_code"].as_i64()), (Some(42), Some(42)));
        let done = run(&["sh", "-c", "kill -USR1 $$"]);
        assert_eq!((done.code, done.report()["signal"].as_i64()), (Some(138), Some(10)));
        for (command, code, words) in
            [("/nowhere/at/all", 127, "no such command"), ("/etc/passwd", 126, "denied")]
        {
            let done = run(&[command]);
            assert_eq!(done.code, Some(code));
            assert_eq!(done.records[0]["type"], "failed");
            assert!(done.records[0]["message"].as_str().is_some_and(|text| text.contains(words)));
        }
    });
}

#[test]
fn a_signal_sent_to_the_supervisor_reaches_the_command() {
    in_namespace("a_signal_sent_to_the_supervisor_reaches_the_command", || {
        let mut running = Running::start(&["sleep", "1000"]);
        kill(running.supervisor(), Signal::SIGTERM).expect("it lives");
        let ended = running.record();
        assert_eq!((ended["type"].as_str(), ended["signal"].as_i64()), (Some("ended"), Some(15)));
        assert_eq!(running.child.wait().expect("it ends").code(), Some(143));
    });
}

#[test]
fn a_stop_of_the_command_is_recorded() {
    in_namespace("a_stop_of_the_command_is_recorded", || {
        let mut running = Running::start(&["sleep", "1000"]);
        kill(Pid::from_raw(running.pid), Signal::SIGSTOP).expect("it lives");
        assert_eq!(running.record(), serde_json::json!({"type": "stopped", "signal": 19}));
        kill(Pid::from_raw(running.pid), Signal::SIGKILL).expect("it lives");
        assert_eq!(running.record()["signal"], 9);
    });
}

#[test]
fn a_supervisor_that_is_killed_leaves_a_command_that_cannot_connect_but_does_not_hang() {
    in_namespace(
        "a_supervisor_that_is_killed_leaves_a_command_that_cannot_connect_but_does_not_hang",
        || {
            server(V4, b"");
            let mut running = Running::start(&[dynamic(), "stepwise", V4, "1"]);
            assert_eq!(running.connect_once(), "connected true");
            kill(running.supervisor(), Signal::SIGKILL).expect("it lives");
            running.child.wait().expect("it is dead");
            assert_eq!(running.connect_once(), format!("failed {}", libc::ENOSYS));
            kill(Pid::from_raw(running.pid), Signal::SIGKILL).expect("it lives");
        },
    );
}

#[test]
fn a_close_is_a_close_though_the_supervisor_sleeps() {
    in_namespace("a_close_is_a_close_though_the_supervisor_sleeps", || {
        let listener = TcpListener::bind(V4).expect("the address is free");
        let mut running = Running::start(&[dynamic(), "stepwise", V4, "1"]);
        let supervisor = running.supervisor();
        running.stdin.write_all(b"\n").expect("it reads");
        let (mut stream, _) = listener.accept().expect("it connects");
        kill(supervisor, Signal::SIGSTOP).expect("it lives");
        // If the supervisor had a duplicate of the socket, the connection would stay open.
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the client closes");
        kill(supervisor, Signal::SIGCONT).expect("it lives");
        assert_eq!(all, b"x");
        drop(running.stdin);
        assert_eq!(running.child.wait().expect("it ends").code(), Some(0));
    });
}

#[test]
fn orphans_of_the_command_are_supervised_until_they_end() {
    in_namespace("orphans_of_the_command_are_supervised_until_they_end", || {
        server(V4, b"");
        run(&[dynamic(), "write", V4, "1"]);
        // The orphan waits for a line, connects, and prints `done` if that succeeded.
        let script = format!("(read x; {} write {V4} 1 && echo done >&2) <&3 &", dynamic());
        let mut running = Running::start(&["sh", "-c", &format!("exec 3<&0; {script}")]);
        let ended = running.record();
        assert_eq!((ended["exit_code"].as_i64(), ended["goes_on"].as_bool()), (Some(0), Some(true)));
        assert!(running.child.try_wait().expect("it is a child").is_none(), "it looks after the orphan");
        running.stdin.write_all(b"\n").expect("the orphan reads");
        assert_eq!(line(&mut running.stderr), "done");
        assert_eq!(running.child.wait().expect("it ends").code(), Some(0));
    });
}

#[test]
fn interception_inside_another_is_refused() {
    in_namespace("interception_inside_another_is_refused", || {
        let program = env!("CARGO_BIN_EXE_fastopen-intercept");
        let done = run(&[program, "--", "true"]);
        assert_eq!(done.code, Some(3));
        assert!(done.stderr.contains("there is a listener already"), "{}", done.stderr);
    });
}

#[test]
fn where_fast_open_is_off_the_remedy_is_named() {
    in_namespace_with("0", "where_fast_open_is_off_the_remedy_is_named", || {
        let done = run(&["true"]);
        assert_eq!(done.code, Some(3));
        assert_eq!(done.records[0]["remedy"], "as root: sysctl -w net.ipv4.tcp_fastopen=3");
    });
}

#[test]
fn where_only_servers_may_use_it_connections_go_on_without() {
    in_namespace_with("2", "where_only_servers_may_use_it_connections_go_on_without", || {
        server(V4, b"");
        let done = run(&[dynamic(), "write", V4, "2"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert_eq!(done.report()["not_helped"]["net.ipv4.tcp_fastopen lacks the client bit"], 2);
        assert!(TcpStream::connect(V4).is_ok());
    });
}
