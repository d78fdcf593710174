//! Tests that invalid policies are refused.

use fastopen_page::{Phase, Policy, PolicyError, Scheduler};

use crate::driver::browser;
use crate::pages::gallery;

fn error(policy: &Policy) -> String {
    Scheduler::new(&gallery(1), policy).unwrap_err().to_string()
}

#[test]
fn a_policy_that_cannot_load_anything_is_refused() {
    assert_eq!(error(&browser(0)), "connections_per_host is 0, but a client needs at least one connection");
    assert_eq!(
        error(&Policy { connections_total: 0, ..Policy::browser() }),
        "connections_total is 0, but a client needs at least one connection"
    );
    assert_eq!(error(&Policy { phases: vec![Phase::Async], ..Policy::browser() }), "phases must hold `load`");
}

#[test]
fn a_scale_that_is_no_scale_is_refused() {
    for scale in [-0.1, 1000.1, f64::NAN, f64::INFINITY] {
        let policy = Policy { processing_scale: scale, ..Policy::browser() };
        assert!(matches!(Scheduler::new(&gallery(1), &policy), Err(PolicyError::ProcessingScale(_))));
    }
}
