//! Gradients against central differences, against results worked out by hand, and what is refused.

mod by_hand;
mod kinks;
mod memory;
pub(crate) mod networks;
mod products;
mod refusals;
pub(crate) mod samples;
mod shapes;
mod table;
mod windows;

use spark_testing::numbers;

use super::{GradientKind, GradientOptions, differentiate, kind_of};
use crate::graph::{Op, Operand, infer};
use crate::reference::evaluate;
use crate::tensor::{DType, Tensor};

/// Distance of neighbours in a difference of four points, whose error is below the fourth power of it.
const STEP: f64 = 2e-4;

/// Largest difference to central differences, for a largest element of 1.
const TOLERANCE: f64 = 1e-8;

/// A tensor of f64.
fn f64s(shape: &[usize], values: Vec<f64>) -> Tensor {
    Tensor::from_f64(DType::F64, shape, values).expect("values fill their shape")
}

/// Numbers in -1..1, of which none is within a few steps of 0 or of another.
pub(crate) fn random(shape: &[usize], seed: u64) -> Tensor {
    let n: usize = shape.iter().product();
    let mut order: Vec<usize> = (0..n).collect();
    let keys = numbers(n, seed);
    order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
    // The k-th smallest lies somewhere in the inner half of the k-th of n parts.
    let offsets = numbers(n, seed + 1);
    let mut values = vec![0.0; n];
    for (k, &at) in order.iter().enumerate() {
        let within = 0.5 + 0.25 * f64::from(offsets[at]);
        values[at] = (k as f64 + within) / n as f64 * 2.0 - 1.0;
    }
    for value in &mut values {
        if value.abs() < 4.0 * STEP {
            *value += 8.0 * STEP;
        }
    }
    f64s(shape, values)
}

/// Numbers in 0.5..1.5.
pub(crate) fn positive(shape: &[usize], seed: u64) -> Tensor {
    let values = random(shape, seed).to_f64();
    f64s(shape, values.into_iter().map(|v| 1.0 + v / 2.0).collect())
}

fn scaled(tensor: &Tensor, factor: f64) -> Tensor {
    let values = tensor.to_f64().into_iter().map(|v| v * factor);
    f64s(tensor.shape(), values.collect())
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

/// Numbers from 0 on below `end`, the same for the same seed.
struct Choices(u64);

impl Choices {
    fn below(&mut self, end: usize) -> usize {
        self.0 += 1;
        let number = numbers(3, self.0)[2];
        ((f64::from(number) + 1.0) / 2.0 * end as f64) as usize % end
    }

    fn one_of<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())].clone()
    }
}

/// Largest of all magnitudes.
fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m: f64, v| m.max(v.abs()))
}

/// Whether two gradients are the same, but for the error of differences.
fn is_close(got: &[f64], want: &[f64]) -> bool {
    let scale = largest(want).max(largest(got)).max(1e-3);
    let mut pairs = got.iter().zip(want);
    got.len() == want.len() && pairs.all(|(g, w)| (g - w).abs() <= TOLERANCE * scale)
}

/// Derivative at 0 of what `loss` gives of a distance.
fn slope_at_zero(loss: impl Fn(f64) -> Vec<f64>) -> f64 {
    let points = [-2.0, -1.0, 1.0, 2.0].map(|k| loss(k * STEP));
    // Term by term, so that what does not change does not add its roundings.
    let terms = (0..points[0].len())
        .map(|i| points[0][i] - 8.0 * points[1][i] + 8.0 * points[2][i] - points[3][i]);
    terms.sum::<f64>() / (12.0 * STEP)
}

/// The terms of a loss: results times their gradients.
fn loss_terms(results: &[Tensor], gradients: &[Option<Tensor>]) -> Vec<f64> {
    let pairs = results.iter().zip(gradients);
    let pairs = pairs.filter_map(|(result, gradient)| Some((result, gradient.as_ref()?)));
    let terms = pairs.flat_map(|(result, gradient)| {
        let products = result.to_f64().into_iter().zip(gradient.to_f64());
        products.map(|(y, dy)| y * dy).collect::<Vec<_>>()
    });
    terms.collect()
}

