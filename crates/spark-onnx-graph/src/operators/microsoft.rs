//! Operators of the domain `com.microsoft`, as onnxruntime's optimiser leaves them.
//!
//! Source: onnxruntime, "Contrib Operators".

use super::convolution::conv_parameters;
use super::{normalization, quantization};
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::{Binary, Clip, Einsum, LayerNormalization, MatMul, Op, Unary};

pub(super) const OPERATORS: &[Translator] = &[
    ("Gelu", gelu),
    ("BiasGelu", gelu),
    ("FastGelu", gelu),
    ("QuickGelu", quick_gelu),
    ("FusedConv", fused_conv),
    ("FusedMatMul", fused_mat_mul),
    ("LayerNormalization", normalization::layer),
    ("SkipLayerNormalization", skip_layer),
    ("QuantizeLinear", quantization::quantize),
    ("DequantizeLinear", quantization::dequantize),
];

/// `(x, bias?)`; the fast one is the approximation by the hyperbolic tangent.
fn gelu(call: &mut Call<'_, '_>) -> Translated {
    let min = if call.op_type() == "BiasGelu" { 2 } else { 1 };
    let max = if call.op_type() == "Gelu" { 1 } else { 2 };
    call.operands(min, max)?;
    let tanh = call.op_type() == "FastGelu";
    let mut x = call.required(0)?;
    if let Some(bias) = call.input(1) {
        x = call.binary_step(Binary::Add, x, bias)?;
    }
    call.finish(Op::Unary(Unary::Gelu { tanh }), vec![Some(x)])
}

fn quick_gelu(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let alpha = call.float_or("alpha", 1.702)?;
    call.finish_as_is(Op::Unary(Unary::Swish { alpha }))
}

/// A convolution, a sum with a fourth operand, and an activation.
fn fused_conv(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 4)?;
    let conv = conv_parameters(call, 1)?;
    let parameters = call.floats("activation_params")?.unwrap_or_default();
    let parameter = |index: usize, default: f32| parameters.get(index).copied().unwrap_or(default);
    let activation = match call.text("activation")?.unwrap_or_default() {
        "" | "Clip" => Unary::Identity,
        "Relu" => Unary::Relu,
        "Sigmoid" => Unary::Sigmoid,
        "Tanh" => Unary::Tanh,
        "LeakyRelu" => Unary::LeakyRelu {
            alpha: parameter(0, 0.01),
        },
        "HardSigmoid" => Unary::HardSigmoid {
            alpha: parameter(0, 0.2),
            beta: parameter(1, 0.5),
        },
        other => return Err(call.error(format!("activation `{other}` is not supported"))),
    };
    let operands = [call.input(0), call.input(1), call.input(2)];
    let n_operands = if call.input(2).is_some() { 3 } else { 2 };
    let mut y = call.step(Op::Conv(conv), &operands[..n_operands])?;
    if let Some(addend) = call.input(3) {
        y = call.binary_step(Binary::Add, y, addend)?;
    }
    if call.text("activation")? == Some("Clip") {
        let low = call.scalar_like("low", f64::from(parameter(0, f32::MIN)), y)?;
        let high = call.scalar_like("high", f64::from(parameter(1, f32::MAX)), y)?;
        return call.finish(Op::Clip(Clip), vec![Some(y), Some(low), Some(high)]);
    }
    call.finish(Op::Unary(activation), vec![Some(y)])
}

/// `alpha a' b'`. An operand may have its first axis moved before the last one
/// (`transBatch`), and its last two axes swapped after that (`trans`).
fn fused_mat_mul(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let mut operands = [call.required(0)?, call.required(1)?];
    let flags = [("transBatchA", "transA"), ("transBatchB", "transB")];
    for (operand, (move_first, swap_last)) in operands.iter_mut().zip(flags) {
        // Einstein sums of one operand: transpositions whatever the rank.
        let equation = match (call.flag(move_first, false)?, call.flag(swap_last, false)?) {
            (false, false) => continue,
            (false, true) => "...ij->...ji",
            (true, false) => "i...j->...ij",
            (true, true) => "i...j->...ji",
        };
        let equation = equation.to_owned();
        *operand = call.step(Op::Einsum(Einsum { equation }), &[Some(*operand)])?;
    }
    let alpha = call.float_or("alpha", 1.0)?;
    let operands = operands.map(Some);
    if alpha == 1.0 {
        return call.finish(Op::MatMul(MatMul), operands.to_vec());
    }
    let product = call.step(Op::MatMul(MatMul), &operands)?;
    let alpha = call.scalar_like("alpha", f64::from(alpha), product)?;
    call.finish(Op::Binary(Binary::Mul), vec![Some(product), Some(alpha)])
}

/// `(x, skip, scale, shift?, bias?)`: a layer normalisation of `x + skip + bias`.
fn skip_layer(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 5)?;
    call.only_results(1)?;
    let (x, skip) = (call.required(0)?, call.required(1)?);
    let mut sum = call.binary_step(Binary::Add, x, skip)?;
    if let Some(bias) = call.input(4) {
        sum = call.binary_step(Binary::Add, sum, bias)?;
    }
    let epsilon = call.float_or("epsilon", 1e-12)?;
    let mut inputs = vec![Some(sum), call.input(2)];
    inputs.extend(call.input(3).map(Some));
    call.finish(
        Op::LayerNormalization(LayerNormalization { axis: -1, epsilon }),
        inputs,
    )
}
