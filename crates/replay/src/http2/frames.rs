//! The frames of an HTTP/2 connection as they cross it: when the bytes of each stream went and came, and how many.

use std::collections::BTreeMap;

use crate::stream::Account;

/// What crossed one stream in one direction; times in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Way {
    /// First byte.
    pub first_ns: Option<u64>,
    /// Latest byte.
    pub last_ns: Option<u64>,
    /// Bytes of the frames that hold the head.
    pub head_bytes: u64,
    /// Bytes of the body; what pads it (RFC 9113 section 6.1) counts, but nobody here pads.
    pub body_bytes: u64,
    /// Whether everything was there.
    pub ended: bool,
}

/// What crossed one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stream {
    /// Written at this end.
    pub written: Way,
    /// Read at this end.
    pub read: Way,
}

/// An account of all streams of a connection.
#[derive(Debug, Default)]
pub struct Frames {
    streams: BTreeMap<u32, Stream>,
    written: Reader,
    read: Reader,
}

impl Frames {
    /// What crossed the stream of this number so far.
    pub fn stream(&self, number: u32) -> Stream {
        self.streams.get(&number).copied().unwrap_or_default()
    }
}

impl Account for Frames {
    fn wrote(&mut self, at_ns: u64, bytes: &[u8]) {
        let streams = &mut self.streams;
        self.written.take(bytes, |number, part| streams.entry(number).or_default().written.note(at_ns, part));
    }

    fn read(&mut self, at_ns: u64, bytes: &[u8]) {
        let streams = &mut self.streams;
        self.read.take(bytes, |number, part| streams.entry(number).or_default().read.note(at_ns, part));
    }
}

impl Way {
    fn note(&mut self, at_ns: u64, part: Part) {
        self.first_ns.get_or_insert(at_ns);
        self.last_ns = Some(at_ns);
        match part {
            Part::Head(bytes) => self.head_bytes += bytes,
            Part::Body(bytes) => self.body_bytes += bytes,
            Part::End => self.ended = true,
        }
    }
}

/// A part of a stream, as it went by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Head(u64),
    Body(u64),
    End,
}

/// What a client sends first (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// RFC 9113 section 4.1.
const FRAME_HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// The place in one direction of a connection.
#[derive(Debug, Default)]
struct Reader {
    /// What was seen of the next frame's head, or of the preface.
    head: Vec<u8>,
    begun: bool,
    frame: Frame,
    /// Bytes of its payload that are to come.
    left: usize,
    /// The head that is being sent ends its stream.
    ends_with_head: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Reader {
    /// Goes on with `bytes`; `note` is told of every part of a stream.
    fn take(&mut self, mut bytes: &[u8], mut note: impl FnMut(u32, Part)) {
        while !bytes.is_empty() {
            let taken =
                if self.left > 0 { self.payload(bytes, &mut note) } else { self.next_head(bytes, &mut note) };
            bytes = &bytes[taken..];
        }
    }

    /// Goes on with a frame's head, and says how many bytes that took.
    fn next_head(&mut self, bytes: &[u8], note: &mut impl FnMut(u32, Part)) -> usize {
        // The first frame of the other direction is a short one, so its first byte is 0.
        let is_preface = !self.begun && self.head.first().unwrap_or(&bytes[0]) == &PREFACE[0];
        let wanted = if is_preface { PREFACE.len() } else { FRAME_HEAD_BYTES };
        let taken = (wanted - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..taken]);
        if self.head.len() == wanted {
            self.begun = true;
            if !is_preface {
                self.begin(note);
            }
            self.head.clear();
        }
        taken
    }

    fn begin(&mut self, note: &mut impl FnMut(u32, Part)) {
        let head = &self.head;
        self.left = (usize::from(head[0]) << 16) | (usize::from(head[1]) << 8) | usize::from(head[2]);
        let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
        self.frame = Frame { kind: head[3], flags: head[4], stream };
        match self.frame.kind {
            HEADERS => self.ends_with_head = self.frame.flags & END_STREAM != 0,
            CONTINUATION | DATA => {}
            _ => return,
        }
        let bytes = if self.frame.kind == DATA { Part::Body(0) } else { Part::Head(FRAME_HEAD_BYTES as u64) };
        note(stream, bytes);
        if self.left == 0 {
            self.end(note);
        }
    }