/// `tensor` with `distance` added to element `at`.
fn moved(tensor: &Tensor, at: usize, distance: f64) -> Tensor {
    let mut values = tensor.to_f64();
    values[at] += distance;
    f64s(tensor.shape(), values)
}

/// Elements of an operand that are held against differences at most.
const MOST_ELEMENTS: usize = 150;

/// Holds the gradients by every f64 operand that has one against central differences. Returns how many of their
/// elements are not zero.
#[track_caller]
fn check_results(op: &Op, operands: &[Option<Tensor>], n_results: usize) -> usize {
    let given: Vec<Option<&Tensor>> = operands.iter().map(Option::as_ref).collect();
    let typed: Vec<_> = given.iter().map(|t| t.map(Operand::constant)).collect();
    let types = infer(op, &typed, n_results).expect("operands fit");
    let gradients: Vec<Option<Tensor>> = types
        .iter()
        .enumerate()
        .map(|(i, ty)| {
            ty.dtype
                .is_float()
                .then(|| random(&ty.shape, 77 + i as u64))
        })
        .collect();
    let results: Vec<Option<&Tensor>> = gradients.iter().map(Option::as_ref).collect();
    let options = GradientOptions::default();
    let mut n_checked = 0;
    for (operand, by) in operands.iter().enumerate() {
        let Some(by) = by.as_ref().filter(|by| by.dtype() == DType::F64) else {
            continue;
        };
        if kind_of(op, operand, types[0].dtype, options) != GradientKind::Computed {
            continue;
        }
        let got = differentiate(op, &given, &results, operand, options);
        let got = got.unwrap_or_else(|e| panic!("{op:?}, operand {operand}: {e}"));
        assert_eq!((got.dtype(), got.shape()), (DType::F64, by.shape()));
        let got = got.to_f64();
        // An odd step meets every channel; what is largest is always among them.
        let step = by.len().div_ceil(MOST_ELEMENTS) | 1;
        let largest_at = (0..by.len()).max_by(|&a, &b| got[a].abs().total_cmp(&got[b].abs()));
        let places: Vec<usize> = (0..by.len()).step_by(step).chain(largest_at).collect();
        let want = places.iter().map(|&at| {
            slope_at_zero(|distance| {
                let by = moved(by, at, distance);
                let mut operands = given.clone();
                operands[operand] = Some(&by);
                let results = evaluate(op, &operands, n_results).expect("evaluates");
                loss_terms(&results, &gradients)
            })
        });
        let want: Vec<f64> = want.collect();
        let n_not_zero = got.iter().filter(|v| **v != 0.0).count();
        let got: Vec<f64> = places.iter().map(|&at| got[at]).collect();
        assert!(
            is_close(&got, &want),
            "{op:?}, operand {operand} of shape {:?}:\n{got:?}\nwanted\n{want:?}",
            by.shape()
        );
        if largest(&got) > 1e-3 {
            // The comparison can fail.
            let wrong: Vec<f64> = got.iter().map(|v| v * 1.001).collect();
            assert!(!is_close(&wrong, &want), "{op:?}, operand {operand}");
            n_checked += n_not_zero;
        }
    }
    n_checked
}

/// [`check_results`] of an operator with one result, whose gradients must not all be zero.
#[track_caller]
fn check(op: impl Into<Op>, operands: &[Option<Tensor>]) {
    let op = op.into();
    assert!(check_results(&op, operands, 1) > 0, "{op:?}");
}

/// The gradient by an operand, of an operator with one result.
#[track_caller]
fn by(op: impl Into<Op>, operands: &[&Tensor], dy: &[f64], operand: usize) -> Vec<f64> {
    let op = op.into();
    let given: Vec<Option<&Tensor>> = operands.iter().map(|t| Some(*t)).collect();
    let typed: Vec<_> = given.iter().map(|t| t.map(Operand::constant)).collect();
    let types = infer(&op, &typed, 1).expect("operands fit");
    let dy = f64s(&types[0].shape, dy.to_vec());
    let gradient = differentiate(
        &op,
        &given,
        &[Some(&dy)],
        operand,
        GradientOptions::default(),
    );
    gradient.expect("has a gradient").to_f64()
}
