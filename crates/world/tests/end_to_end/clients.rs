//! Tests of commands as clients, on both engines: their environment, their records and their failures.

use serde_json::{Value, json};

use crate::support::{
    Run, Temporary, image, job, list, network, number, page, plt_ms, request, root, with, with_syn_data,
};
use crate::virtual_time::on_each_engine;

/// A bash script that requests the URLs given as arguments (HOST PATH HOST PATH …) one after another, each on
/// its own connection. `cat` writes the whole request at once; the here-string adds the final line feed.
const FETCH: &str = r#"while (($#)); do
    exec 3<>"/dev/tcp/$1/80"; cat <<<"GET $2 HTTP/1.1"$'\r\n'"Host: $1"$'\r\nConnection: close\r\n\r' >&3
    cat <&3 >/dev/null; exec 3>&-; shift 2; done"#;

/// Returns changes that make a bash script with these arguments the client of a job.
fn bash(script: &str, arguments: &[&str]) -> Value {
    let words = [&["bash", "-c", script, "client"][..], arguments].concat();
    json!({"client": {"kind": "command", "command": words}})
}

/// Returns a page of three resources on two hosts.
fn three() -> Value {
    page(&[root(5000), image("http://b.test/1", 20_000), image("http://a.test/2", 3000)])
}

const ALL: [&str; 6] = ["a.test", "/", "b.test", "/1", "a.test", "/2"];

/// Runs a script as the client of a small page on each engine. Returns each load's record, and the detail of
/// the reason why the load is invalid. Panics unless the reason is of the kind `incomplete`.
fn faults(script: &str) -> Vec<(Value, String)> {
    let job = with(job(&page(&[root(100)]), &network(0), &["tcp"]), bash(script, &[]));
    let fault = |run: Run| {
        let load = run.load("tcp");
        assert_eq!(load["valid"], false, "{run}");
        let reason = &load["invalid"][0];
        assert_eq!(reason["kind"], "incomplete", "{run}");
        (load.clone(), reason["detail"].as_str().expect("it is text").to_owned())
    };
    on_each_engine(&job).into_iter().map(fault).collect()
}

#[test]
fn any_command_saves_a_round_trip_for_each_of_its_connections() {
    let job = with(job(&three(), &network(100_000), &["tcp", "cold", "warm"]), bash(FETCH, &ALL));
    for run in on_each_engine(&job) {
        let [tcp, cold, warm] = ["tcp", "cold", "warm"].map(|arm| run.valid(arm));
        let counts = [tcp, cold, warm].map(|load| with_syn_data(load, "client"));
        assert_eq!(counts, [0, 1, 3], "{run}");
        assert_eq!([tcp, cold, warm].map(|load| with_syn_data(load, "origin")), counts, "{run}");
        assert!(plt_ms(tcp) >= 600.0 && plt_ms(warm) >= 300.0, "{run}");
        // Checked only in virtual time: on a busy machine, the command's own run time varies by more than
        // these margins.
        if run.is_of("virtual") {
            assert!(plt_ms(tcp) - plt_ms(cold) > 90.0 && plt_ms(cold) - plt_ms(warm) > 180.0, "{run}");
        }
    }
}

#[test]
fn a_command_that_sends_with_msg_fastopen_has_one_connection_with_fast_open_on_and_off() {
    // Without Fast Open, the kernel refuses `sendto`, and the client connects another socket.
    let script = "from socket import *
head, peer = b'GET / HTTP/1.1\\r\\nHost: a.test\\r\\nConnection: close\\r\\n\\r\\n', ('a.test', 80)
one = socket()
try:
    one.sendto(head, MSG_FASTOPEN, peer)
except OSError:
    one = create_connection(peer)
    one.sendall(head)
while one.recv(9999):
    pass";
    let client = json!({"client": {"kind": "command", "command": ["python3", "-c", script]}});
    let job = with(job(&page(&[root(5000)]), &network(20_000), &["tcp", "warm"]), client);
    for run in on_each_engine(&job) {
        let found = ["tcp", "warm"].map(|arm| {
            let load = run.valid(arm);
            (list(&load["connections"]).len(), with_syn_data(load, "client"))
        });
        assert_eq!(found, [(1, 0), (1, 1)], "{run}");
    }
}

#[test]
fn the_origins_record_the_requests_of_a_command() {
    let job = with(job(&three(), &network(100_000), &["tcp"]), bash(FETCH, &ALL));
    for run in on_each_engine(&job) {
        let load = run.valid("tcp");
        assert_eq!((&load["seen_at"], &load["unknown_requests"]), (&json!("origins"), &json!(0)));
        let [first, second, third] = [0, 1, 2].map(|resource| request(load, resource));
        assert_eq!([first, second, third].map(|one| number(&one["body_bytes"])), [5000, 20_000, 3000]);
        assert_eq!([first, second, third].map(|one| number(&one["connection"])), [0, 1, 2]);
        let times = |one: &Value| {
            ["connect_start_ns", "connected_ns", "sent_ns", "first_byte_ns", "end_ns"]
                .map(|key| number(&one[key]))
        };
        for one in [first, second, third] {
            let [begun, connected, sent, begins, ends] = times(one);
            assert!(one["queued_ns"].is_null() && connected - begun >= 100_000_000, "{one}");
            assert!(
                connected <= sent && sent <= begins && begins <= ends && ends <= number(&load["plt_ns"]),
                "{one}"
            );
        }
        assert!(times(second)[0] > times(first)[4] && times(third)[0] > times(second)[4], "{run}");
        let connections = list(&load["connections"]);
        assert_eq!(connections.len(), 3);
        for connection in connections {
            // The handshake is measured at the client, where it ends half a round trip earlier than at the
            // origin.
            let handshake = number(&connection["handshake_us"]);
            assert!(handshake >= 100_000, "{connection}");
            assert!(run.is_of("host") || handshake < 101_000, "{connection}");
            // `tcpi_bytes_sent` includes retransmitted bytes. A busy machine may be so late that TCP
            // retransmits.
            let sent = number(&connection["client"]["bytes_sent"]);
            let received = number(&connection["origin"]["bytes_received"]);
            let again = run.is_of("host") && connection["client"]["retransmits"] != 0;
            assert!(sent == received || (again && sent > received), "{connection}");
        }
    }
}

