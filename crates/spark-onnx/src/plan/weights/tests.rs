//! Weights in order against one element at a time.

use half::f16;
use proptest::prelude::*;

use super::*;
use crate::tensor::{DType, TensorData};

fn constant(dtype: DType, len: usize) -> Arc<Tensor> {
    let values = (0..len).map(|i| i as f64 * 0.37 - 11.0).collect();
    Arc::new(Tensor::from_f64(dtype, [len], values).expect("a list"))
}

/// Element `[group][tap][in][out]`, by the definition.
fn weight(w: &Weights, order: WeightOrder, start: usize, all: &[f32], at: [usize; 4]) -> f32 {
    let [group, tap, input, output] = at;
    let (outs, ins) = (w.out_per_group, w.in_per_group);
    let inner = match order {
        WeightOrder::OutputsFirst => (output * ins + input) * w.taps + tap,
        WeightOrder::InputsFirst => (input * outs + output) * w.taps + tap,
    };
    all[start + group * outs * ins * w.taps + inner]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_weight_comes_from_its_place(
        groups in 1usize..4,
        taps in 1usize..10,
        in_per_group in 0usize..40,
        out_per_group in 1usize..40,
        start in 0usize..5,
        inputs_first in any::<bool>(),
        n_factors in 0usize..3,
        dtype in prop::sample::select(vec![DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8]),
    ) {
        let order = match inputs_first {
            true => WeightOrder::InputsFirst,
            false => WeightOrder::OutputsFirst,
        };
        let shape = [groups, taps, in_per_group, out_per_group];
        let constant = constant(dtype, start + groups * taps * in_per_group * out_per_group + 2);
        let all = constant.to_f32();
        let mut weights = Weights::new(constant, start, order, shape);
        let channels = groups * out_per_group;
        let factors: Vec<Vec<f64>> = (0..n_factors)
            .map(|f| (0..channels).map(|c| 0.1 + (c + 3 * f) as f64 / 7.0).collect())
            .collect();
        factors.iter().for_each(|f| weights.scale(f.clone()));
        let values = weights.values();
        prop_assert_eq!(values.len(), weights.len());
        let mut values = values.iter();
        for group in 0..groups {
            for tap in 0..taps {
                for input in 0..in_per_group {
                    for output in 0..out_per_group {
                        let mut want = weight(&weights, order, start, &all, [group, tap, input, output]);
                        for f in &factors {
                            want = (f64::from(want) * f[group * out_per_group + output]) as f32;
                        }
                        let got = values.next().copied();
                        prop_assert_eq!(got.map(f32::to_bits), Some(want.to_bits()));
                    }
                }
            }
        }
    }
}

#[test]
fn columns_are_written_between_what_others_hold() {
    let shape = [1, 2, 3, 20];
    let weights = Weights::new(
        constant(DType::F32, 120),
        0,
        WeightOrder::OutputsFirst,
        shape,
    );
    let all = weights.values();
    let mut part = vec![-1.0; 6 * 16];
    weights.write(0, 3..14, &mut part, 16);
    for (row, part) in part.chunks_exact(16).enumerate() {
        assert_eq!(part[..11], all[row * 20 + 3..row * 20 + 14]);
        assert_eq!(part[11..], [-1.0; 5]);
    }
}

#[test]
fn one_weight_among_all_is_found() {
    let mut halves = vec![f16::ONE; 7 * 33];
    halves[200] = f16::INFINITY;
    let tensor = Tensor::new(vec![7 * 33], TensorData::F16(halves)).expect("a list");
    let shape = [1, 1, 7, 33];
    for order in [WeightOrder::OutputsFirst, WeightOrder::InputsFirst] {
        let weights = Weights::new(Arc::new(tensor.clone()), 0, order, shape);
        assert!(!weights.all(|w| w.is_finite()));
        assert!(weights.all(|w| *w >= 1.0));
    }
}

#[test]
fn forgotten_weights_keep_their_extents() {
    let shape = [1, 1, 2, 3];
    let tensor = constant(DType::F32, 6);
    let mut weights = Weights::new(Arc::clone(&tensor), 0, WeightOrder::InputsFirst, shape);
    assert_eq!((weights.len(), Arc::strong_count(&tensor)), (6, 2));
    weights.forget();
    assert_eq!((weights.len(), Arc::strong_count(&tensor)), (0, 1));
    assert_eq!((weights.in_per_group, weights.values()), (2, Vec::new()));
}
