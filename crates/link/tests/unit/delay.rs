use super::*;

const DRAWS: u32 = 100_000;

fn draws(jitter: Jitter, seed: u64) -> Vec<i64> {
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..DRAWS).map(|_| jitter.draw(&mut generator)).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    values.sum::<f64>() / f64::from(DRAWS)
}

#[test]
fn what_a_seed_draws_never_changes_between_versions() {
    assert_eq!(draws(Jitter::Normal(2_000_000), 42)[..4], [-1_253_998, -514_679, -1_546_998, 1_216_156]);
    assert_eq!(draws(Jitter::Uniform(2_000_000), 42)[..4], [1_257_221, -724_716, 1_935_577, 804_543]);
}

#[test]
fn normal_jitter_has_the_standard_deviation_and_the_tails_of_a_normal_distribution() {
    let values = draws(Jitter::Normal(1_000_000), 1);
    let average = mean(values.iter().map(|&one| one as f64));
    let deviation = mean(values.iter().map(|&one| (one as f64).powi(2))).sqrt();
    assert!(average.abs() < 15_000.0, "{average}");
    assert!((deviation - 1_000_000.0).abs() < 10_000.0, "{deviation}");
    for (sigmas, share) in [(1, 0.6827), (2, 0.9545), (3, 0.9973)] {
        let within = mean(values.iter().map(|one| f64::from(u8::from(one.abs() <= sigmas * 1_000_000))));
        assert!((within - share).abs() < 0.01, "{within} within {sigmas}");
    }
}

#[test]
fn uniform_jitter_reaches_both_ends_and_not_beyond() {
    let values = draws(Jitter::Uniform(3), 1);
    for value in -3..=3 {
        let count = values.iter().filter(|&&one| one == value).count();
        assert!((13_000..=15_600).contains(&count), "{value}: {count}");
    }
    assert!(values.iter().all(|one| one.abs() <= 3));
    assert!(draws(Jitter::Uniform(Jitter::MAX), 1).iter().all(|one| one.unsigned_abs() <= Jitter::MAX));
}
