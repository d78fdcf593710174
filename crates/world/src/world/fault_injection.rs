//! Injects faults into the observations of a page load, so that soak tests can test the validity check.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::load::Observed;
use crate::clients::Loaded;
use crate::contract::{Cookies, SeenAt};

/// A function that falsifies an observation of a page load. It returns None if it found nothing to falsify.
type Fault = fn(&mut Observed) -> Option<()>;

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
        Some(())
    },
    |observed| {
        observed.link.down.overruns += 1;
        Some(())
    },
    another_size,
];

/// Falsifies a page load's observations with the fault at index `number` of `FAULTS` (modulo its length). If
/// this fault finds nothing to falsify, tries the following faults in turn.
pub(super) fn inject(number: u32, observed: &mut Observed) {
    let first = number as usize % FAULTS.len();
    let mut faults = FAULTS.iter().cycle().skip(first).take(FAULTS.len());
    assert!(faults.any(|fault| fault(observed).is_some()), "a load has requests");
}

fn wrong_cookies(observed: &mut Observed) -> Option<()> {
    let cookies = &mut observed.prepared.cookies;
    match observed.prepared.expected.fast_open?.cookies_before {
        Cookies::Warm => {
            // Hosts that share an address also share its cookie.
            let last = cookies.pop()?;
            cookies.retain(|address| *address != last);
        }
        Cookies::Cold => cookies.push(IpAddr::from([127, 0, 0, 1])),
    }
    Some(())
}

#[expect(clippy::unnecessary_wraps, reason = "the type of the other faults")]
fn grow(counters: &mut BTreeMap<String, i64>, name: &str) -> Option<()> {
    *counters.entry(name.to_owned()).or_default() += 1;
    Some(())
}

fn answered_at_once(observed: &mut Observed) -> Option<()> {
    let Loaded { connections, requests, seen_at, .. } = &mut observed.loaded;
    let job = observed.prepared.world.job;
    // The conditions under which a connection's first response must not arrive before a minimum time.
    let timed =
        *seen_at == SeenAt::Client && !job.network.varies() && job.network.rtt_us > job.tolerance.rtt_us;
    if !timed {
        return None;
    }
    let (place, opened_ns) = connections.iter().find_map(|one| {
        let of_it = requests.iter().enumerate().filter(|(_, request)| request.connection == Some(one.id));
        let (place, request) =
            of_it.min_by_key(|(_, request)| (request.sent_ns.is_none(), request.sent_ns))?;
        (request.first_byte_ns.is_some() && request.cache.is_none()).then_some((place, one.opened_ns))
    })?;
    requests[place].first_byte_ns = Some(opened_ns);
    Some(())
}

fn resumed_at_one_end(observed: &mut Observed) -> Option<()> {
    let mut secured = observed.loaded.connections.iter_mut().filter_map(|one| one.tls.as_mut());
    let tls = secured.find(|tls| tls.origin.is_some())?;
    tls.resumed = !tls.resumed;
    Some(())
}

fn another_query(observed: &mut Observed) -> Option<()> {
    observed.loaded.lookups.first_mut()?.resolver.queries += 1;
    Some(())
}

fn another_size(observed: &mut Observed) -> Option<()> {
    let mut requests = observed.loaded.requests.iter_mut();
    requests.find(|one| one.error.is_none() && one.end_ns.is_some())?.body_bytes += 1;
    Some(())
}
