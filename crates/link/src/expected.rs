//! Computes how long packets take on an idle direction, for comparison with a measured link.

use crate::{Direction, DirectionConfig, Nanos};

/// Returns the time from the release of the first to the release of the last of `packets` packets of `bytes`
/// each, which are all offered at once to an idle direction. Of `config`, only the delay and the rate are
/// used. Returns 0 for fewer than two packets.
///
/// With a trace, the packets are offered at the start of the trace.
pub fn expected_train(config: &DirectionConfig, packets: u32, bytes: u32) -> Nanos {
    let released = released(config, packets, bytes);
    released.last().unwrap_or(&0) - released.first().unwrap_or(&0)
}

/// Returns the time from the offer to the release of one packet of `bytes` on an idle direction:
/// serialisation and delay.
///
/// With a trace, the packet is offered at the start of the trace.
pub fn expected_transit(config: &DirectionConfig, bytes: u32) -> Nanos {
    released(config, 1, bytes)[0]
}

fn released(config: &DirectionConfig, packets: u32, bytes: u32) -> Vec<Nanos> {
    let plain =
        DirectionConfig { delay: config.delay, rate: config.rate.clone(), ..DirectionConfig::default() };
    let mut direction = Direction::new(&plain, 0);
    for _ in 0..packets {
        direction.offer(0, bytes, 0, ()).expect("nothing drops a packet here");
    }
    std::iter::from_fn(|| direction.release(Nanos::MAX)).map(|(due, ())| due).collect()
}
