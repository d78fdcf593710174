use super::*;

fn lost(ratio: f64, seed: u64, packets: usize) -> Vec<usize> {
    let mut stage = RandomLoss::new(ratio, seed);
    (0..packets).filter(|_| stage.0.draw()).collect()
}

#[test]
fn the_packets_that_a_seed_loses_never_change_between_versions() {
    assert_eq!(lost(0.05, 42, 100), [44, 69, 76, 84]);
}

#[test]
fn a_higher_ratio_loses_the_same_packets_and_more() {
    let few = lost(0.01, 7, 10_000);
    let many = lost(0.05, 7, 10_000);
    assert!(!few.is_empty());
    assert!(few.iter().all(|packet| many.contains(packet)));
}

#[test]
fn the_bounds_of_the_ratio_lose_nothing_and_half() {
    assert!(lost(0.0, 3, 10_000).is_empty());
    let half = lost(0.5, 3, 100_000).len();
    assert!((49_000..=51_000).contains(&half), "{half}");
}
