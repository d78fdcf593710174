//! Computes how long packets take over one direction of an idle link, for comparison with measurements.

use crate::{Direction, DirectionConfig, Nanos};

/// Returns the time between the first and the last arrival if `packets` packets of `bytes` bytes each are
/// sent at once over one direction of an idle link; 0 for fewer than two packets. Depends only on the rate in
/// `config`: no packet is lost, and all have the same delay. If the rate is a recorded
/// [`Trace`](crate::Trace) of delivery times, the packets are sent at its start.
pub fn expected_train(config: &DirectionConfig, packets: u32, bytes: u32) -> Nanos {
    let released = released(config, packets, bytes);
    released.last().unwrap_or(&0) - released.first().unwrap_or(&0)
}

/// Returns the time that a packet of `bytes` bytes takes over one direction of an idle link: serialisation
/// and delay. If the rate is a trace, the packet is sent at the start of the trace.
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
