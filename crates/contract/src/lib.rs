//! The job contract as `docs/dev/contract.md` has it: what is read, and what is written.

mod client;
mod job;
mod reading;
mod records;
mod transactions;

pub use client::*;
pub use job::*;
pub use records::*;
pub use transactions::*;

/// The version spoken here.
pub const VERSION: u32 = 2;
