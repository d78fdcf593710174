//! Tests each reason why a load can be invalid, with a load that has the fault and a similar one without it.

mod loads;
mod lookups;
mod paths;
mod quic;
mod sessions;
mod support;
