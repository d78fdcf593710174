//! Tests parts of the origin servers and of the loader's TLS and HTTP one by one.

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
