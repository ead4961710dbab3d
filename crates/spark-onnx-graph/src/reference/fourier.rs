//! The discrete Fourier transform, by its definition.

use std::f64::consts::TAU;

use super::index::Lines;
use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use crate::graph::{Dft, DftAxis, OpError, TensorType, resolve_dft};
use crate::tensor::Tensor;

impl Evaluate for Dft {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| dft(*self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        // Of every axis, which may be that of the transform, a few lists; the length is at most twice the result's.
        working.computed_with(times(working.extents_written(), 256))
    }

    fn reads_per_result(&self, working: &Working<'_>) -> usize {
        working.extents_written()
    }
}

fn dft(op: Dft, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let shape = resolve_dft(op, x.shape(), inputs.operand(1), inputs.operand(2))?;
    let DftAxis { axis, length, .. } = shape;
    let values = x.to_f64();
    let turn = |step: usize| {
        let angle = TAU * (step % length) as f64 / length as f64;
        let sign = if op.inverse { 1.0 } else { -1.0 };
        (angle.cos(), sign * angle.sin())
    };
    let turns: Vec<(f64, f64)> = (0..length).map(turn).collect();
    let scale = if op.inverse { length as f64 } else { 1.0 };
    let (from, to) = (Lines::new(x.shape(), axis), Lines::new(&ty.shape, axis));
    let mut results = vec![0.0; ty.shape.iter().product()];
    let n_inner = from.inner / shape.parts;
    for outer in 0..from.outer {
        for inner in 0..n_inner {
            let number = |i: usize| {
                let at = ((outer * from.extent + i) * n_inner + inner) * shape.parts;
                let imaginary = if shape.parts == 2 {
                    values[at + 1]
                } else {
                    0.0
                };
                (values[at], imaginary)
            };
            let mut signal: Vec<(f64, f64)> = (0..shape.taken).map(number).collect();
            signal.resize(length, (0.0, 0.0));
            if op.one_sided && op.inverse {
                mirror(&mut signal);
            }
            for k in 0..shape.output {
                let terms = signal.iter().enumerate().map(|(i, (re, im))| {
                    let (cos, sin) = turns[(i as u128 * k as u128 % length as u128) as usize];
                    (re * cos - im * sin, re * sin + im * cos)
                });
                let (re, im) = terms.fold((0.0, 0.0), |sum, term| (sum.0 + term.0, sum.1 + term.1));
                let at = ((outer * to.extent + k) * n_inner + inner) * shape.output_parts;
                results[at] = re / scale;
                if shape.output_parts == 2 {
                    results[at + 1] = im / scale;
                }
            }
        }
    }
    from_floats(ty, results)
}

/// The other side of a spectrum whose signal is real. Frequency 0 and half the length are their own mirror images,
/// and so real.
fn mirror(spectrum: &mut [(f64, f64)]) {
    let n = spectrum.len();
    spectrum[0].1 = 0.0;
    if n.is_multiple_of(2) {
        spectrum[n / 2].1 = 0.0;
    }
    for k in 1..n.div_ceil(2) {
        let (re, im) = spectrum[k];
        spectrum[n - k] = (re, -im);
    }
}
