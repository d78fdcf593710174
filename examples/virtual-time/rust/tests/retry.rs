//! Tests of retries in virtual time. `in_world` runs this program again in a world, with the name of a test.

use std::process::Command;
use std::time::{Duration, Instant};

use virtual_time::connect;

/// Runs an ignored test of this file in a world with these options, and asserts that it passes.
fn in_world(test: &str, options: &[&str]) {
    let this = std::env::current_exe().expect("a test has a program");
    let done = Command::new("fastopen")
        .args(["shell", "--engine", "virtual", "--quiet"])
        .args(options)
        .arg("--")
        .arg(this)
        .args(["--exact", "--ignored", test, "--test-threads=1"])
        .output()
        .expect("fastopen is installed");
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn a_host_that_is_too_far_away_is_given_up() {
    in_world("inside::a_far_host", &["--rtt", "30s"]);
}

#[test]
fn a_port_without_a_listener_is_refused() {
    in_world("inside::a_closed_port", &["--rtt", "100ms"]);
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "runs in a world"]
    fn a_far_host() {
        let start = Instant::now();
        connect("www.example.com:80", 4).expect_err("its answers take half a minute");
        // Four attempts of 10 s, and pauses of 1, 2 and 4 s.
        assert_eq!(start.elapsed().as_secs(), 47);
    }

    #[test]
    #[ignore = "runs in a world"]
    fn a_closed_port() {
        let start = Instant::now();
        connect("www.example.com:81", 3).expect_err("nothing listens there");
        // Three attempts of 100 ms, and pauses of 1 and 2 s.
        let expected = Duration::from_millis(3300);
        assert!(start.elapsed() - expected < Duration::from_millis(5), "{:?}", start.elapsed());
    }
}
