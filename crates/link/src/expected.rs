//! Computes the expected times of packets on an idle direction, to compare them with a measured link.

use crate::{Direction, DirectionConfig, Nanos};

/// Returns the time between the release of the first and the last of `packets` packets of `bytes` each, all
/// offered at once to an idle direction that has only a rate and a delay. Returns 0 for fewer than two
/// packets.
///
/// With a trace, the packets are offered at its start.
pub fn expected_train(config: &DirectionConfig, packets: u32, bytes: u32) -> Nanos {
    let released = released(config, packets, bytes);
    released.last().unwrap_or(&0) - released.first().unwrap_or(&0)
}

/// Returns the time from offering to release of one packet of `bytes` on an idle direction: serialisation and
/// delay.
///
/// With a trace, the packet is offered at its start.
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
