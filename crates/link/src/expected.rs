//! What an idle direction does with a few packets, to hold a measured link against: the model itself is
//! asked.

use crate::{Direction, DirectionConfig, Nanos};

/// How long after the first of `packets` packets of `bytes` each the last one is released, when all are
/// offered at once to the idle direction, and nothing but its rate and its delay is there. 0 for fewer than
/// two packets.
///
/// With a trace they are offered at its start.
pub fn expected_train(config: &DirectionConfig, packets: u32, bytes: u32) -> Nanos {
    let released = released(config, packets, bytes);
    released.last().unwrap_or(&0) - released.first().unwrap_or(&0)
}

/// How long one packet of `bytes` takes from offering to release when the direction is idle: serialisation
/// and delay.
///
/// With a trace it is offered at its start.
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
