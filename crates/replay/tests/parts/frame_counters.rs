//! Tests the traffic counters of HTTP/2 streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use fastopen_replay::counters::TrafficCounters;
use fastopen_replay::http2::frame_counters::{DirectionTraffic, FrameCounters};

/// The connection preface (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Frame types and flags (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, (payload.len() >> 8) as u8, payload.len() as u8, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

/// Returns a client's bytes: preface, SETTINGS, a request with a body, and one with a CONTINUATION frame.
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
fn headers_data_and_ends_are_recognised_wherever_the_bytes_are_split() {
    let bytes = requests();
    for step in 1..=bytes.len() {
        let mut counters = FrameCounters::default();
        bytes.chunks(step).for_each(|chunk| counters.wrote(7, chunk));
        let traffic = |header_bytes, body_bytes| DirectionTraffic {
            first_ns: Some(7),
            last_ns: Some(7),
            header_bytes,
            body_bytes,
            ended: true,
        };
        assert_eq!(counters.stream(1).written, traffic(29, 300), "in steps of {step}");
        assert_eq!(counters.stream(3).written, traffic(39 + 13, 0), "in steps of {step}");
        assert_eq!(counters.stream(1).read, DirectionTraffic::default());
    }
}

#[test]
fn a_stream_has_the_times_of_its_own_first_and_last_bytes() {
    let mut counters = FrameCounters::default();
    for (at_ns, byte) in requests().iter().enumerate() {
        counters.wrote(at_ns as u64, std::slice::from_ref(byte));
    }
    let before = PREFACE.len() + 27;
    let times = |number| (counters.stream(number).written.first_ns, counters.stream(number).written.last_ns);
    // A frame's stream is known with the ninth byte, the last one of the stream identifier.
    assert_eq!(times(1), (Some(before as u64 + 8), Some(requests().len() as u64 - 1)));
    assert_eq!(times(3), (Some(before as u64 + 29 + 8), Some(before as u64 + 29 + 39 + 13 - 1)));
}

#[test]
fn a_server_sends_no_preface_and_may_break_off() {
    let mut counters = FrameCounters::default();
    let answer =
        [frame(4, 0, 0, &[]), frame(HEADERS, END_HEADERS, 1, &[0; 9]), frame(DATA, END_STREAM, 1, &[0; 50])];
    counters.read(1, &answer.concat()[..9 + 18 + 9 + 20]);
    let read = counters.stream(1).read;
    assert_eq!((read.header_bytes, read.body_bytes, read.ended), (18, 20, false));
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn who_waits_for_a_body_is_woken_once_by_more_of_it_also_within_a_frame() {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let times = || woken.0.load(Ordering::Relaxed);
    let mut counters = FrameCounters::default();
    let body = |stream| frame(DATA, END_STREAM, stream, &[0; 50]);
    let of_first = body(1);
    let (first, rest) = of_first.split_at(9 + 20);
    assert_eq!(counters.poll_body(1, &waker), 0);
    for read in [&frame(4, 0, 0, &[]), &frame(HEADERS, END_HEADERS, 1, &[0; 9]), &body(3)] {
        counters.read(1, read);
    }
    assert_eq!(times(), 0);
    counters.read(2, first);
    counters.read(3, &rest[..10]);
    assert_eq!((times(), counters.poll_body(1, &waker)), (1, 30));
    counters.read(4, &rest[10..]);
    assert_eq!((times(), counters.poll_body(1, &waker)), (2, 50));
}
