//! HTTP/3 for the origins and the loader: the `h3` crate on QUIC streams of our own, which count their frames
//! and have the priorities of RFC 9218.

mod frames;
mod streams;

pub use self::streams::{BidiStream, Early, OpenStreams, Quic, RecvStream, SendStream, StreamTable};
