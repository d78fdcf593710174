//! Tests each kind of reason with a load that has it, and a similar load that does not.

mod loads;
mod lookups;
mod paths;
mod quic;
mod sessions;
mod support;
