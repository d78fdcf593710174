//! Tests each reason for which a load is invalid, with a load that has the reason and a similar load that
//! does not.

mod loads;
mod lookups;
mod paths;
mod quic;
mod sessions;
mod support;
