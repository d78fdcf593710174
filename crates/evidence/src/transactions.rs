//! Decides if a record of transactions with a server is valid. The effects of overload, a flood or a changed
//! cookie key are results, not faults. Other deviations from the expected results make the record invalid.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::{FASTOPEN_COUNTERS, grown};
use fastopen_contract::{Arrivals, BothEnds, Cookies, Invalid, LinkRecord, LoadPlan, TransactionsPlan};

/// Maximum share of late transactions in a valid run. A larger share means that the generator is too slow.
const LATE_SHARE: f64 = 0.01;
/// Maximum relative error of the rate at which the transactions of a valid run begin.
const RATE_ERROR: f64 = 0.001;

/// Largest time in histograms, in microseconds. Longer times are counted as this time.
const LONGEST_US: u64 = 600_000_000;
const SIGNIFICANT_DIGITS: u8 = 4;

/// A histogram of times in microseconds.
pub struct Times(pub Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_US, SIGNIFICANT_DIGITS).expect("the bounds are in order"))
    }
}

/// The counts and times that the transaction generator recorded.
#[derive(Default)]
pub struct Outcome {
    /// Transactions that began.
    pub begun: u64,
    /// Transactions that were due but did not begin, because too many were running or no address was left.
    pub not_begun: u64,
    /// Time from the due time of the first transaction to the start of the last.
    pub arrived_over_ns: u64,
    /// Time from the start of the load generator to the end of its last transaction.
    pub elapsed_ns: u64,
    /// Transactions with a complete response.
    pub answered: u64,
    /// Monotonic times of the first and the last complete response, in nanoseconds; `None` if there is none.
    pub answered_ns: Option<(u64, u64)>,
    /// Transactions whose response differs from the page's resource in its status or body size.
    pub wrong_responses: u64,
    /// Number of failed transactions for each error.
    pub failures: BTreeMap<String, u64>,
    /// Connections whose SYN data was acknowledged.
    pub syn_data: u64,
    /// Connections whose SYN data was refused, or whose SYN was retransmitted without data.
    pub fallbacks: u64,
    /// Segments that the client retransmitted.
    pub retransmits: u64,
    /// Times from the due time of a transaction to its complete response, in microseconds.
    pub latency_us: Times,
    /// Times from the due time of a transaction to its start, in microseconds.
    pub lateness_us: Times,
    /// Number of transactions that began later than the plan tolerates.
    pub late: u64,
}

impl Outcome {
    /// Counts a failed transaction with the error `what`.
    pub fn failed(&mut self, what: &str) {
        *self.failures.entry(what.to_owned()).or_default() += 1;
    }
}

/// The plan of a run of transactions (single requests to a server), and the observations during the run.
#[expect(missing_docs, reason = "the names say it")]
pub struct RunObservations<'a> {
    pub plan: &'a LoadPlan,
    pub transactions: &'a TransactionsPlan,
    pub outcome: &'a Outcome,
    pub hosts: usize,
    /// The number of hosts whose TFO cookie the client had at the start.
    pub cookies_before: usize,
    /// The length of the listener's Fast Open queue; `None` if it cannot be read.
    pub fastopen_queue: Option<u32>,
    /// Growth of the kernels' counters. Counters that did not grow are left out.
    pub counters: &'a BothEnds<BTreeMap<String, i64>>,
    pub link: &'a LinkRecord,
    /// Limit in us for the 99th percentile of the delay from a packet's due time to its release by the link.
    pub late_us: u64,
    /// The reason why the server no longer serves; `None` if the server serves.
    pub server_failure: Option<&'a str>,
}

/// Returns all reasons why the results of a run of transactions are invalid; empty if they are valid.
pub fn judge(observed: &RunObservations) -> Vec<Invalid> {
    let mut reasons = Vec::new();
    if let Some(failure) = observed.server_failure {
        invalid!(reasons, ServerFailed, "{failure}");
    }
    if let Some(limit) = observed.generators_limit() {
        invalid!(reasons, GeneratorLate, "the generator was the limit: {limit}");
    }
    observed.link_delays(&mut reasons);
    let Outcome { answered, begun, wrong_responses, failures, .. } = observed.outcome;
    let met = failures.keys().next().map_or("", String::as_str);
    if *wrong_responses > 0 {
        invalid!(reasons, WrongBytes, "{wrong_responses} of {begun} responses differ from the page: {met}");
    } else if *answered == 0 {
        invalid!(reasons, Incomplete, "none of {begun} transactions was answered: {met}");
    }
    match observed.plan.cookies {
        None => observed.without_fast_open(&mut reasons),
        Some(_) if observed.fastopen_queue == Some(0) => {
            invalid!(
                reasons,
                NoListenerQueue,
                "the server's listener has no Fast Open queue: configure one, or --server-listen"
            );
        }
        Some(Cookies::Cold) => observed.cold(&mut reasons),
        Some(Cookies::Warm) => observed.warm(&mut reasons),
    }
    reasons
}

