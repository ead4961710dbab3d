//! Input that nobody meant to give: an error or an answer, never a panic and never silence.

use super::{gaussian, observe};
use crate::calibration::{Observer, ScaleMethod, StaticFormat, StaticScale};
use crate::{ExecutionPolicy, QuantError};

const METHODS: [ScaleMethod; 5] = [
    ScaleMethod::MaxAbs,
    ScaleMethod::Percentile(0.001),
    ScaleMethod::Percentile(99.9),
    ScaleMethod::MeanSquaredError,
    ScaleMethod::Entropy,
];

/// Every method and format gives finite numbers.
#[track_caller]
fn check_all(values: &[f32]) {
    let observer = observe(1, values);
    for method in METHODS {
        for format in StaticFormat::ALL {
            let got = method.choose(&observer, format).expect("finite values");
            let numbers = [f64::from(got.scale), got.signal, got.noise, got.clipped];
            assert!(
                numbers.iter().all(|x| x.is_finite()),
                "{method:?}, {format:?}: {got:?}"
            );
            assert!(
                got.scale > 0.0 && got.noise >= 0.0,
                "{method:?}, {format:?}: {got:?}"
            );
            assert!(
                (0.0..=1.0).contains(&got.clipped),
                "{method:?}, {format:?}: {got:?}"
            );
            assert!(
                got.range[0] <= 0.0 && got.range[1] >= 0.0,
                "{method:?}, {format:?}: {got:?}"
            );
            assert!(
                got.range.iter().all(|end| end.is_finite()),
                "{method:?}, {format:?}: {got:?}"
            );
        }
    }
}

#[test]
fn one_value() {
    for value in [1.0, -1.0, 1e38, -f32::MAX, 1e-38, 1e-45, -1e-45, 0.5, 3.0] {
        check_all(&[value]);
        check_all(&[value; 33]);
    }
}

#[test]
fn extremes_side_by_side() {
    check_all(&[f32::MAX, -f32::MAX, 1e-45, 0.0]);
    check_all(&[f32::MAX; 5000]);
    check_all(&[1e38, 1.0, 1e-30]);
    let subnormal: Vec<f32> = (1..3000).map(f32::from_bits).collect();
    check_all(&subnormal);
}

#[test]
fn all_zeros_have_scale_one_and_no_error() {
    for values in [vec![0.0; 100], vec![-0.0]] {
        check_all(&values);
        let got = ScaleMethod::MeanSquaredError.choose(&observe(1, &values), StaticFormat::E4m3);
        let got = got.expect("finite values");
        assert_eq!((got.scale, got.noise, got.range), (1.0, 0.0, [0.0, 0.0]));
        assert!(got.sqnr_db().is_infinite());
    }
}

#[test]
fn nothing_observed_is_an_error() {
    for observer in [
        Observer::new(0),
        Observer::new(1),
        observe(1, &[f32::NAN, f32::INFINITY]),
    ] {
        for method in METHODS {
            let got = method.choose(&observer, StaticFormat::Int8);
            assert!(matches!(got, Err(QuantError::Calibration { got: 0.0, .. })));
        }
        assert!(StaticScale::of_range(&observer, StaticFormat::E4m3, [0.0, 1.0]).is_err());
    }
}

#[test]
fn percentiles_out_of_range_are_refused() {
    let observer = observe(1, &gaussian(50, 100));
    for percent in [0.0, -1.0, 100.001, f64::NAN, f64::INFINITY] {
        let got = ScaleMethod::Percentile(percent).choose(&observer, StaticFormat::Int8);
        assert!(
            matches!(got, Err(QuantError::Calibration { .. })),
            "{percent}"
        );
    }
}

#[test]
fn values_that_are_not_finite_are_counted_in_their_channel() {
    let mut values = gaussian(51, 3000);
    let clean = observe(3, &values);
    values.splice(
        300..300,
        [
            f32::NAN,
            f32::INFINITY,
            1.0,
            -f32::NAN,
            f32::NEG_INFINITY,
            2.0,
        ],
    );
    let observer = observe(3, &values);
    let counts: Vec<[u64; 3]> = observer
        .channels()
        .map(|channel| [channel.n_values, channel.n_nan, channel.n_infinite])
        .collect();
    assert_eq!(counts, [[1000, 2, 0], [1000, 0, 2], [1002, 0, 0]]);
    let first =
        [observer.channel(0), clean.channel(0)].map(|channel| channel.expect("three").mean_square);
    assert_eq!(first[0].to_bits(), first[1].to_bits());
}

#[test]
fn rows_that_are_cut_short_are_refused_whole() {
    let mut observer = Observer::new(3);
    let got = observer.observe(ExecutionPolicy::detect(), &[1.0; 7]);
    assert!(matches!(
        got,
        Err(QuantError::NotAMultiple {
            got: 7,
            multiple: 3,
            ..
        })
    ));
    assert_eq!(observer, Observer::new(3));
    assert!(
        Observer::new(0)
            .observe(ExecutionPolicy::detect(), &[1.0])
            .is_err()
    );
    assert!(
        Observer::new(0)
            .observe(ExecutionPolicy::detect(), &[])
            .is_ok()
    );
    assert!(observer.merge(&Observer::new(2)).is_err());
}

#[test]
fn files_that_contradict_themselves_are_refused() {
    let observer = observe(2, &gaussian(52, 100));
    let text = serde_json::to_value(&observer).expect("numbers");
    let refused = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut changed = text.clone();
        edit(&mut changed);
        let got: Result<Observer, _> = serde_json::from_value(changed);
        assert!(got.is_err());
    };
    refused(&|file| file["counts"][3] = 1_000_000.into());
    refused(&|file| file["counts"] = serde_json::json!([1, 2]));
    refused(&|file| file["top"] = 1000.into());
    refused(&|file| file["channels"][0]["range"] = serde_json::Value::Null);
    refused(&|file| file["channels"][0]["range"] = serde_json::json!([2.0, -2.0]));
    refused(&|file| file["channels"][0]["range"] = serde_json::json!([-1.0, 1e30]));
    refused(&|file| file["channels"][1]["n_values"] = 0.into());
    refused(&|file| file["channels"][1]["n_values"] = u64::MAX.into());
    for sum in ["sum", "absolute", "square"] {
        for limb in [4, 9] {
            refused(&|file| file["channels"][1][sum][limb] = u64::MAX.into());
        }
    }
    let mut empty = serde_json::to_value(Observer::new(1)).expect("numbers");
    assert!(serde_json::from_value::<Observer>(empty.clone()).is_ok());
    empty["channels"][0]["square"][3] = 1.into();
    assert!(serde_json::from_value::<Observer>(empty).is_err());
    assert!(serde_json::from_value::<Observer>(text).is_ok());
}
