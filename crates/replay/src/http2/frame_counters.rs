//! Traffic counters of an HTTP/2 connection: they parse its frames, and count the bytes of each stream.

use std::collections::BTreeMap;

use crate::counters::TrafficCounters;

/// Traffic of one stream in one direction; times in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectionTraffic {
    /// First byte.
    pub first_ns: Option<u64>,
    /// Latest byte.
    pub last_ns: Option<u64>,
    /// Bytes of HEADERS and CONTINUATION frames.
    pub header_bytes: u64,
    /// Bytes in DATA frames, with padding (RFC 9113 section 6.1), which neither end here uses.
    pub body_bytes: u64,
    /// Whether a frame had `END_STREAM`.
    pub ended: bool,
}

/// Traffic of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamTraffic {
    /// Bytes that this end wrote.
    pub written: DirectionTraffic,
    /// Bytes that this end read.
    pub read: DirectionTraffic,
}

/// Counters of all streams of a connection.
#[derive(Debug, Default)]
pub struct FrameCounters {
    streams: BTreeMap<u32, StreamTraffic>,
    written: FrameParser,
    read: FrameParser,
}

impl FrameCounters {
    /// The traffic so far on the stream with this identifier.
    pub fn stream(&self, id: u32) -> StreamTraffic {
        self.streams.get(&id).copied().unwrap_or_default()
    }
}

impl TrafficCounters for FrameCounters {
    fn wrote(&mut self, at_ns: u64, bytes: &[u8]) {
        let streams = &mut self.streams;
        self.written.parse(bytes, |number, part| streams.entry(number).or_default().written.add(at_ns, part));
    }

    fn read(&mut self, at_ns: u64, bytes: &[u8]) {
        let streams = &mut self.streams;
        self.read.parse(bytes, |number, part| streams.entry(number).or_default().read.add(at_ns, part));
    }
}

impl DirectionTraffic {
    fn add(&mut self, at_ns: u64, part: StreamPart) {
        self.first_ns.get_or_insert(at_ns);
        self.last_ns = Some(at_ns);
        match part {
            StreamPart::Header(bytes) => self.header_bytes += bytes,
            StreamPart::Data(bytes) => self.body_bytes += bytes,
            StreamPart::End => self.ended = true,
        }
    }
}

/// A part of a stream in one frame, with its number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamPart {
    Header(u64),
    Data(u64),
    End,
}

/// The first bytes of a client (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// RFC 9113 section 4.1.
const FRAME_HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// A parser of the frames in one direction of a connection.
#[derive(Debug, Default)]
struct FrameParser {
    /// The bytes so far of the next frame header, or of the preface.
    header: Vec<u8>,
    started: bool,
    frame: Frame,
    /// Bytes of the frame's payload that have not arrived.
    left: usize,
    /// Whether the HEADERS frame had `END_STREAM`: then its last CONTINUATION ends the stream.
    header_ends_stream: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl FrameParser {
    /// Parses `bytes` and calls `on_part` with each part of a stream.
    fn parse(&mut self, mut bytes: &[u8], mut on_part: impl FnMut(u32, StreamPart)) {
        while !bytes.is_empty() {
            let used = if self.left > 0 {
                self.parse_payload(bytes, &mut on_part)
            } else {
                self.parse_header(bytes, &mut on_part)
            };
            bytes = &bytes[used..];
        }
    }

    /// Parses bytes of a frame header or the preface, and returns how many.
    fn parse_header(&mut self, bytes: &[u8], on_part: &mut impl FnMut(u32, StreamPart)) -> usize {
        // A server's first frame is a short SETTINGS, whose length begins with a byte of 0.
        let is_preface = !self.started && self.header.first().unwrap_or(&bytes[0]) == &PREFACE[0];
        let length = if is_preface { PREFACE.len() } else { FRAME_HEADER_BYTES };
        let used = (length - self.header.len()).min(bytes.len());
        self.header.extend_from_slice(&bytes[..used]);
        if self.header.len() == length {
            self.started = true;
            if !is_preface {
                self.begin_frame(on_part);
            }
            self.header.clear();
        }
        used
    }

    fn begin_frame(&mut self, on_part: &mut impl FnMut(u32, StreamPart)) {
        let header = &self.header;
        self.left = (usize::from(header[0]) << 16) | (usize::from(header[1]) << 8) | usize::from(header[2]);
        let stream = u32::from_be_bytes([header[5] & 0x7f, header[6], header[7], header[8]]);
        self.frame = Frame { kind: header[3], flags: header[4], stream };
        match self.frame.kind {
            HEADERS => self.header_ends_stream = self.frame.flags & END_STREAM != 0,
            CONTINUATION | DATA => {}
            _ => return,
        }
        let part = if self.frame.kind == DATA {
            StreamPart::Data(0)
        } else {
            StreamPart::Header(FRAME_HEADER_BYTES as u64)
        };
        on_part(stream, part);
        if self.left == 0 {
            self.end_frame(on_part);
        }
    }

    fn parse_payload(&mut self, bytes: &[u8], on_part: &mut impl FnMut(u32, StreamPart)) -> usize {
        let used = self.left.min(bytes.len());
        self.left -= used;
        let Frame { kind, stream, .. } = self.frame;
        match kind {
            HEADERS | CONTINUATION => on_part(stream, StreamPart::Header(used as u64)),
            DATA => on_part(stream, StreamPart::Data(used as u64)),
            _ => return used,
        }
        if self.left == 0 {
            self.end_frame(on_part);
        }
        used
    }

    fn end_frame(&mut self, on_part: &mut impl FnMut(u32, StreamPart)) {
        let Frame { kind, flags, stream } = self.frame;
        let ends = match kind {
            DATA => flags & END_STREAM != 0,
            _ => flags & END_HEADERS != 0 && self.header_ends_stream,
        };
        if ends {
            on_part(stream, StreamPart::End);
        }
    }
}
