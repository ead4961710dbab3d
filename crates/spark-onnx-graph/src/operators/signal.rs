//! Windows of signal processing, spelled out in a range and cosines.
//!
//! ```text
//! w[n] = a - b cos(2 pi n / N) + c cos(4 pi n / N)      N: the size if periodic, else one less
//! ```
//!
//! The size is constant, for the result's shape depends on it, and so the whole is folded, in f64.
//!
//! Source: ONNX operators HannWindow, HammingWindow and BlackmanWindow, version 17.
//!
//! Deliberately absent: Fourier transforms.

use std::f64::consts::TAU;

use super::elementwise::stated_dtype;
use crate::ModelError;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::{Binary, Cast, Op, Range, Unary, ValueId};
use crate::tensor::{DType, Tensor};

/// Operators of a file that are short for others, or for a constant.
pub(super) const SPELLED_OUT: &[Translator] = &[
    ("BlackmanWindow", blackman),
    ("HammingWindow", hamming),
    ("HannWindow", hann),
];

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
