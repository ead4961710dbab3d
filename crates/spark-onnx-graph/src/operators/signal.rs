//! Fourier transforms, and windows of signal processing, spelled out in a range and cosines.
//!
//! ```text
//! w[n] = a - b cos(2 pi n / N) + c cos(4 pi n / N)      N: the size if periodic, else one less
//! STFT   DFT(w[n] x[step frame + n])                    a Gather takes the frames apart
//! ```
//!
//! The size is constant, for the result's shape depends on it, and so a window is folded, in f64.
//!
//! Source: ONNX operators HannWindow, HammingWindow, BlackmanWindow and STFT, version 17, and DFT, version 20.

use std::f64::consts::TAU;

use super::elementwise::stated_dtype;
use super::operator::{Exported, Inferred, Operator};
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{Operands, check_float, one};
use crate::graph::{
    Binary, Cast, Dft, Gather, Op, Range, Reshape, Shape, Unary, ValueId, Variadic, resolve_dft,
};
use crate::tensor::{DType, Tensor};

/// Operators of a file that are short for others, or for a constant.
pub(super) const SPELLED_OUT: &[Translator] = &[
    ("BlackmanWindow", blackman),
    ("HammingWindow", hamming),
    ("HannWindow", hann),
    ("STFT", short_time),
];

impl Operator for Dft {
    const IMPORTS: &'static [Translator] = &[("DFT", dft)];

    fn name(&self) -> &'static str {
        "DFT"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 3, 1)?;
        let x = operands.required(0, "x")?;
        check_float("x", &x)?;
        let (length, axis) = (operands.optional(1), operands.optional(2));
        let resolved = resolve_dft(*self, x.shape, length, axis)?;
        let mut shape = x.shape.to_vec();
        shape[resolved.axis] = resolved.output;
        shape[x.rank() - 1] = resolved.output_parts;
        one(x.dtype, shape)
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1, 2]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .flag("inverse", self.inverse)
            .flag("onesided", self.one_sided))
    }
}

/// Before operator set 20 the axis was a parameter.
fn dft(call: &mut Call<'_, '_>) -> Translated {
    let op = Op::Dft(Dft {
        inverse: call.flag("inverse", false)?,
        one_sided: call.flag("onesided", false)?,
    });
    if call.opset() >= 20 {
        call.operands(1, 3)?;
        return call.finish_as_is(op);
    }
    call.operands(1, 2)?;
    let axis = call.int_or("axis", 1)?;
    let axis = call.new_constant("axis", Tensor::from_i64([], vec![axis])?)?;
    let (x, length) = (call.required(0)?, call.input(1));
    call.finish(op, vec![Some(x), length, Some(axis)])
}

/// The signal is `[batch, length, parts]`, its frames `[batch, frames, frame length, parts]`.
fn short_time(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 4)?;
    let one_sided = call.flag("onesided", true)?;
    let (signal, window) = (call.required(0)?, call.input(2));
    let extent = |axis: i64| {
        Op::Shape(Shape {
            start: axis,
            end: Some(axis + 1),
        })
    };
    let length = call.step(extent(1), &[Some(signal)])?;
    let length = scalar(call, length)?;
    let frame = match (call.input(3), window) {
        (Some(frame), _) => scalar(call, frame)?,
        (None, Some(window)) => {
            let frame = call.step(extent(0), &[Some(window)])?;
            scalar(call, frame)?
        }
        (None, None) => length,
    };
    let step = call.required(1)?;
    let stated = call.constant(1).map(Tensor::to_f64);
    if stated.is_some_and(|stated| stated.iter().any(|&step| step < 1.0)) {
        return Err(call.error("`frame_step` must be at least 1"));
    }
    let step = scalar(call, step)?;
    let zero = call.new_constant("zero", Tensor::from_i64([], vec![0])?)?;
    let one = call.new_constant("one", Tensor::from_i64([], vec![1])?)?;
    let behind = call.binary_step(Binary::Sub, length, frame)?;
    let steps = call.binary_step(Binary::Div, behind, step)?;
    let n = call.binary_step(Binary::Add, steps, one)?;
    // Of a frame longer than the signal one is asked for, whose positions lie outside.
    let n = call.step(Op::Variadic(Variadic::Max), &[Some(n), Some(one)])?;
    let starts = call.step(Op::Range(Range), &[Some(zero), Some(n), Some(one)])?;
    let starts = call.binary_step(Binary::Mul, starts, step)?;
    let column = call.new_ints("column", &[-1, 1])?;
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let starts = call.step(reshape.clone(), &[Some(starts), Some(column)])?;
    let within = call.step(Op::Range(Range), &[Some(zero), Some(frame), Some(one)])?;
    let positions = call.binary_step(Binary::Add, starts, within)?;
    let gather = Op::Gather(Gather { axis: 1 });
    let mut frames = call.step(gather, &[Some(signal), Some(positions)])?;
    if let Some(window) = window {
        let window = call.step(reshape, &[Some(window), Some(column)])?;
        frames = call.binary_step(Binary::Mul, frames, window)?;
    }
    let axis = call.new_constant("axis", Tensor::from_i64([], vec![2])?)?;
    let inverse = false;
    let op = Op::Dft(Dft { inverse, one_sided });
    call.finish(op, vec![Some(frames), None, Some(axis)])
}

