//! Each kind of reason: a load that gives it, and one like it that does not.

mod loads;
mod lookups;
mod paths;
mod quic;
mod sessions;
mod support;
