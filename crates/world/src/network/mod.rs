//! Builds and measures the emulated network: its addresses and namespaces, and the link between its ends.

pub mod addresses;
pub mod cross_traffic;
pub mod kernel_link;
pub mod link;
pub mod link_config;
pub mod measure;
pub mod program_link;
pub mod sysctls;
pub mod topology;
