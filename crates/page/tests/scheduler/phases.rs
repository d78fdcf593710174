//! Tests the load event: the resources that wait for it, and the resources that it waits for.

use fastopen_page::{Page, Phase, Policy, Resource, ResourceState};

use crate::driver::{MS, load};
use crate::pages::{image, page, root};

fn with_phases() -> Page {
    page(
        Resource { server_think_us: 0, ..root("http://a.test/") },
        [
            image("http://a.test/load"),
            Resource { phase: Phase::Async, server_think_us: 500_000, ..image("http://b.test/async") },
            Resource { phase: Phase::After, initiator: Some(1), ..image("http://c.test/after") },
            Resource { phase: Phase::After, initiator: Some(3), ..image("http://c.test/later") },
            Resource { initiator: Some(2), phase: Phase::Async, ..image("http://b.test/by-async") },
        ],
    )
}

#[test]
fn the_load_event_does_not_wait_for_async_resources_but_the_load_does() {
    let page = with_phases();
    let load = load(&page, &Policy::browser());
    assert_eq!(load.scheduler.plt(), Some(300 * MS));
    assert_eq!(load.scheduler.state(2), ResourceState::Ended(900 * MS));
    assert_eq!(load.scheduler.state(5), ResourceState::Ended(1000 * MS));
    assert!(load.scheduler.is_finished());
}

#[test]
fn a_phase_that_is_not_asked_for_is_not_loaded_and_neither_is_what_hangs_on_it() {
    let page = with_phases();
    let load = load(&page, &Policy { phases: vec![Phase::Load], ..Policy::browser() });
    assert!(load.scheduler.is_finished());
    assert_eq!([2, 3, 4, 5].map(|index| load.scheduler.state(index)), [ResourceState::NotSelected; 4]);
}

#[test]
fn resources_after_the_load_event_wait_for_it() {
    let mut page = with_phases();
    page.load_event_processing_us = 40_000;
    page.resources[2].phase = Phase::Load;
    let policy = Policy { phases: vec![Phase::Load, Phase::After], ..Policy::browser() };
    let load = load(&page, &policy);
    assert_eq!(load.scheduler.state(1), ResourceState::Ended(300 * MS));
    assert_eq!(load.scheduler.plt(), Some(940 * MS));
    assert_eq!(load.scheduler.queued_at(3), Some(940 * MS));
    assert_eq!(load.scheduler.queued_at(4), Some(1140 * MS));
    assert!(load.scheduler.is_finished());
}

#[test]
fn a_load_resource_that_an_async_one_reveals_holds_back_a_load_event_that_has_not_fired() {
    let mut page = with_phases();
    page.resources[5].phase = Phase::Load;
    {
        let late = load(&page, &Policy::browser());
        assert_eq!(late.scheduler.state(5), ResourceState::Ended(1000 * MS));
        assert_eq!(late.scheduler.plt(), Some(300 * MS));
        let only_load = load(&page, &Policy { phases: vec![Phase::Load], ..Policy::browser() });
        assert_eq!(only_load.scheduler.plt(), Some(300 * MS));
    }

    page.resources[1].server_think_us = 200_000;
    page.resources[2].server_think_us = 0;
    page.resources.push(Resource { initiator: Some(5), ..image("http://b.test/by-load") });
    assert_eq!(load(&page, &Policy::browser()).scheduler.plt(), Some(600 * MS));
}
