use std::net::SocketAddr;

use super::*;

#[test]
fn a_trace_that_grows_too_long_is_thinned_out_from_its_first_sample_to_its_last() {
    let end = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let connection = |port| FourTuple { client: end(port), origin: end(80) };
    let sample = |at_ns, window| TcpSample {
        at_ns,
        congestion_window_segments: window,
        in_flight_segments: 0,
        segment_bytes: 1448,
        rtt_us: 20_000,
    };
    let mut samples = Samples::new();
    for at_ns in 0..=1000 {
        add(&mut samples, connection(1), sample(at_ns, at_ns as u32));
        add(&mut samples, connection(2), sample(at_ns, 7));
    }
    assert_eq!(samples.values().map(Vec::len).sum::<usize>(), 1002);
    thin_out(&mut samples);
    let times = |port| samples[&connection(port)].iter().map(|sample| sample.at_ns);
    assert!(times(1).eq((0..=1000).step_by(2)) && times(2).eq([0]));
}
