//! Tests of jobs whose world the kernel cannot provide as specified: the program reports an error.

use serde_json::json;

use crate::support::{job, network, page, root, run, run_text, with};

#[test]
fn a_congestion_control_that_the_kernel_does_not_know_is_bad_input_with_those_that_it_has() {
    let settings = json!({"tcp": {"congestion_control": "nonesuch"}});
    let run = run(&with(job(&page(&[root(10)]), &network(1000), &["tcp"]), settings));
    let error = run.only("error");
    assert_eq!((run.records.len(), &error["fault"], run.code), (1, &json!("input"), Some(2)));
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("no congestion control nonesuch")),
        "{error}"
    );
    let remedy = error["remedy"].as_str().unwrap_or_default();
    assert!(remedy.starts_with("it has ") && remedy.contains("reno"), "{error}");
    let modules = std::path::Path::new("/proc/sys/kernel/modprobe").exists();
    assert_eq!(remedy.contains("modprobe tcp_nonesuch"), modules, "{error}");
}

#[test]
fn where_the_kernel_cannot_make_the_link_the_remedy_is_named() {
    let network = with(network(1000), json!({"link": "kernel"}));
    let run = run(&job(&page(&[root(10)]), &network, &["tcp"]));
    let errors = run.of_type("error");
    let Some(error) = errors.first() else {
        run.valid("tcp"); // this machine has netem
        return;
    };
    assert_eq!((&error["fault"], run.code), (&json!("machine"), Some(3)));
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("this kernel has no netem")),
        "{error}"
    );
    assert!(error["remedy"].as_str().is_some_and(|text| text.contains("--link program")), "{error}");
}

#[test]
fn a_world_off_by_more_than_the_tolerance_is_an_error_and_not_a_result() {
    let mut job = job(&page(&[root(10)]), &network(1000), &["tcp"]);
    job["tolerance"]["rtt_us"] = json!(0);
    let run = run(&job);
    let error = run.only("error");
    assert_eq!((run.records.len(), &error["fault"], run.code), (1, &json!("world"), Some(4)));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("instead of 1 ms")), "{error}");
    assert_eq!(error["job"], "job");
}

#[test]
fn the_jobs_after_one_that_fails_are_run() {
    let mut off = with(job(&page(&[root(10)]), &network(1000), &["tcp"]), json!({"id": "off"}));
    off["tolerance"]["rtt_us"] = json!(0);
    let good = with(job(&page(&[root(10)]), &network(1000), &["tcp"]), json!({"id": "good"}));
    let run = run_text(&format!("{off}{good}"));
    let records: Vec<_> =
        run.records.iter().map(|record| format!("{} {}", record["job"], record["type"])).collect();
    assert_eq!(records, ["\"off\" \"error\"", "\"good\" \"world\"", "\"good\" \"load\"", "\"good\" \"end\""]);
    assert_eq!(run.code, Some(4));
}
