//! Statistics: exact, and without a trace of order, chunks, merges, threads and instructions.

use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::super::columns::Column;
use super::{assert_close, gaussian, observe, relu, student};
use crate::ExecutionPolicy;
use crate::calibration::Observer;

/// Every value on its own, through the definition.
fn one_by_one(n_channels: usize, values: &[f32]) -> Vec<Column> {
    let mut columns = vec![Column::EMPTY; n_channels];
    for (i, &value) in values.iter().enumerate() {
        columns[i % n_channels].add(value);
    }
    columns
}

#[track_caller]
fn check_sums(n_channels: usize, values: &[f32]) {
    let observer = observe(n_channels, values);
    let want = one_by_one(n_channels, values);
    for (got, want) in observer.channels().zip(&want) {
        let n = got.n_values as f64;
        assert_eq!(got.mean.to_bits(), (want.sum.value() / n).to_bits());
        assert_eq!(
            got.mean_magnitude.to_bits(),
            (want.absolute.value() / n).to_bits()
        );
        assert_eq!(
            got.mean_square.to_bits(),
            (want.square.value() / n).to_bits()
        );
        assert_eq!([got.min, got.max], [want.min, want.max]);
    }
}

#[test]
fn sums_are_exact_whatever_the_number_of_channels() {
    let values = gaussian(1, 31 * 1000);
    for n_channels in [1, 2, 3, 5, 8, 16, 31, 40, 62, 155, 1000] {
        check_sums(
            n_channels,
            &values[..values.len() / n_channels * n_channels],
        );
    }
}

#[test]
fn sums_are_exact_over_all_magnitudes_at_once() {
    let mut state = 12345u32;
    let values: Vec<f32> = (0..20_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from_bits(state)
        })
        .map(|x| if x.is_finite() { x } else { f32::MAX })
        .collect();
    check_sums(1, &values);
    check_sums(10, &values);
    let subnormal: Vec<f32> = (0..5000).map(|i| f32::from_bits(i * 1677)).collect();
    check_sums(4, &subnormal);
    check_sums(1, &[f32::MAX; 4096]);
}

#[test]
fn moments_are_those_of_all_samples() {
    let values: Vec<f32> = student(2, 50_000).iter().map(|x| x * 0.3 + 1.7).collect();
    let got = observe(1, &values).tensor();
    let n = values.len() as f64;
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let variance = values
        .iter()
        .map(|&x| (f64::from(x) - mean).powi(2))
        .sum::<f64>()
        / n;
    let magnitude = values.iter().map(|&x| f64::from(x.abs())).sum::<f64>() / n;
    assert_close(got.mean, mean, 0.0, 1e-12);
    assert_close(got.variance(), variance, 0.0, 1e-12);
    assert_close(got.mean_magnitude, magnitude, 0.0, 1e-12);
    assert_eq!(
        got.min,
        values.iter().copied().fold(f32::INFINITY, f32::min)
    );
    assert_eq!(
        got.max,
        values.iter().copied().fold(f32::NEG_INFINITY, f32::max)
    );
}

#[test]
fn the_histogram_is_that_of_all_samples() {
    let values = relu(&student(3, 30_000));
    let observer = observe(1, &values);
    let histogram = observer.histogram();
    let mut want = vec![0u64; 4096];
    let mut zeros = 0;
    for &value in &values {
        if value == 0.0 {
            zeros += 1;
        } else {
            want[(f64::from(value) / histogram.width()).floor() as usize] += 1;
        }
    }
    assert_eq!(
        (histogram.positive(), histogram.zeros()),
        (want.as_slice(), zeros)
    );
    assert!(histogram.negative().iter().all(|&count| count == 0));
    assert!(f64::from(observer.tensor().max) >= histogram.range() / 2.0);
}

#[test]
fn threads_and_instructions_leave_no_trace() {
    let values = student(4, 700_000);
    let one = ExecutionPolicy::one_thread();
    for n_channels in [1, 7, 64] {
        let values = &values[..values.len() / n_channels * n_channels];
        let mut want = Observer::new(n_channels);
        want.observe(one, values).expect("whole rows");
        let threads = NonZeroUsize::new(3).expect("not zero");
        for policy in ExecutionPolicy::every_level()
            .into_iter()
            .chain([one.with_threads(threads)])
        {
            let mut got = Observer::new(n_channels);
            got.observe(policy, values).expect("whole rows");
            assert!(got == want, "{n_channels} channels, {policy:?}");
        }
    }
}

#[test]
fn a_file_holds_all_of_it() {
    let mut observer = observe(3, &gaussian(5, 999));
    for _ in 0..2 {
        let text = serde_json::to_string(&observer).expect("numbers");
        let back: Observer = serde_json::from_str(&text).expect("what was written");
        assert_eq!(back, observer);
        observer = Observer::new(2);
    }
}

/// Values of all kinds, the strange ones often.
fn any_value() -> impl Strategy<Value = f32> {
    prop_oneof![
        -3f32..3.0,
        any::<u32>().prop_map(f32::from_bits),
        Just(0.0f32),
        Just(-0.0f32),
        Just(f32::NAN),
        Just(f32::INFINITY),
        Just(1e38f32),
        Just(f32::from_bits(1)),
    ]
}

/// Equal to the last bit of what a file would hold.
#[track_caller]
fn assert_same(a: &Observer, b: &Observer) {
    let text = |x: &Observer| serde_json::to_string(x).expect("numbers");
    assert_eq!(text(a), text(b));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn chunks_and_merges_in_any_order_are_one_observer(
        values in proptest::collection::vec(any_value(), 0..600),
        cuts in proptest::collection::vec(0usize..200, 2),
        n_channels in 1usize..6,
    ) {
        let values = &values[..values.len() / n_channels * n_channels];
        let n_rows = values.len() / n_channels;
        let [first, second] = [cuts[0].min(cuts[1]).min(n_rows), cuts[0].max(cuts[1]).min(n_rows)];
        let parts = [
            &values[..first * n_channels],
            &values[first * n_channels..second * n_channels],
            &values[second * n_channels..],
        ];
        let whole = observe(n_channels, values);
        let mut chunked = Observer::new(n_channels);
        for part in parts {
            chunked.observe(ExecutionPolicy::detect(), part).expect("whole rows");
        }
        assert_same(&chunked, &whole);
        let [a, b, c] = parts.map(|part| observe(n_channels, part));
        let mut left = a.clone();
        left.merge(&b).expect("equal channels");
        left.merge(&c).expect("equal channels");
        let mut right = c.clone();
        right.merge(&b).expect("equal channels");
        right.merge(&a).expect("equal channels");
        assert_same(&left, &whole);
        assert_same(&right, &whole);
    }
}
