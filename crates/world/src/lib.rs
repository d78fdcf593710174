//! Library of the program `fastopen-world`: builds the world of a job (an emulated network with origin
//! servers), runs the job's client there, and writes the results as records.

#![allow(missing_docs, reason = "only this package's program and benchmark use the library")]

pub use fastopen_contract as contract;
pub use fastopen_evidence as evidence;

pub mod capture;
pub mod clients;
pub mod commands;
pub mod engine;
pub mod failure;
pub mod generator;
pub mod network;
pub mod sandbox;
pub mod server;
pub mod virtual_kernel;
pub mod world;
