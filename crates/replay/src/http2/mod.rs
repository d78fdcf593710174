//! HTTP/2 as the origins and the loader speak it: the `h2` crate, windows that throttle nothing, urgent answers first.

pub mod cork;
pub mod frames;
pub mod sending;
pub mod turns;

/// How many requests an origin answers at once on a connection, as servers commonly allow, and as clients take for granted before
/// they have heard (RFC 9113 section 6.5.2; 100 in Chromium too).
pub const STREAMS: u32 = 100;

/// Bytes that may be under way on one stream: `kSpdyStreamMaxRecvWindowSize` is 6 MiB in Chromium's `net/http/http_network_session.cc`.
pub const STREAM_WINDOW: u32 = 6 << 20;

/// Bytes that may be under way on a connection: `kSpdySessionMaxRecvWindowSize`, 15 MiB in the same place.
pub const CONNECTION_WINDOW: u32 = 15 << 20;

/// Bytes of what a client remembers of heads: Chromium's `kSpdyMaxHeaderTableSize`.
pub const HEADER_TABLE: u32 = 65_536;

/// Bytes that an origin leaves to the kernel before they can be sent, as good servers do: only what is not there yet can be overtaken.
pub const UNSENT: u32 = 16_384;

/// The longest head that either end takes, in bytes as RFC 9113 section 6.5.2 counts them: more than a page may have.
pub const HEAD: u32 = 1 << 20;
