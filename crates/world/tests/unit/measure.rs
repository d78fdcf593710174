use super::gap;

#[test]
fn handshakes_end_half_way_between_the_beginnings_of_others() {
    const MS: u64 = 1_000_000;
    // Each handshake is on the link for 2 ms, so they start at least 8 ms apart.
    assert_eq!(gap(3 * MS, 2 * MS), 8 * MS, "over before the next one");
    assert_eq!(gap(6 * MS, 2 * MS), 12 * MS);
    for round_trip_ms in 4..500 {
        let (round_trip, gap) = (round_trip_ms * MS, gap(round_trip_ms * MS, 2 * MS));
        assert!(gap >= 8 * MS, "{round_trip_ms}");
        let past_a_beginning = round_trip % gap;
        assert!(past_a_beginning.abs_diff(gap / 2) <= 1000, "{round_trip_ms}");
    }
}
