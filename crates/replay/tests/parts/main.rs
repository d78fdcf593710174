//! Tests individual parts of the origin servers, and of the page loader's TLS and HTTP.

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
