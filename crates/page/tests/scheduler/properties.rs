//! Tests properties that hold for every page, every policy and every network.

use std::collections::BTreeMap;

use fastopen_page::{
    Action, ConnectionId, Event, Limits, Nanos, Origin, Page, Phase, Policy, Profile, Resource,
    ResourceState, ResourceType, Scheduler,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::driver::{Load, MS, Network, RequestOutcome, server};
use crate::pages::{page, resource, root};

#[derive(Debug, Clone)]
struct Part {
    initiator: Index,
    at_bytes: Option<Index>,
    host: usize,
    kind: ResourceType,
    phase: Phase,
    body_bytes: u64,
    processing_us: u64,
    server_think_us: u64,
    redirects: bool,
}

fn parts() -> impl Strategy<Value = Part> {
    use ResourceType::{Document, Font, Image, Media, Other, Script, Stylesheet, Xhr};
    let kind = prop::sample::select(vec![Document, Stylesheet, Script, Image, Font, Xhr, Media, Other]);
    let phase = prop::sample::select(vec![Phase::Load, Phase::Load, Phase::Load, Phase::Async, Phase::After]);
    let times = (prop_oneof![Just(0), 0_u64..200_000], prop_oneof![Just(0), 0_u64..50_000]);
    let shape = (any::<Index>(), prop::option::of(any::<Index>()), 0_usize..4, 0_u64..8_000);
    (shape, kind, phase, times, prop::bool::weighted(0.1)).prop_map(
        |(
            (initiator, at_bytes, host, body_bytes),
            kind,
            phase,
            (processing_us, server_think_us),
            redirects,
        )| Part {
            initiator,
            at_bytes,
            host,
            kind,
            phase,
            body_bytes,
            processing_us,
            server_think_us,
            redirects,
        },
    )
}

fn pages() -> impl Strategy<Value = Page> {
    (prop::collection::vec(parts(), 0..40), any::<bool>(), 0_u64..100_000).prop_map(
        |(parts, root_redirects, load_event_processing_us)| {
            let redirect = |redirects: bool, resource: Resource| {
                if redirects {
                    Resource { status: 302, redirect_to: Some("/".to_owned()), ..resource }
                } else {
                    resource
                }
            };
            let mut resources = vec![redirect(root_redirects, root("http://h0.test/"))];
            for (number, part) in parts.into_iter().enumerate() {
                let initiator = part.initiator.index(resources.len());
                let parent = &resources[initiator];
                let at_bytes = part.at_bytes.map(|at| at.index(parent.body_bytes as usize + 1) as u64);
                let phase = if parent.phase == Phase::After { Phase::After } else { part.phase };
                let child = Resource {
                    initiator: Some(initiator),
                    initiator_at_bytes: at_bytes,
                    phase,
                    body_bytes: part.body_bytes,
                    processing_us: part.processing_us,
                    server_think_us: part.server_think_us,
                    ..resource(&format!("http://h{}.test/{number}", part.host), part.kind)
                };
                resources.push(redirect(part.redirects, child));
            }
            let rest = resources.split_off(1);
            Page { load_event_processing_us, ..page(resources.remove(0), rest) }
        },
    )
}

fn policies() -> impl Strategy<Value = Policy> {
    let profile = prop::sample::select(vec![Profile::Browser, Profile::Browser, Profile::Mget]);
    let phases = prop::sample::select(vec![
        vec![Phase::Load],
        vec![Phase::Load, Phase::Async],
        vec![Phase::Load, Phase::Async, Phase::After],
        vec![Phase::After, Phase::Load],
    ]);
    let scale = prop_oneof![Just(0.0), Just(1.0), 0.0..3.0];
    let streams = prop_oneof![Just(1), Just(100), 2_usize..5];
    let limits = (1_usize..7, 1_usize..20, streams);
    (profile, limits, any::<[bool; 2]>(), scale, phases, any::<Option<u64>>()).prop_map(
        |(
            profile,
            (connections_per_host, connections_total, streams),
            [keep_alive, lookups],
            processing_scale,
            phases,
            order_seed,
        )| Policy {
            profile,
            connections_per_host,
            connections_total,
            multiplexed: multiplexed(connections_per_host, streams),
            fallback_after: BTreeMap::new(),
            lookups,
            keep_alive,
            processing_scale,
            phases,
            order_seed,
        },
    )
}

/// Returns limits for the servers of all four hosts; empty if `streams` is 1 (no multiplexing).
fn multiplexed(connections: usize, streams: usize) -> BTreeMap<Origin, Limits> {
    let limits = |host| (server(&format!("h{host}.test")), Limits { connections, streams });
    if streams == 1 { BTreeMap::new() } else { (0..4).map(limits).collect() }
}

fn calm(slow: bool, early: bool) -> Network<'static> {
    Network { slow, early, ..Network::default() }
}

