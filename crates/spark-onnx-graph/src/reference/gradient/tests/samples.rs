//! Every operator in every form that the samples have.

use std::collections::BTreeSet;

use super::super::{GradientKind, GradientOptions, kind_of};
use super::{check_results, f64s, random};
use crate::graph::{ActivationFormat, CountedDropout, MaskedSoftmax, Op, RoundedActivations};
use crate::reference::evaluate;
use crate::samples::{Sample, every_operator};
use crate::tensor::{DType, Tensor};

/// The operator of a sample with its operands, floats as f64, and the type of its first result.
pub(crate) fn parts(sample: &Sample) -> Option<(Op, Vec<Option<Tensor>>, DType)> {
    let [node] = &sample.graph.nodes[..] else {
        return None;
    };
    let operands = node.inputs.iter().enumerate().map(|(index, id)| {
        let value = sample.graph.value((*id)?);
        let given = sample.inputs.iter().find(|(name, _)| *name == value.name);
        let given = given
            .map(|(_, tensor)| tensor)
            .or(value.constant.as_deref())?;
        // What is quantised is held in a type of its own.
        let is_held = matches!(node.op, Op::DequantizeLinear(_)) && index != 1;
        let is_wide = given.dtype().is_float() && !is_held;
        // Operands of samples have numbers in common, which would be equal extremes.
        let differ = matches!(
            node.op,
            Op::Variadic(_) | Op::ScatterElements(_) | Op::ScatterNd(_)
        );
        let nudge = if differ { 0.000_71 * index as f64 } else { 0.0 };
        let nudged = || given.to_f64().into_iter().map(|v| v + nudge).collect();
        Some(match is_wide {
            true => f64s(given.shape(), nudged()),
            false => given.clone(),
        })
    });
    let operands = operands.collect();
    let result = sample.graph.value(*sample.graph.outputs.first()?).dtype?;
    Some((node.op.clone(), operands, result))
}

#[test]
fn every_sample_agrees_with_central_differences() {
    let (mut computed, mut checked) = (BTreeSet::new(), BTreeSet::new());
    let mut n_elements = 0;
    for sample in every_operator() {
        let Some((op, operands, result)) = parts(&sample) else {
            continue;
        };
        let is_computed = |operand: usize| {
            let kind = kind_of(&op, operand, result, GradientOptions::default());
            let is_float = operands[operand]
                .as_ref()
                .is_some_and(|t| t.dtype().is_float());
            kind == GradientKind::Computed && is_float
        };
        // What is cast to fewer digits moves in steps.
        let is_narrowed = matches!(op, Op::Cast(_) | Op::CastLike(_)) && result != DType::F64;
        if !(0..operands.len()).any(is_computed) || !result.is_float() || is_narrowed {
            continue;
        }
        computed.insert(op.name().to_owned());
        let n_results = sample.graph.nodes[0].outputs.len();
        let n = check_results(&op, &operands, n_results);
        if n > 0 {
            checked.insert(op.name().to_owned());
        }
        n_elements += n;
    }
    assert_eq!(checked, computed);
    assert!(
        computed.len() > 100 && n_elements > 10_000,
        "{} operators, {n_elements} elements",
        computed.len()
    );
}

#[test]
fn masked_rows_have_no_gradient() {
    let op = Op::MaskedSoftmax(MaskedSoftmax);
    assert!(check_results(&op, &[Some(random(&[3, 2, 5], 1))], 1) > 0);
    let mut scores = random(&[2, 4], 2).to_f64();
    scores[..4].fill(f64::NEG_INFINITY);
    scores[6] = f64::NEG_INFINITY;
    let gradient = super::by(op, &[&f64s(&[2, 4], scores)], &[1.0; 8], 0);
    assert_eq!(gradient[..4], [0.0; 4]);
    assert_eq!(gradient[6], 0.0);
    assert!(gradient.iter().all(|g| g.is_finite()));
}

#[test]
fn what_is_dropped_has_no_gradient() {
    let op = Op::CountedDropout(CountedDropout {
        probability: 0.4,
        key: 0x1234_5678_9abc,
    });
    let pass = Tensor::from_i64([], vec![7]).unwrap();
    let x = random(&[3, 5, 7], 1);
    let n = check_results(&op, &[Some(x.clone()), Some(pass.clone())], 1);
    assert!((40..90).contains(&n), "{n} of 105 were kept");
    let ones = f64s(&[3, 5, 7], vec![1.0; 105]);
    let y = evaluate(&op, &[Some(&ones), Some(&pass)], 1).unwrap()[0].to_f64();
    let dx = super::by(op, &[&x, &pass], &[1.0; 105], 0);
    assert_eq!(dx, y, "the mask");
    let kept = f64::from((1.0 / 0.6) as f32);
    assert!(y.iter().all(|&v| v == 0.0 || v == kept), "{y:?}");
}

#[test]
fn gradients_pass_over_rounded_activations_but_not_over_what_is_clipped() {
    let x = f64s(&[1, 4], vec![0.3, -2.0, 2.1, -224.5]);
    let dy = [1.0, 2.0, 3.0, 4.0];
    let by = |format, scale| {
        let op = RoundedActivations {
            format,
            axis: -1,
            together: 1,
            scale,
            len: None,
        };
        super::by(op, &[&x], &dy, 0)
    };
    for format in [ActivationFormat::E4m3, ActivationFormat::Nvfp4] {
        assert_eq!(by(format, None), dy, "{format:?}");
    }
    let eight = by(ActivationFormat::E4m3, Some(0.5));
    assert_eq!(eight, [1.0, 2.0, 3.0, 0.0], "224 is the largest");
    let four = by(ActivationFormat::Nvfp4, Some(2.0 / 2688.0));
    assert_eq!(four, [1.0, 2.0, 0.0, 0.0], "2 is the largest");
}
