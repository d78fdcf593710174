//! Whether transactions with a server show what their plan expects. What overload, a flood or a change of key
//! does to connections is a result, and counted; what nothing explains makes the record invalid.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::FASTOPEN_COUNTERS;
use fastopen_contract::{
    Arrivals, BothEnds, Cookies, Invalid, InvalidKind, LinkRecord, LoadPlan, TransactionsPlan,
};

/// The generator is the limit where more of its arrivals are late, or the rate is further off.
const LATE_SHARE: f64 = 0.01;
const RATE_ERROR: f64 = 0.001;

/// The longest latency that is counted exactly, in microseconds.
const LONGEST_US: u64 = 600_000_000;
/// Significant decimal digits of a latency.
const DIGITS: u8 = 4;

/// The generator's counts and times.
pub struct Outcome {
    /// Transactions that began.
    pub begun: u64,
    /// Those that were due and did not begin: too many were under way, or there was no address left.
    pub not_begun: u64,
    /// From when the first was due to when the last began: that the first is late does not change the rate.
    pub arrived_over_ns: u64,
    /// From the start to the end of the last.
    pub elapsed_ns: u64,
    /// Those that got their whole answer.
    pub answered: u64,
    /// When the first and the last of these had it.
    pub answered_ns: Option<(u64, u64)>,
    /// Those whose answer was another than the page's.
    pub wrong: u64,
    /// What those that were not answered met, and how often.
    pub failures: BTreeMap<String, u64>,
    /// Connections whose SYN's data was acknowledged.
    pub syn_data: u64,
    /// Connections whose SYN's data was not.
    pub fallbacks: u64,
    /// Segments that the client's end sent again.
    pub retransmits: u64,
    /// Of those that were answered, in microseconds since they were due.
    pub latency_us: Histogram<u64>,
    /// How much later than due transactions began, in microseconds.
    pub lateness_us: Histogram<u64>,
    /// Those that began too late.
    pub late: u64,
}

impl Default for Outcome {
    fn default() -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, LONGEST_US, DIGITS).expect("the bounds are in order");
        Self {
            begun: 0,
            not_begun: 0,
            arrived_over_ns: 0,
            elapsed_ns: 0,
            answered: 0,
            answered_ns: None,
            wrong: 0,
            failures: BTreeMap::new(),
            syn_data: 0,
            fallbacks: 0,
            retransmits: 0,
            latency_us: histogram(),
            lateness_us: histogram(),
            late: 0,
        }
    }
}

impl Outcome {
    /// From the first answer to the last one.
    pub fn answered_over_ns(&self) -> u64 {
        self.answered_ns.map_or(0, |(first_ns, last_ns)| last_ns - first_ns)
    }

    /// Counts a failure.
    pub fn failed(&mut self, what: &str) {
        *self.failures.entry(what.to_owned()).or_default() += 1;
    }
}

/// What was observed of transactions.
pub struct Seen<'a> {
    /// What was asked for.
    pub plan: &'a LoadPlan,
    /// The same, of transactions alone.
    pub asked: &'a TransactionsPlan,
    /// What the generator saw.
    pub outcome: &'a Outcome,
    /// How many hosts there are, and of how many the client held a cookie at the start.
    pub hosts: usize,
    /// The same.
    pub cookies_before: usize,
    /// The Fast Open queue of the listener; none: it cannot be read.
    pub fastopen_queue: Option<u32>,
    /// Growth of the kernels' counters.
    pub counters: &'a BothEnds<BTreeMap<String, i64>>,
    /// What crossed the link.
    pub link: &'a LinkRecord,
    /// How late the link may release one packet in a hundred, in microseconds.
    pub late_us: u64,
    /// Why the server serves no longer, if it does not.
    pub server_failure: Option<&'a str>,
}

/// Every reason why the record is invalid; none for a valid one.
pub fn judge(seen: &Seen) -> Vec<Invalid> {
    let mut reasons = Vec::new();
    let mut add = |kind, detail: String| reasons.push(Invalid { kind, detail });
    if let Some(failure) = seen.server_failure {
        add(InvalidKind::ServerFailed, failure.into());
    }
    if let Some(limit) = seen.generators_limit() {
        add(InvalidKind::GeneratorLate, format!("the generator was the limit: {limit}"));
    }
    seen.link_delays(&mut add);
    let Outcome { answered, begun, wrong, failures, .. } = seen.outcome;
    let met = failures.keys().next().map_or("", String::as_str);
    if *wrong > 0 {
        add(
            InvalidKind::WrongBytes,
            format!("{wrong} of {begun} answers are other than the page says: {met}"),
        );
    } else if *answered == 0 {
        add(InvalidKind::Incomplete, format!("none of {begun} transactions was answered: {met}"));
    }
    match seen.plan.cookies {
        None => seen.without_fast_open(&mut add),
        Some(_) if seen.fastopen_queue == Some(0) => {
            let detail = "the server's listener has no Fast Open queue: configure one, or --server-listen";
            add(InvalidKind::NoListenerQueue, detail.into());
        }
        Some(Cookies::Cold) => seen.cold(&mut add),
        Some(Cookies::Warm) => seen.warm(&mut add),
    }
    reasons
}

