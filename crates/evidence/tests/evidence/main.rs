//! Tests each reason why a load can be invalid, with a load that has this fault and with a similar load that
//! does not.

mod loads;
mod lookups;
mod paths;
mod quic;
mod sessions;
mod support;
