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

/// The supported congestion control algorithms, which quinn and Linux both implement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionControl {
    /// CUBIC (RFC 9438).
    Cubic,
    /// `NewReno` (RFC 9002 section 7).
    Reno,
}

impl CongestionControl {
    /// Returns the algorithm that Linux calls `name`; `None` for unsupported algorithms, such as `bbr`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "cubic" => Some(Self::Cubic),
            "reno" => Some(Self::Reno),
            _ => None,
        }
    }
}

/// Settings of both ends of QUIC connections.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The congestion control algorithm.
    pub congestion_control: CongestionControl,
    /// Initial congestion window, counted in TCP segments of 1448 bytes so that it equals TCP's window.
    pub initial_window_segments: u32,
    /// True if origins issue and accept address tokens.
    pub address_tokens: bool,
    /// True if origins answer clients without an address token with a Retry.
    pub retry: bool,
}

impl Settings {
    fn control(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        let window = u64::from(self.initial_window_segments) * TCP_SEGMENT_BYTES;
        match self.congestion_control {
            CongestionControl::Cubic => {
                let mut cubic = CubicConfig::default();
                cubic.initial_window(window);
                Arc::new(cubic)
            }
            CongestionControl::Reno => {
                let mut reno = NewRenoConfig::default();
                reno.initial_window(window);
                Arc::new(reno)
            }
        }
    }
}

fn transport(control: Arc<dyn ControllerFactory + Send + Sync>) -> Arc<TransportConfig> {
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
