//! Models middleboxes that mishandle a TLS `ClientHello` in several TCP segments (<https://tldr.fail>).

use std::collections::BTreeMap;

use super::{Behaviour, DROP, FlowKey, SYN, Segment};
use crate::stage::Verdict;

/// The content type of a handshake record, and the first byte of its version (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: [u8; 2] = [22, 3];
const RECORD_HEADER: usize = 5;

/// A `ClientHello` whose record is longer than the segment in which it begins.
#[derive(Debug)]
struct SplitHello {
    /// Sequence number of the record's first byte.
    start: u32,
    /// Length of the TLS record in bytes, including the record's header.
    bytes: u32,
    /// True once [`Behaviour::StallSecondSegment`] has dropped a segment of this `ClientHello`.
    stalled: bool,
}

/// The flows whose `ClientHello` does not fit into one segment.
#[derive(Debug, Default)]
pub(super) struct Hellos(BTreeMap<FlowKey, SplitHello>);

impl Hellos {
    /// Applies `behaviour` to a TCP segment of a split `ClientHello`. Forwards all other segments.
    pub(super) fn pass(&mut self, behaviour: Behaviour, flow: FlowKey, segment: &mut Segment) -> Verdict {
        let is_syn = segment.flags() & SYN != 0;
        let start = segment.sequence_number().wrapping_add(is_syn.into());
        if is_syn {
            self.0.remove(&flow);
        }
        if let Some(bytes) = split_record(&segment.ip[segment.payload..]) {
            self.0.entry(flow).or_insert(SplitHello { start, bytes, stalled: false });
        }
        let Some(hello) = self.0.get_mut(&flow) else { return Verdict::Pass };
        let offset = start.wrapping_sub(hello.start);
        if is_syn || segment.payload_bytes() == 0 || offset >= hello.bytes {
            return Verdict::Pass;
        }
        match behaviour {
            Behaviour::DropSplitHello => DROP,
            Behaviour::RstSplitHello => {
                segment.reset();
                Verdict::Answer
            }
            Behaviour::StallSecondSegment if offset > 0 && !hello.stalled => {
                hello.stalled = true;
                DROP
            }
            _ => Verdict::Pass,
        }
    }
}

/// Returns the length in bytes of the handshake record at the start of a payload. Returns `None` if there is
/// no handshake record, or if the payload contains the whole record.
fn split_record(payload: &[u8]) -> Option<u32> {
    let (header, _) = payload.split_at_checked(RECORD_HEADER)?;
    let bytes = RECORD_HEADER + usize::from(u16::from_be_bytes([header[3], header[4]]));
    (header.starts_with(&HANDSHAKE_RECORD) && payload.len() < bytes).then_some(bytes as u32)
}
