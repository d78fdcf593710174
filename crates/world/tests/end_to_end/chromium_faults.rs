//! Tests of a browser that fails in the middle of a load: the load becomes invalid, its record gives the
//! reason, and the next load starts a new browser.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::chromium::{browser, in_chromium};
use crate::processes::{family, signal, wait_until};
use crate::support::{PROGRAM, Run, image, job, network, page, root, start, with};

/// An image with a long think time. The test recognises its connection in /proc/net/tcp by the port (4660).
const LATE: &str = "http://b.test:4660/late";
/// The port of [`LATE`] in hexadecimal and the state ESTABLISHED, as /proc/net/tcp prints them.
const ESTABLISHED: &str = ":1234 01 ";

/// Loads a page twice. As soon as the first load waits for its image, sends the signal `name` to the browser
/// processes whose command line `whom` accepts.
fn lose(name: &str, whom: impl Fn(&str) -> bool) -> Run {
    while_it_waits(|of_browser| {
        let lost: Vec<_> = of_browser.iter().filter(|(_, line)| whom(line)).collect();
        assert!(!lost.is_empty(), "none is meant of {of_browser:?}");
        for (pid, _) in lost {
            signal(name, *pid);
        }
    })
}

/// Loads a page twice. As soon as the first load waits for its image, calls `meanwhile` with the ids and
/// command lines of the browser's processes.
fn while_it_waits(meanwhile: impl Fn(&[(u32, String)])) -> Run {
    let late = with(image(LATE, 43), json!({"server_think_us": 8_000_000, "mime": "image/gif"}));
    let job = in_chromium(job(&page(&[root(5000), late]), &network(1000), &["tcp", "warm"]));
    let job = with(job, json!({"load_timeout_us": 20_000_000})).to_string();
    let child = start(&mut Command::new(PROGRAM), job.as_bytes());
    let program = child.id();
    let of_browser = || -> Vec<(u32, String)> {
        let line = |pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let all = family(program).into_iter().map(|pid| (pid, line(pid)));
        all.filter(|(_, line)| line.contains("chromium") && !line.contains("chrome_crashpad")).collect()
    };
    let waits = |pid: u32| {
        let sockets = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
        sockets.lines().any(|line| line.contains(ESTABLISHED))
    };
    wait_until("the browser waits for the image", || of_browser().iter().any(|(pid, _)| waits(*pid)));
    meanwhile(&of_browser());
    Run::of(child)
}

/// Asserts that the first load is invalid for this reason and the second one is valid.
fn expect(run: &Run, reason: &str) {
    let invalid = &run.load("tcp")["invalid"];
    assert_eq!(invalid[0]["kind"], "incomplete", "{run}");
    let detail = invalid[0]["detail"].as_str().unwrap_or_default();
    assert!(detail.starts_with(reason), "{detail} instead of {reason}: {run}");
    run.valid("warm");
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn a_page_that_crashes_makes_its_load_invalid_and_the_next_has_a_new_browser() {
    if browser() {
        expect(&lose("KILL", |line| line.contains("--type=renderer")), "the page crashed in the browser");
    }
}

#[test]
fn a_browser_that_crashes_makes_its_load_invalid_and_the_next_has_a_new_one() {
    if browser() {
        expect(&lose("KILL", |line| !line.contains("--type=")), "the browser crashed");
    }
}

#[test]
fn whichever_of_the_browser_s_processes_is_killed_the_load_has_a_reason_and_the_next_one_is_valid() {
    if !browser() {
        return;
    }
    for kind in ["--type=zygote", "--type=gpu-process", "network.mojom.NetworkService", "--type=utility"] {
        let run = while_it_waits(|of_browser| {
            let found = of_browser.iter().find(|(_, line)| line.contains(kind));
            signal("KILL", found.unwrap_or_else(|| panic!("none is {kind} of {of_browser:?}")).0);
        });
        let load = run.load("tcp");
        assert!(load["valid"] == true || load["invalid"][0]["kind"] == "incomplete", "{kind}: {run}");
        run.valid("warm");
        assert_eq!(run.code, Some(0), "{kind}: {run}");
    }
}

#[test]
fn a_browser_that_is_stopped_times_out_and_the_next_load_has_a_new_one() {
    if browser() {
        let run = lose("STOP", |line| !line.contains("--type="));
        expect(&run, "the page did not respond");
    }
}

#[test]
fn renderers_are_in_the_browser_s_own_sandbox() {
    if !browser() {
        return;
    }
    let run = while_it_waits(|of_browser| {
        let namespace = |pid: u32, kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).expect("it runs");
        let browser = of_browser.iter().find(|(_, line)| !line.contains("--type=")).expect("it runs").0;
        let renderers: Vec<_> =
            of_browser.iter().filter(|(_, line)| line.contains("--type=renderer")).collect();
        assert!(!renderers.is_empty(), "none in {of_browser:?}");
        for &&(pid, _) in &renderers {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
            let field = |name| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_default().trim().trim_start_matches('0')
            };
            assert_eq!(
                [field("CapEff:"), field("NoNewPrivs:"), field("Seccomp:")],
                ["", "1", "2"],
                "{status}"
            );
            // The sandbox installs one seccomp filter for every client, and the browser installs more.
            assert!(field("Seccomp_filters:").parse().is_ok_and(|filters: u32| filters > 1), "{status}");
            for kind in ["user", "pid", "net"] {
                assert_ne!(namespace(pid, kind), namespace(browser, kind), "{kind} of {pid}");
            }
        }
    });
    run.valid("tcp");
}
