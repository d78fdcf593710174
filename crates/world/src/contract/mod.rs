//! The job contract as `docs/contract.md` has it: what is read, and what is written.

mod client;
mod job;
mod reading;
mod records;

pub use client::*;
pub use job::*;
pub use records::*;

/// The version spoken here.
pub const VERSION: u32 = 2;