impl RunObservations<'_> {
    fn of_origins(&self, name: &str) -> u64 {
        grown(&self.counters.origins, name).max(0) as u64
    }

    fn is_disturbed(&self) -> bool {
        self.transactions.flood.is_some() || self.transactions.syncookies > 0
    }

    /// Describes why the transactions did not begin at the requested times or rate; `None` if they did.
    fn generators_limit(&self) -> Option<String> {
        let Outcome { begun, not_begun, late, arrived_over_ns, lateness_us, .. } = self.outcome;
        if *not_begun > 0 {
            return Some(format!("{not_begun} transactions that were due did not begin"));
        }
        let Arrivals::RatePerS(rate) = self.transactions.arrivals else { return None };
        if *late as f64 > LATE_SHARE * *begun as f64 {
            let (bound, most) = (self.transactions.late_us, lateness_us.0.max());
            return Some(format!("{late} of {begun} arrivals were over {bound} us late, at most {most} us"));
        }
        let intervals = begun.saturating_sub(1) as f64;
        let kept = intervals * 1e9 / *arrived_over_ns as f64;
        let off = (kept / f64::from(rate) - 1.0).abs();
        // The tolerated lateness of one arrival does not count as an error of the rate.
        let slack = self.transactions.late_us as f64 * 1000.0 / (*arrived_over_ns).max(1) as f64;
        (intervals >= 1.0 && off > RATE_ERROR.max(slack))
            .then(|| format!("{kept:.1} arrivals a second instead of {rate}"))
    }

    fn link_delays(&self, reasons: &mut Vec<Invalid>) {
        for (way, one) in [("down", &self.link.down), ("up", &self.link.up)] {
            if one.overruns > 0 {
                invalid!(reasons, LinkLate, "{way}: {} packets were lost outside the link", one.overruns);
            } else if one.late_us_p99 > self.late_us {
                let (late, allowed) = (one.late_us_p99, self.late_us);
                invalid!(
                    reasons,
                    LinkLate,
                    "{way}: one packet in a hundred was released over {late} us late (at most {allowed} us \
                     allowed)"
                );
            }
        }
    }

    fn without_fast_open(&self, reasons: &mut Vec<Invalid>) {
        let grown = FASTOPEN_COUNTERS.iter().find(|name| {
            [&self.counters.client, &self.counters.origins].iter().any(|end| end.contains_key(**name))
        });
        if let Some(name) = grown {
            invalid!(reasons, SynDataWithoutTfo, "{name} grew");
        } else if self.outcome.syn_data > 0 {
            let count = self.outcome.syn_data;
            invalid!(reasons, SynDataWithoutTfo, "{count} connections carried data in their SYN");
        }
    }

    fn cold(&self, reasons: &mut Vec<Invalid>) {
        let Outcome { syn_data, fallbacks, answered, .. } = self.outcome;
        if syn_data + fallbacks > 0 {
            let count = syn_data + fallbacks;
            invalid!(reasons, CookieBeforeCold, "{count} new clients sent data in their SYN");
        }
        let asked = self.of_origins("TCPFastOpenCookieReqd");
        if asked < *answered && !self.is_disturbed() {
            invalid!(reasons, CountersDisagree, "{answered} new clients requested {asked} cookies");
        }
    }

    fn warm(&self, reasons: &mut Vec<Invalid>) {
        if self.cookies_before < self.hosts {
            let (hosts, held) = (self.hosts, self.cookies_before);
            invalid!(reasons, NoCookieWhenWarm, "of {hosts} hosts the client held {held} cookies");
        }
        if self.is_disturbed() {
            return;
        }
        let Outcome { syn_data, fallbacks, answered, begun, .. } = self.outcome;
        if syn_data + fallbacks < *answered {
            let without = answered - syn_data - fallbacks;
            invalid!(reasons, NoSynData, "{without} of {begun} connections carried no data in their SYN");
        }
        let taken = self.of_origins("TCPFastOpenPassive");
        if answered == begun && taken != *syn_data {
            invalid!(
                reasons,
                CountersDisagree,
                "the server's kernel accepted the data of {taken} SYNs, and acknowledged {syn_data}"
            );
        }
        let overflows = self.of_origins("TCPFastOpenListenOverflow");
        if *fallbacks > overflows && self.transactions.new_key.is_none() {
            invalid!(
                reasons,
                FastopenFailed,
                "data in {fallbacks} SYNs was refused, and the queue was full {overflows} times"
            );
        }
    }
}