impl Seen<'_> {
    fn of_origins(&self, name: &str) -> u64 {
        self.counters.origins.get(name).copied().unwrap_or(0).max(0) as u64
    }

    /// Whether the server may treat connections otherwise than their cookies say.
    fn is_disturbed(&self) -> bool {
        self.asked.flood.is_some() || self.asked.syncookies > 0
    }

    /// Why what was offered is not what was asked for, if it is not.
    fn generators_limit(&self) -> Option<String> {
        let Outcome { begun, not_begun, late, arrived_over_ns, lateness_us, .. } = self.outcome;
        if *not_begun > 0 {
            return Some(format!("{not_begun} transactions that were due did not begin"));
        }
        let Arrivals::RatePerS(rate) = self.asked.arrivals else { return None };
        if *late as f64 > LATE_SHARE * *begun as f64 {
            let (bound, most) = (self.asked.late_us, lateness_us.max());
            return Some(format!("{late} of {begun} arrivals were over {bound} us late, at most {most} us"));
        }
        let intervals = begun.saturating_sub(1) as f64;
        let kept = intervals * 1e9 / *arrived_over_ns as f64;
        let off = (kept / f64::from(rate) - 1.0).abs();
        // What one arrival at an end of the time may be late is no rate.
        let slack = self.asked.late_us as f64 * 1000.0 / (*arrived_over_ns).max(1) as f64;
        (intervals >= 1.0 && off > RATE_ERROR.max(slack))
            .then(|| format!("{kept:.1} arrivals a second instead of {rate}"))
    }

    fn link_delays(&self, add: &mut impl FnMut(InvalidKind, String)) {
        for (way, one) in [("down", &self.link.down), ("up", &self.link.up)] {
            if one.overruns > 0 {
                add(
                    InvalidKind::LinkLate,
                    format!("{way}: {} packets were lost outside the link", one.overruns),
                );
            } else if one.late_us_p99 > self.late_us {
                let detail = format!(
                    "{way}: one packet in a hundred was released over {} us late (at most {} us allowed)",
                    one.late_us_p99, self.late_us
                );
                add(InvalidKind::LinkLate, detail);
            }
        }
    }

    fn without_fast_open(&self, add: &mut impl FnMut(InvalidKind, String)) {
        let grown = FASTOPEN_COUNTERS.iter().find(|name| {
            [&self.counters.client, &self.counters.origins].iter().any(|end| end.contains_key(**name))
        });
        if let Some(name) = grown {
            add(InvalidKind::SynDataWithoutTfo, format!("{name} grew"));
        } else if self.outcome.syn_data > 0 {
            let detail = format!("{} connections carried data in their SYN", self.outcome.syn_data);
            add(InvalidKind::SynDataWithoutTfo, detail);
        }
    }

    fn cold(&self, add: &mut impl FnMut(InvalidKind, String)) {
        let Outcome { syn_data, fallbacks, answered, .. } = self.outcome;
        if syn_data + fallbacks > 0 {
            let detail = format!("{} new clients sent data in their SYN", syn_data + fallbacks);
            add(InvalidKind::CookieBeforeCold, detail);
        }
        let asked = self.of_origins("TCPFastOpenCookieReqd");
        if asked < *answered && !self.is_disturbed() {
            let detail = format!("{asked} cookies were asked for by {answered} new clients");
            add(InvalidKind::CountersDisagree, detail);
        }
    }

    fn warm(&self, add: &mut impl FnMut(InvalidKind, String)) {
        if self.cookies_before < self.hosts {
            let detail = format!("of {} hosts the client held {} cookies", self.hosts, self.cookies_before);
            add(InvalidKind::NoCookieWhenWarm, detail);
        }
        if self.is_disturbed() {
            return;
        }
        let Outcome { syn_data, fallbacks, answered, begun, .. } = self.outcome;
        if syn_data + fallbacks < *answered {
            let without = answered - syn_data - fallbacks;
            add(
                InvalidKind::NoSynData,
                format!("{without} of {begun} connections carried no data in their SYN"),
            );
        }
        let taken = self.of_origins("TCPFastOpenPassive");
        if answered == begun && taken != *syn_data {
            let detail =
                format!("the server's kernel took data of {taken} SYNs, and acknowledged {syn_data}");
            add(InvalidKind::CountersDisagree, detail);
        }
        let overflows = self.of_origins("TCPFastOpenListenOverflow");
        if *fallbacks > overflows && self.asked.new_key.is_none() {
            let detail =
                format!("data in {fallbacks} SYNs was refused, and the queue was full {overflows} times");
            add(InvalidKind::FastopenFailed, detail);
        }
    }
}
