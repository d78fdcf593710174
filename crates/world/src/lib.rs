//! Builds a world from a job, runs a client in it, and writes records of what happened.

pub mod addresses;
pub mod capture;
pub mod check;
pub mod clients;
pub mod contract;
pub mod cross_traffic;
pub mod engine;
pub mod evidence;
pub mod failure;
pub mod forwarder;
pub mod hosts_overlay;
pub mod init;
pub mod link;
pub mod link_config;
pub mod measure;
pub mod memory_guard;
pub mod pcapng;
pub mod routers;
pub mod sandbox;
pub mod shell;
pub mod site;
pub mod tcp_trace;
pub mod tls;
pub mod topology;
pub mod uml;
pub mod world;
