//! Parses the frames on a request stream (RFC 9114 section 7.1), and counts the bytes of heads and bodies.

use crate::http2::frame_counters::DirectionTraffic;
use fastopen_link::quic::varint;

const DATA: u64 = 0;

#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) traffic: DirectionTraffic,
    /// Bytes seen so far of an incomplete frame header: type and length, of at most 8 bytes each.
    header: Vec<u8>,
    /// Number of bytes of the frame's payload that are still to come.
    left: u64,
    is_data: bool,
}

impl Frames {
    /// Counts bytes that pass at `at_ns`. The payloads of DATA frames count as body, the headers of DATA
    /// frames are not counted, and all other bytes count as head.
    pub(super) fn count(&mut self, at_ns: u64, mut bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.traffic.first_ns.get_or_insert(at_ns);
        self.traffic.last_ns = Some(at_ns);
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let used = self.left.min(bytes.len() as u64);
                self.left -= used;
                *(if self.is_data {
                    &mut self.traffic.body_bytes
                } else {
                    &mut self.traffic.header_bytes
                }) += used;
                bytes = &bytes[used as usize..];
                continue;
            }
            self.header.push(*first);
            bytes = rest;
            let parsed = varint(&self.header).and_then(|(kind, rest)| Some((kind, varint(rest)?.0)));
            if let Some((kind, length)) = parsed {
                (self.is_data, self.left) = (kind == DATA, length);
                self.traffic.header_bytes += if self.is_data { 0 } else { self.header.len() as u64 };
                self.header.clear();
            }
        }
    }
}
