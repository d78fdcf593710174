//! Builds a world from a job, runs a client in it, and says what happened.

pub mod check;
pub mod contract;
pub mod evidence;
pub mod loader;
pub mod measure;
pub mod topology;
pub mod wire;
pub mod world;
