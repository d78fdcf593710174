//! Configures and runs QUIC (quinn) for the origin servers and the page loader, with TCP's initial window,
//! HTTP/2's flow-control windows, and datagrams of one size. Counts the packets and bytes of each connection.

mod client;
mod congestion;
pub mod packets;
mod reactor;
mod runtime;
mod server;
mod socket;
pub mod table;
mod tickets;
mod verifier;

use std::sync::Arc;

use quinn::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{EndpointConfig, TransportConfig, VarInt};
use rustls::crypto::CryptoProvider;

use crate::http2::{CONNECTION_WINDOW, MAX_CONCURRENT_STREAMS, STREAM_WINDOW};
use crate::tls::{Handshake, Session, Version};

pub use self::client::{Connected, QuicClient};
pub use self::reactor::Runtime;
pub(crate) use self::server::QuicOrigin;

/// Bytes of a full datagram: the minimum that QUIC requires of a path (RFC 9000 section 14). Larger sizes
/// are not probed.
pub const DATAGRAM_BYTES: u16 = 1200;

/// Payload of a full TCP segment on Ethernet, in bytes. Converts TCP's initial window, in segments, to bytes.
const TCP_SEGMENT_BYTES: u64 = 1448;

/// Creates the congestion controllers of connections.
pub type CongestionControl = Arc<dyn ControllerFactory + Send + Sync>;

/// Settings of both ends of QUIC connections.
#[derive(Clone)]
pub struct Settings {
    /// The congestion control algorithm, with the initial window (see [`congestion_control`]).
    pub control: CongestionControl,
    /// True if origins issue and accept address tokens.
    pub address_tokens: bool,
    /// True if origins answer clients without an address token with a Retry.
    pub retry: bool,
}

/// Returns quinn's implementation of the algorithm that Linux calls `name`; `None` for algorithms that quinn
/// lacks. The initial window is counted in TCP segments of 1448 bytes, so that it equals TCP's window.
pub fn congestion_control(name: &str, initial_window_segments: u32) -> Option<CongestionControl> {
    let window = u64::from(initial_window_segments) * TCP_SEGMENT_BYTES;
    let (mut cubic, mut reno) = (CubicConfig::default(), NewRenoConfig::default());
    cubic.initial_window(window);
    reno.initial_window(window);
    match name {
        "cubic" => Some(Arc::new(cubic)),
        "reno" => Some(Arc::new(reno)),
        _ => None,
    }
}

fn transport(control: CongestionControl) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(MAX_CONCURRENT_STREAMS))
        // Keep idle connections, as TCP does.
        .max_idle_timeout(None)
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(CONNECTION_WINDOW.into())
        .initial_mtu(DATAGRAM_BYTES)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        .datagram_receive_buffer_size(None)
        .allow_spin(false)
        .congestion_controller_factory(control);
    Arc::new(config)
}

fn endpoint_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    // Fix the seed: random numbers select packet numbers to skip, which changes the size of acknowledgments.
    config.grease_quic_bit(false).rng_seed(Some([0; 32]));
    config
}

/// Describes the TLS handshake of a QUIC connection. Takes the cipher suite and the group, which quinn does
/// not report, from `provider`: both ends prefer its first TLS 1.3 cipher suite and its first group.
fn handshake(
    provider: &CryptoProvider,
    alpn: Option<Vec<u8>>,
    resumed: bool,
    early_bytes: u64,
    complete: bool,
) -> Handshake {
    let suite = provider.cipher_suites.iter().find(|suite| suite.tls13().is_some());
    Handshake {
        session: Session {
            version: Version::Tls13,
            cipher: suite.and_then(|suite| suite.suite().as_str()).unwrap_or(""),
            group: provider.kx_groups.first().and_then(|group| group.name().as_str()),
            alpn: alpn.map(|name| String::from_utf8_lossy(&name).into_owned()),
            resumed,
        },
        hello_bytes: 0, // Not counted: clients pad their first datagrams to the full size.
        early_bytes,
        complete,
    }
}
