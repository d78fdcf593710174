//! Defines the jobs that the program `fastopen-world` reads, and the records that it writes. The Python
//! program writes the jobs. `docs/dev/contract.md` describes the keys.

#![expect(missing_docs, reason = "docs/dev/contract.md describes each key")]

mod client;
mod job;
mod records;
mod transactions;
mod validate;

pub use client::*;
pub use job::*;
pub use records::*;
pub use transactions::*;

/// The version of the format of jobs and records. Every job must specify this version.
pub const VERSION: u32 = 2;