/// Returns a network in which `numbers` decide which connections are refused, break or are closed.
fn rough(numbers: &[u8]) -> Network<'_> {
    let mut drawn = numbers.iter().copied().cycle();
    let mut refusals = numbers.iter().rev().copied().cycle();
    Network {
        slow: true,
        refuses: Box::new(move |_| refusals.next().is_some_and(|number| number % 7 == 0)),
        outcome: Box::new(move |_, _| match drawn.next().unwrap_or(0) % 8 {
            0 => RequestOutcome::Broken { answered: true },
            1 | 2 => RequestOutcome::Broken { answered: false },
            3 => RequestOutcome::Answered { reusable: false },
            _ => RequestOutcome::Answered { reusable: true },
        }),
        also: numbers
            .iter()
            .enumerate()
            .map(|(index, number)| {
                let event = Event::ConnectionClosed(ConnectionId(index % 16));
                (u64::from(*number) * 10 * MS, event)
            })
            .collect(),
        ..Network::default()
    }
}

fn selected(page: &Page, policy: &Policy) -> Vec<bool> {
    let mut selected = Vec::new();
    for resource in &page.resources {
        let parent = resource.initiator.is_none_or(|initiator| selected[initiator]);
        selected.push(parent && policy.phases.contains(&resource.phase));
    }
    selected
}

fn ended_at(scheduler: &Scheduler, resource: usize) -> Option<Nanos> {
    match scheduler.state(resource) {
        ResourceState::Ended(at) => Some(at),
        _ => None,
    }
}

fn scaled(us: u64, policy: &Policy) -> Nanos {
    match policy.profile {
        Profile::Browser => (us as f64 * 1000.0 * policy.processing_scale).round() as Nanos,
        Profile::Mget => 0,
    }
}

/// Returns the two possible page load times. The load event is due when all awaited resources have ended or
/// failed. A resource of phase `load` is awaited if its initiator is awaited, or if the resource became known
/// before the load event. The two times differ only if a resource becomes known at the very time of the load
/// event.
fn expected_plts(page: &Page, policy: &Policy, scheduler: &Scheduler) -> [Option<Nanos>; 2] {
    let selected = selected(page, policy);
    let of_load = |r: usize| selected[r] && page.resources[r].phase == Phase::Load;
    let known_at = |r: usize| Some(scheduler.queued_at(r)? - scaled(page.resources[r].processing_us, policy));
    let mut documents = vec![0];
    for (r, resource) in page.resources.iter().enumerate() {
        let last = documents[documents.len() - 1];
        if selected[r] && resource.initiator == Some(last) && page.resources[last].redirect_to.is_some() {
            documents.push(r);
        }
    }
    let initiator = |r: usize| match policy.profile {
        Profile::Mget if !documents.contains(&r) => documents.last().copied(),
        _ => page.resources[r].initiator,
    };
    // A resource that is never requested is resolved when its initiator fails.
    let resolved_at = |mut r: usize| loop {
        match scheduler.state(r) {
            ResourceState::Ended(at) | ResourceState::Failed(at) => return at,
            _ => r = initiator(r).expect("a root is always asked for"),
        }
    };
    let awaited_before = |moment: Nanos, or_then: bool| {
        let revealed = |r| known_at(r).is_some_and(|at| at < moment || (or_then && at == moment));
        let mut awaited: Vec<usize> = Vec::new();
        let mut count = None;
        while count != Some(awaited.len()) {
            count = Some(awaited.len());
            let with = |r| initiator(r).is_none_or(|initiator| awaited.contains(&initiator)) || revealed(r);
            awaited = (0..page.resources.len()).filter(|&r| of_load(r) && with(r)).collect();
        }
        awaited
    };
    [false, true].map(|or_then| {
        let mut due = 0;
        loop {
            let awaited = awaited_before(due, or_then);
            let last = awaited.iter().map(|&r| resolved_at(r)).max()?;
            if last <= due {
                let all = awaited.iter().all(|&r| ended_at(scheduler, r).is_some());
                return all.then(|| due + scaled(page.load_event_processing_us, policy));
            }
            due = last;
        }
    })
}

