//! Tests parts of the origin servers separately.

mod caching;
mod cors;
mod early_data;
mod frame_counters;
mod header;
mod http3_streams;
mod priority;
mod quic_packets;
mod stream_scheduler;
mod tls;
