//! HTTP/3 for the origin servers and the page loader: the `h3` crate on QUIC streams that count their frames
//! and implement the priorities of RFC 9218.

mod frames;
mod streams;

pub use self::streams::{BidiStream, Early, Quic, RecvStream, SendStream, StreamTable};