proptest! {
    #[test]
    fn every_selected_resource_is_requested_once_and_the_load_ends(
        page in pages(), policy in policies(), slow: bool, early: bool,
    ) {
        let load = Load::run(&page, &policy, calm(slow, early));
        prop_assert!(load.scheduler.is_finished());
        for (resource, selected) in selected(&page, &policy).into_iter().enumerate() {
            prop_assert_eq!(load.times_sent(resource), usize::from(selected));
            prop_assert_eq!(ended_at(&load.scheduler, resource).is_some(), selected);
            prop_assert_eq!(load.scheduler.state(resource) == ResourceState::NotSelected, !selected);
        }
        prop_assert!(load.scheduler.plt().is_some());
        prop_assert!(expected_plts(&page, &policy, &load.scheduler).contains(&load.scheduler.plt()));
    }

    #[test]
    fn no_more_connections_are_open_than_allowed(
        page in pages(), policy in policies(),
        numbers in prop::collection::vec(any::<u8>(), 0..30),
        early: bool,
    ) {
        let network = if numbers.is_empty() {
            calm(true, early)
        } else {
            Network { early, ..rough(&numbers) }
        };
        let (of_one_server, in_all) = Load::run(&page, &policy, network).most_open;
        // A browser partitions connections in four ways: with and without credentials, in the page and in
        // frames of other sites.
        let partitions = if policy.profile == Profile::Browser { 4 } else { 1 };
        prop_assert!(of_one_server <= partitions * policy.connections_per_host);
        prop_assert!(in_all <= policy.connections_total);
    }

    #[test]
    fn a_load_ends_whatever_breaks(
        page in pages(), policy in policies(), numbers in prop::collection::vec(any::<u8>(), 1..30),
    ) {
        let load = Load::run(&page, &policy, rough(&numbers));
        prop_assert!(load.scheduler.is_finished());
        let selected = selected(&page, &policy);
        for (resource, selected) in selected.into_iter().enumerate() {
            let sent = load.times_sent(resource);
            match load.scheduler.state(resource) {
                ResourceState::NotSelected => prop_assert!(!selected && sent == 0),
                ResourceState::Ended(_) => prop_assert!(selected && (1..=2).contains(&sent)),
                ResourceState::Failed(_) => prop_assert!(selected && sent <= 2),
                ResourceState::NeverRequested => prop_assert!(selected && sent == 0),
                outcome => prop_assert!(false, "{resource} is {outcome:?} in the end"),
            }
        }
        prop_assert!(expected_plts(&page, &policy, &load.scheduler).contains(&load.scheduler.plt()));
    }

    #[test]
    fn a_load_ends_whatever_breaks_where_servers_can_be_spoken_to_otherwise(
        page in pages(), policy in policies(), numbers in prop::collection::vec(any::<u8>(), 0..30),
        early: bool, after_ms in 0_u64..300,
    ) {
        let fallback_after = (0..4).map(|host| (server(&format!("h{host}.test")), after_ms * MS)).collect();
        let policy = Policy { fallback_after, ..policy };
        let network = if numbers.is_empty() { calm(true, early) } else { Network { early, ..rough(&numbers) } };
        let load = Load::run(&page, &policy, network);
        prop_assert!(load.scheduler.is_finished());
        prop_assert!(expected_plts(&page, &policy, &load.scheduler).contains(&load.scheduler.plt()));
    }

    #[test]
    fn a_request_is_queued_exactly_a_processing_time_after_it_became_known(
        page in pages(), scale in 0.0..2.0,
    ) {
        let policy = Policy { processing_scale: scale, ..Policy::browser() };
        let load = Load::run(&page, &policy, calm(false, false));
        for (index, resource) in page.resources.iter().enumerate() {
            let (Some(initiator), Some(queued)) = (resource.initiator, load.scheduler.queued_at(index)) else {
                continue;
            };
            let processing = (resource.processing_us as f64 * 1000.0 * scale).round() as Nanos;
            prop_assert_eq!(Some(queued - processing), ended_at(&load.scheduler, initiator));
        }
    }

    #[test]
    fn a_connection_carries_no_more_requests_at_a_time_than_it_may_and_only_one_without_keep_alive(
        page in pages(), policy in policies(),
    ) {
        // The driver panics if a connection gets more requests than it may carry.
        let load = Load::run(&page, &policy, calm(true, false));
        let mut carried = BTreeMap::new();
        for (_, action) in &load.actions {
            if let Action::Send { connection, .. } = action {
                *carried.entry(connection).or_insert(0) += 1;
            }
        }
        prop_assert!(policy.keep_alive || carried.values().all(|requests| *requests == 1));
    }

    #[test]
    fn the_same_load_gives_the_same_actions(
        page in pages(), policy in policies(), numbers in prop::collection::vec(any::<u8>(), 1..30),
    ) {
        let actions = || Load::run(&page, &policy, rough(&numbers)).actions;
        prop_assert_eq!(actions(), actions());
    }
}