#[test]
fn a_command_may_request_less_than_the_page_and_what_the_page_does_not_have() {
    let arguments = ["a.test", "/", "a.test", "/robots.txt"];
    let job = with(job(&three(), &network(0), &["warm"]), bash(FETCH, &arguments));
    for run in on_each_engine(&job) {
        let load = run.valid("warm");
        assert_eq!((list(&load["requests"]).len(), &load["unknown_requests"]), (1, &json!(1)), "{run}");
        assert_eq!(list(&load["connections"]).len(), 2, "{run}");
    }
}

#[test]
fn a_command_that_fails_is_reported_with_the_last_line_of_its_standard_error() {
    for (load, detail) in faults("echo one >&2; echo 'two: no luck' >&2; echo >&2; exit 3") {
        assert_eq!(detail, "bash ended with exit code 3: two: no luck");
        assert!(load["plt_ns"].is_null());
    }
    for (_, detail) in faults("kill -TERM $$") {
        assert_eq!(detail, "bash was ended by signal 15");
    }
}

#[test]
fn a_command_that_asks_for_nothing_has_not_loaded_the_page() {
    for (_, detail) in faults("exit 0") {
        assert_eq!(detail, "the client requested no resource of the page");
    }
}

#[test]
fn a_command_may_say_by_its_exit_code_that_an_answer_was_an_error() {
    let script = format!("{FETCH}; exit 8");
    for (codes, valid) in [(json!([4, 8]), true), (json!([4]), false)] {
        let mut client = bash(&script, &["a.test", "/"]);
        client["client"]["exit_codes"] = codes;
        for run in on_each_engine(&with(job(&page(&[root(100)]), &network(0), &["tcp"]), client)) {
            assert_eq!(run.load("tcp")["valid"], json!(valid), "{run}");
        }
    }
}

#[test]
fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    let script = "setsid sleep 1000 & trap '' TERM; while :; do sleep 1000; done";
    let job = with(job(&page(&[root(100)]), &network(0), &["tcp", "warm"]), bash(script, &[]));
    for run in on_each_engine(&with(job, json!({"load_timeout_us": 300_000}))) {
        for load in run.of_type("load") {
            assert_eq!(load["invalid"][0]["detail"], "bash did not end within the time limit", "{run}");
        }
        assert_eq!((run.of_type("load").len(), run.of_type("end").len()), (2, 1), "{run}");
    }
}

#[test]
fn a_command_finds_a_folder_of_its_own_and_can_write_nowhere_else() {
    let script = r#"set -e; [ "$PWD" = "$HOME" ]; [ "$HOME" = "$TMPDIR" ]; [ -z "$(ls -A "$HOME")" ]
        echo here > file; echo anything > /dev/null; [ -n "$PATH" ]; [ -z "$FASTOPEN_SECRET" ]
        if echo gone > "$0" || echo gone > "$HOME/../other" && false
        then echo 'could write to the machine' >&2; exit 1; fi"#;
    let file = Temporary::file("kept");
    let script = format!("{script}\n{FETCH}");
    let words = ["bash", "-c", &script, file.path(), "a.test", "/"];
    let job = job(&page(&[root(100)]), &network(0), &["tcp", "warm"]);
    let job = with(job, json!({"client": {"kind": "command", "command": words}}));
    for run in on_each_engine(&job) {
        run.valid("tcp");
        run.valid("warm");
        assert_eq!(std::fs::read(&file.0).expect("it is there"), b"kept");
    }
}

#[test]
fn a_command_that_does_not_exist_is_named() {
    let job = job(&page(&[root(100)]), &network(0), &["tcp"]);
    let job = with(job, json!({"client": {"kind": "command", "command": ["no-such-client"]}}));
    for run in on_each_engine(&job) {
        let error = run.only("error");
        assert_eq!(
            (&error["fault"], &error["message"]),
            (&json!("machine"), &json!("client.command: no-such-client: no such command"))
        );
    }
}

#[test]
fn a_command_has_a_first_word() {
    let page = page(&[root(100)]);
    for client in [json!({"kind": "command"}), json!({"kind": "command", "command": []})] {
        let run = crate::support::run(&with(job(&page, &network(0), &["tcp"]), json!({"client": client})));
        assert_eq!(run.only("error")["message"], "job 1: client.command[0]: is empty");
    }
}
