//! Builds a world from a job, runs a client in it, and says what happened.

pub mod topology;
pub mod wire;
