use crate::*;

#[test]
fn packets_accepted_before_and_dropped_in_a_load_are_none_of_its_own() {
    let record = |packets, dropped_queue| LinkRecord {
        down: LinkDirectionRecord {
            packets,
            bytes: 1500 * packets,
            dropped_queue,
            ..LinkDirectionRecord::default()
        },
        up: LinkDirectionRecord::default(),
    };
    let grown = |before: (u64, u64), now: (u64, u64)| {
        let down = record(now.0, now.1).since(&record(before.0, before.1)).down;
        (down.packets, down.bytes, down.dropped_queue)
    };
    assert_eq!(grown((10, 1), (14, 3)), (4, 6000, 2));
    assert_eq!(grown((10, 1), (8, 3)), (0, 0, 2));
}
