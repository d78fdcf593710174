//! `--check` (`fastopen doctor`): tests whether this machine can emulate a network, by building a small one.

use std::collections::BTreeMap;

use fastopen_intercept::write_line;
use fastopen_netns::sandbox::View;
use fastopen_netns::{process, sysctl};
use serde::Serialize;

use crate::contract::{Engine, Job, Record};
use crate::failure::Failure;
use crate::{sandbox, world};

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    detail: String,
    remedy: String,
}

/// Builds and checks a small emulated network. Prints the results as JSON. Returns 0, or 3 if a check failed.
pub fn run() -> i32 {
    let _ = process::die_with_parent();
    process::raise_priority();
    process::raise_file_limit();
    let view = View { scratch_bytes: 1 << 20, ..View::default() };
    let inside = |entered: Result<(), Failure>| {
        let (ok, detail, remedy) = match entered {
            Ok(()) => (true, "user, mount, network and PID namespaces can be made".into(), String::new()),
            Err(Failure { message, remedy, .. }) => (false, message, remedy),
        };
        let mut checks = vec![Check { name: "namespaces", ok, detail, remedy }];
        if ok {
            checks.extend([congestion_control(), small_world()]);
        }
        let code = if checks.iter().all(|check| check.ok) { 0 } else { 3 };
        let _ = write_line(std::io::stdout(), &BTreeMap::from([("checks", checks)]));
        code
    };
    sandbox::run(&view, inside).unwrap_or_else(|failure| inside(Err(failure)))
}

fn congestion_control() -> Check {
    const NAME: &str = "congestion control";
    match sysctl::get("net.ipv4.tcp_available_congestion_control") {
        Ok(all) => Check {
            name: NAME,
            ok: all.split(' ').any(|name| name == "cubic"),
            detail: all,
            remedy: "as root: modprobe tcp_cubic; or choose another with --congestion-control".into(),
        },
        Err(error) => Check { name: NAME, ok: false, detail: error.to_string(), remedy: String::new() },
    }
}

/// Checks that a page of one resource loads at an RTT of 10 ms, once without and once with Fast Open.
fn small_world() -> Check {
    const JOB: &str = r#"{"contract":2,"id":"check","seed":1,
        "page":{"format":"fastopen-page/1","name":"check","url":"http://check.test/","source":"made here",
            "initiators":"declared",
            "resources":[{"url":"http://check.test/","type":"document","body_bytes":1000,"initiator":null}]},
        "network":{"rtt_us":10000,"down":{"rate_bit_per_s":null,"queue_bytes":null},
            "up":{"rate_bit_per_s":null,"queue_bytes":null}},
        "tolerance":{"rtt_us":5000,"late_us":100000},
        "loads":[{"id":"tcp","transport":"tcp"},{"id":"warm","transport":"tfo","cookies":"warm"}]}"#;
    let mut plts = Vec::new();
    let mut invalid = Vec::new();
    let raw = serde_json::value::RawValue::from_string(JOB.to_owned()).expect("it is JSON");
    let job = Job::read(&raw).expect("it is a job");
    let run = world::run(&job, Engine::Host, &mut |record| {
        if let Record::Load(load) = record {
            plts.push(load.plt_ns.unwrap_or(0) as f64 / 1e6);
            invalid.extend(load.invalid.iter().map(|reason| reason.detail.clone()));
        }
        Ok(())
    });
    let (ok, detail, remedy) = match (run, &plts[..]) {
        (Err(failure), _) => (false, failure.message, failure.remedy),
        (Ok(()), [without, with]) if invalid.is_empty() => {
            let detail = format!(
                "a page over 10 ms RTT took {without:.1} ms without and {with:.1} ms with data in the SYN"
            );
            (true, detail, String::new())
        }
        (Ok(()), _) => {
            (false, invalid.join("; "), "this kernel's TCP Fast Open does not work as in RFC 7413".into())
        }
    };
    Check { name: "world", ok, detail, remedy }
}