/// The one element of `x` as an i64 scalar.
fn scalar(call: &mut Call<'_, '_>, x: ValueId) -> Result<ValueId, ModelError> {
    let x = call.step(Op::Cast(Cast { to: DType::I64 }), &[Some(x)])?;
    let shape = call.new_ints("scalar", &[])?;
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    call.step(reshape, &[Some(x), Some(shape)])
}

fn blackman(call: &mut Call<'_, '_>) -> Translated {
    window(call, 0.42, &[-0.5, 0.08])
}

fn hamming(call: &mut Call<'_, '_>) -> Translated {
    window(call, 25.0 / 46.0, &[-21.0 / 46.0])
}

fn hann(call: &mut Call<'_, '_>) -> Translated {
    window(call, 0.5, &[-0.5])
}

/// A constant and the factors of the cosines, those of one, two, ... turns.
fn window(call: &mut Call<'_, '_>, constant: f64, factors: &[f64]) -> Translated {
    call.operands(1, 1)?;
    let size = call.required(0)?;
    let to = stated_dtype(call, "output_datatype")?.unwrap_or(DType::F32);
    let periodic = call.flag("periodic", true)?;
    let size = call.step(Op::Cast(Cast { to: DType::I64 }), &[Some(size)])?;
    let zero = call.new_constant("zero", Tensor::from_i64([], vec![0])?)?;
    let one = call.new_constant("one", Tensor::from_i64([], vec![1])?)?;
    let range = [Some(zero), Some(size), Some(one)];
    let positions = call.step(Op::Range(Range), &range)?;
    let length = match periodic {
        true => size,
        false => call.binary_step(Binary::Sub, size, one)?,
    };
    let wide = Op::Cast(Cast { to: DType::F64 });
    let positions = call.step(wide.clone(), &[Some(positions)])?;
    let length = call.step(wide, &[Some(length)])?;
    let mut sum = number(call, "constant", constant)?;
    for (index, &factor) in factors.iter().enumerate() {
        let turns = number(call, "turns", TAU * (index + 1) as f64)?;
        let angle = call.binary_step(Binary::Mul, positions, turns)?;
        let angle = call.binary_step(Binary::Div, angle, length)?;
        let cosine = call.step(Op::Unary(Unary::Cos), &[Some(angle)])?;
        let factor = number(call, "factor", factor)?;
        let term = call.binary_step(Binary::Mul, cosine, factor)?;
        sum = call.binary_step(Binary::Add, sum, term)?;
    }
    call.finish(Op::Cast(Cast { to }), vec![Some(sum)])
}

fn number(call: &mut Call<'_, '_>, suffix: &str, value: f64) -> Result<ValueId, ModelError> {
    let tensor = Tensor::from_f64(DType::F64, [], vec![value])?;
    call.new_constant(suffix, tensor)
}
