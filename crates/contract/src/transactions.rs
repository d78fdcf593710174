//! Defines the plan and the record of transactions: single requests that put a server under load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::{Cookies, Transport};
use crate::records::{BothEnds, Invalid, LinkRecord};
use crate::validate::number;

/// A plan to put a server under load with single requests, instead of loading the page. A transaction opens a
/// connection, sends one request and reads the response. Transactions request the page's resources in turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransactionsPlan {
    pub arrivals: Arrivals,
    pub duration_us: u64,
    #[serde(default = "number::<1000, _>")]
    pub late_us: u64,
    #[serde(default)]
    pub syncookies: u8,
    #[serde(default)]
    pub new_key: Option<NewKey>,
    #[serde(default)]
    pub flood: Option<FloodPlan>,
}

impl TransactionsPlan {
    /// Estimates how many connections the server will get, including those of a SYN flood.
    pub fn connections(&self) -> u64 {
        let (Arrivals::RatePerS(count) | Arrivals::Clients(count)) = self.arrivals;
        let flood = self.flood.map_or(0, |flood| flood.rate_per_s);
        u64::from(count) + u64::from(count + flood) * self.duration_us / 1_000_000
    }
}

/// The start times of transactions: at a fixed rate, or one after another for each client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Transactions begin at this fixed rate per second, independently of earlier ones (open loop).
    RatePerS(u32),
    /// This number of clients runs in parallel, each with one transaction after another (closed loop).
    Clients(u32),
}

/// The change of the origins' TFO cookie key halfway through the transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NewKey {
    /// After the change, only the new key is valid.
    Replace,
    /// After the change, both keys are valid.
    Add,
}

/// A flood of SYNs from addresses that never answer.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloodPlan {
    pub rate_per_s: u32,
    pub cookies: FloodCookies,
}

/// The TFO cookies in the SYNs of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FloodCookies {
    /// SYNs with neither cookies nor data.
    None,
    /// SYNs with data and invalid cookies.
    Invalid,
    /// SYNs with data and valid cookies for their source addresses.
    Valid,
}

/// The results of a [`TransactionsPlan`]. If they are invalid, `invalid` lists the reasons.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransactionsRecord {
    pub job: String,
    pub id: String,
    pub transport: Transport,
    pub cookies: Option<Cookies>,
    pub valid: bool,
    pub invalid: Vec<Invalid>,
    pub started_unix_ms: u64,
    pub cookies_before: usize,
    pub begun: u64,
    pub not_begun: u64,
    pub arrived_over_us: u64,
    pub elapsed_us: u64,
    pub answered: u64,
    pub answered_over_us: u64,
    pub failures: BTreeMap<String, u64>,
    pub syn_data: u64,
    pub fallbacks: u64,
    pub retransmits: u64,
    pub latency_us: Vec<[u64; 2]>,
    pub late: u64,
    pub lateness_us: Vec<[u64; 2]>,
    pub generator_us: u64,
    pub fastopen_queue: Option<u32>,
    pub flood_syns: u64,
    pub counters: BothEnds<BTreeMap<String, i64>>,
    pub link: LinkRecord,
    pub core: Option<CoreRecord>,
}

/// The CPU times of the core on which the server runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreRecord {
    pub number: usize,
    pub steered: bool,
    pub elapsed_us: u64,
    pub idle_us: u64,
    pub user_us: u64,
    pub nice_us: u64,
    pub system_us: u64,
    pub interrupts_us: u64,
    pub stolen_us: u64,
    pub server_threads_us: u64,
}
