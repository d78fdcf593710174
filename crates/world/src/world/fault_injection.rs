//! Injects faults into a load's observations, for soak tests that expect the validity check to find them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::clients::Loaded;
use crate::contract::{BothEnds, LinkRecord};

pub(super) struct Observed<'a> {
    pub loaded: &'a mut Loaded,
    pub counters: &'a mut BothEnds<BTreeMap<String, i64>>,
    pub link: &'a mut LinkRecord,
    pub cookies: &'a mut Vec<IpAddr>,
    /// True if the load begins with the Fast Open cookies of all hosts; None if it does not use Fast Open.
    pub warm: Option<bool>,
    /// True if the validity check requires a minimum time until the first response of a connection.
    pub timed: bool,
}

/// A function that falsifies observations of a page load; returns false if there is nothing to falsify.
type Fault = fn(&mut Observed) -> bool;

/// The faults that soak tests inject. The last one is possible in every page load with a complete response.
const FAULTS: [Fault; 10] = [
    wrong_cookies,
    |observed| grow(&mut observed.counters.client, "TCPFastOpenActive"),
    |observed| grow(&mut observed.counters.origins, "TCPFastOpenListenOverflow"),
    |observed| grow(&mut observed.counters.origins, "TCPFastOpenPassive"),
    answered_at_once,
    resumed_at_one_end,
    another_query,
    |observed| {
        observed.link.up.late_us_max = u64::MAX;
        true
    },
    |observed| {
        observed.link.down.overruns += 1;
        true
    },
    another_size,
];

/// Falsifies a page load's observations with fault `number`, or the next fault that can change something.
pub(super) fn inject(number: u32, mut observed: Observed) {
    let first = number as usize % FAULTS.len();
    let mut faults = FAULTS.iter().cycle().skip(first).take(FAULTS.len());
    assert!(faults.any(|fault| fault(&mut observed)), "a load has requests");
}

fn wrong_cookies(observed: &mut Observed) -> bool {
    match observed.warm {
        None => false,
        Some(true) => {
            // Hosts that share an address also share its cookie.
            let last = observed.cookies.pop();
            observed.cookies.retain(|address| Some(*address) != last);
            last.is_some()
        }
        Some(false) => {
            observed.cookies.push(IpAddr::from([127, 0, 0, 1]));
            true
        }
    }
}

fn grow(counters: &mut BTreeMap<String, i64>, name: &str) -> bool {
    *counters.entry(name.to_owned()).or_default() += 1;
    true
}

fn answered_at_once(observed: &mut Observed) -> bool {
    if !observed.timed {
        return false;
    }
    let Loaded { connections, requests, .. } = &mut *observed.loaded;
    let first = connections.iter().find_map(|one| {
        let of_it = requests.iter().enumerate().filter(|(_, request)| request.connection == Some(one.id));
        let (place, request) =
            of_it.min_by_key(|(_, request)| (request.sent_ns.is_none(), request.sent_ns))?;
        (request.first_byte_ns.is_some() && request.cache.is_none()).then_some((place, one.opened_ns))
    });
    let Some((place, opened_ns)) = first else { return false };
    requests[place].first_byte_ns = Some(opened_ns);
    true
}

fn resumed_at_one_end(observed: &mut Observed) -> bool {
    let mut secured = observed.loaded.connections.iter_mut().filter_map(|one| one.tls.as_mut());
    let Some(tls) = secured.find(|tls| tls.origin.is_some()) else { return false };
    tls.resumed = !tls.resumed;
    true
}

fn another_query(observed: &mut Observed) -> bool {
    observed.loaded.lookups.first_mut().is_some_and(|lookup| {
        lookup.resolver.queries += 1;
        true
    })
}

fn another_size(observed: &mut Observed) -> bool {
    let mut ended = observed.loaded.requests.iter_mut().filter(|one| one.error.is_none());
    ended.find(|one| one.end_ns.is_some()).is_some_and(|one| {
        one.body_bytes += 1;
        true
    })
}