    fn payload(&mut self, bytes: &[u8], note: &mut impl FnMut(u32, Part)) -> usize {
        let taken = self.left.min(bytes.len());
        self.left -= taken;
        let Frame { kind, stream, .. } = self.frame;
        match kind {
            HEADERS | CONTINUATION => note(stream, Part::Head(taken as u64)),
            DATA => note(stream, Part::Body(taken as u64)),
            _ => return taken,
        }
        if self.left == 0 {
            self.end(note);
        }
        taken
    }

    fn end(&mut self, note: &mut impl FnMut(u32, Part)) {
        let Frame { kind, flags, stream } = self.frame;
        let ends = match kind {
            DATA => flags & END_STREAM != 0,
            _ => flags & END_HEADERS != 0 && self.ends_with_head,
        };
        if ends {
            note(stream, Part::End);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame =
            vec![0, (payload.len() >> 8) as u8, payload.len() as u8, kind, flags, 0, 0, 0, stream];
        frame.extend_from_slice(payload);
        frame
    }

    /// Preface and SETTINGS, then two requests, the first with a body, the second with a head in two frames.
    fn requests() -> Vec<u8> {
        const SETTINGS: u8 = 4;
        [
            PREFACE.to_vec(),
            frame(SETTINGS, 0, 0, &[0; 18]),
            frame(HEADERS, END_HEADERS, 1, &[0; 20]),
            frame(HEADERS, END_STREAM, 3, &[0; 30]),
            frame(CONTINUATION, END_HEADERS, 3, &[0; 4]),
            frame(DATA, 0, 1, &[0; 300]),
            frame(DATA, END_STREAM, 1, &[]),
        ]
        .concat()
    }

    #[test]
    fn heads_bodies_and_ends_are_told_apart_wherever_the_bytes_are_cut() {
        let bytes = requests();
        for step in 1..=bytes.len() {
            let mut frames = Frames::default();
            bytes.chunks(step).for_each(|chunk| frames.wrote(7, chunk));
            let way = |head_bytes, body_bytes| Way {
                first_ns: Some(7),
                last_ns: Some(7),
                head_bytes,
                body_bytes,
                ended: true,
            };
            assert_eq!(frames.stream(1).written, way(29, 300), "in steps of {step}");
            assert_eq!(frames.stream(3).written, way(39 + 13, 0), "in steps of {step}");
            assert_eq!(frames.stream(1).read, Way::default());
        }
    }

    #[test]
    fn a_stream_has_the_times_of_its_own_first_and_last_bytes() {
        let mut frames = Frames::default();
        for (at_ns, byte) in requests().iter().enumerate() {
            frames.wrote(at_ns as u64, std::slice::from_ref(byte));
        }
        let before = PREFACE.len() + 27;
        let times = |number| (frames.stream(number).written.first_ns, frames.stream(number).written.last_ns);
        // Which stream a frame is of is known from its ninth byte on.
        assert_eq!(times(1), (Some(before as u64 + 8), Some(requests().len() as u64 - 1)));
        assert_eq!(times(3), (Some(before as u64 + 29 + 8), Some(before as u64 + 29 + 39 + 13 - 1)));
    }

    #[test]
    fn what_a_server_sends_begins_without_a_preface_and_may_break_off() {
        let mut frames = Frames::default();
        let answer = [
            frame(4, 0, 0, &[]),
            frame(HEADERS, END_HEADERS, 1, &[0; 9]),
            frame(DATA, END_STREAM, 1, &[0; 50]),
        ];
        frames.read(1, &answer.concat()[..9 + 18 + 9 + 20]);
        let read = frames.stream(1).read;
        assert_eq!((read.head_bytes, read.body_bytes, read.ended), (18, 20, false));
    }
}
