//! Implements HTTP/2 for the origin servers and the page loader with the `h2` crate: uses Chromium's
//! flow-control windows, and sends responses in the order of their priorities.

pub mod cork;
pub mod frame_counters;
pub mod send;
pub mod stream_scheduler;

use h2::RecvStream;

/// Maximum concurrent streams of an origin (`SETTINGS_MAX_CONCURRENT_STREAMS`). Servers commonly allow 100,
/// and clients such as Chromium assume 100 until they have read the setting (RFC 9113 section 6.5.2).
pub const MAX_CONCURRENT_STREAMS: u32 = 100;

/// Flow-control window of a stream in bytes: `kSpdyStreamMaxRecvWindowSize` in Chromium's
/// `net/http/http_network_session.cc`.
pub const STREAM_WINDOW: u32 = 6 << 20;

/// Flow-control window of a connection in bytes: `kSpdySessionMaxRecvWindowSize` in Chromium's
/// `net/http/http_network_session.cc`.
pub const CONNECTION_WINDOW: u32 = 15 << 20;

/// Size of the client's HPACK table in bytes: Chromium's `kSpdyMaxHeaderTableSize`.
pub const HEADER_TABLE_SIZE: u32 = 65_536;

/// Maximum unsent bytes in an origin's socket (`TCP_NOTSENT_LOWAT`). Even urgent responses wait behind them.
pub const NOTSENT_LOWAT: u32 = 16_384;

/// Maximum header section size at each end in bytes (`SETTINGS_MAX_HEADER_LIST_SIZE`). No page reaches it.
pub const MAX_HEADER_LIST_SIZE: u32 = 1 << 20;

/// Receives a whole body. If it has more than `most` bytes, discards the excess and returns `None`. Fails if
/// the stream ends before its body is complete.
pub async fn receive(mut body: RecvStream, most: usize) -> Result<Option<Vec<u8>>, h2::Error> {
    let (mut received, mut fits) = (Vec::new(), true);
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        fits &= received.len() + chunk.len() <= most;
        if fits {
            received.extend_from_slice(&chunk);
        }
    }
    Ok(fits.then_some(received))
}
