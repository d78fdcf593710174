//! Counts the traffic of each stream of an HTTP/2 connection by parsing the connection's frames.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::counters::TrafficCounters;

/// Traffic of one stream in one direction, with times in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectionTraffic {
    /// Time of the stream's first byte in this direction, if any.
    pub first_ns: Option<u64>,
    /// Time of the stream's latest byte in this direction, if any.
    pub last_ns: Option<u64>,
    /// Bytes of the stream's HEADERS and CONTINUATION frames, including the headers of these frames.
    pub header_bytes: u64,
    /// Payload bytes of DATA frames. They include padding (RFC 9113 section 6.1), but neither end sends any.
    pub body_bytes: u64,
    /// True if the stream has ended in this direction (`END_STREAM`).
    pub ended: bool,
}

/// Traffic of one stream, as one end of the connection sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamTraffic {
    /// The stream's traffic that this end of the connection has written.
    pub written: DirectionTraffic,
    /// The stream's traffic that this end of the connection has read.
    pub read: DirectionTraffic,
}

/// Counters of the header and body bytes of each stream of an HTTP/2 connection, in both directions.
#[derive(Debug, Default)]
pub struct FrameCounters {
    written: DirectionCounters,
    read: DirectionCounters,
    /// For each stream: the number of body bytes already read, and the waker to call when more are read.
    waiting: BTreeMap<u32, (u64, Waker)>,
}

impl FrameCounters {
    /// Returns the traffic so far on stream `id`; zeros for an unknown stream.
    pub fn stream(&self, id: u32) -> StreamTraffic {
        let of = |direction: &DirectionCounters| direction.streams.get(&id).copied().unwrap_or_default();
        StreamTraffic { written: of(&self.written), read: of(&self.read) }
    }

    /// Returns the number of bytes of the stream's body that have been read, including incomplete DATA
    /// frames. Calls `waker` once, when more bytes have been read.
    pub fn poll_body(&mut self, id: u32, waker: &Waker) -> u64 {
        let bytes = self.stream(id).read.body_bytes;
        self.waiting.insert(id, (bytes, waker.clone()));
        bytes
    }
}

impl TrafficCounters for FrameCounters {
    fn wrote(&mut self, at_ns: u64, bytes: &[u8]) {
        self.written.parse(at_ns, bytes);
    }

    fn read(&mut self, at_ns: u64, bytes: &[u8]) {
        self.read.parse(at_ns, bytes);
        let read = &self.read.streams;
        self.waiting.retain(|id, (seen, waker)| {
            let wakes = read.get(id).is_some_and(|traffic| traffic.body_bytes > *seen);
            if wakes {
                waker.wake_by_ref();
            }
            !wakes
        });
    }
}

/// The connection preface of HTTP/2: the first bytes that a client sends (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// The length of a frame header (RFC 9113 section 4.1), and types and flags of frames (section 6).
const FRAME_HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

#[derive(Debug, Default)]
struct DirectionCounters {
    streams: BTreeMap<u32, DirectionTraffic>,
    /// Bytes seen so far of an incomplete frame header or preface.
    header: Vec<u8>,
    started: bool,
    frame: Frame,
    /// Number of bytes of the frame's payload that are still to come.
    left: usize,
    /// Set if the HEADERS frame had `END_STREAM`. The frame's last CONTINUATION then ends the stream.
    header_ends_stream: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl DirectionCounters {
    fn parse(&mut self, at_ns: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = if self.left > 0 {
                let used = self.left.min(bytes.len());
                self.left -= used;
                self.count(at_ns, used);
                used
            } else {
                self.parse_header(at_ns, bytes)
            };
            bytes = &bytes[used..];
        }
    }

    /// Parses the next bytes of a preface or frame header. Returns the number of bytes that it consumed.
    fn parse_header(&mut self, at_ns: u64, bytes: &[u8]) -> usize {
        // Only a client sends a preface. A server's first byte is 0: the length of a short SETTINGS frame.
        let is_preface = !self.started && self.header.first().unwrap_or(&bytes[0]) == &PREFACE[0];
        let length = if is_preface { PREFACE.len() } else { FRAME_HEADER_BYTES };
        let used = (length - self.header.len()).min(bytes.len());
        self.header.extend_from_slice(&bytes[..used]);
        if self.header.len() == length {
            self.started = true;
            if !is_preface {
                self.begin_frame(at_ns);
            }
            self.header.clear();
        }
        used
    }

    fn begin_frame(&mut self, at_ns: u64) {
        let header = &self.header;
        self.left = (usize::from(header[0]) << 16) | (usize::from(header[1]) << 8) | usize::from(header[2]);
        let stream = u32::from_be_bytes([header[5] & 0x7f, header[6], header[7], header[8]]);
        self.frame = Frame { kind: header[3], flags: header[4], stream };
        if self.frame.kind == HEADERS {
            self.header_ends_stream = self.frame.flags & END_STREAM != 0;
        }
        self.count(at_ns, if self.frame.kind == DATA { 0 } else { FRAME_HEADER_BYTES });
    }

    fn count(&mut self, at_ns: u64, bytes: usize) {
        let Frame { kind, flags, stream } = self.frame;
        let ends_stream = match kind {
            DATA => flags & END_STREAM != 0,
            HEADERS | CONTINUATION => flags & END_HEADERS != 0 && self.header_ends_stream,
            _ => return,
        };
        let traffic = self.streams.entry(stream).or_default();
        traffic.first_ns.get_or_insert(at_ns);
        traffic.last_ns = Some(at_ns);
        *(if kind == DATA { &mut traffic.body_bytes } else { &mut traffic.header_bytes }) += bytes as u64;
        traffic.ended |= ends_stream && self.left == 0;
    }
}
