//! The origin servers' parts, each by itself.

mod caching;
mod cors;
mod early_data;
mod frame_counters;
mod header;
mod priority;
mod quic_packets;
mod stream_scheduler;
mod tls;
