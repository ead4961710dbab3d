//! Element functions of operators over rows: behind a GEMM's tile, or over a whole tensor.
//!
//! ```text
//! for every row:   v v v v v | rest        a vector at a time, the rest in part of one
//! ```
//!
//! Every function is compiled on its own for every instruction set. In one body for all of them the
//! compiler prepares at the start what any of them may need, which takes as long as the results of
//! a tile. The functions themselves are `spark-simd`'s; the rare ones are plain loops left to the compiler.

use spark_gemm::{Activation, RowFunction};
use spark_simd::math::{
    celu, elu, elu_one, erf, exp, gelu, gelu_tanh, hard_swish, log, positive, sigmoid, softplus,
    swish, tanh, within,
};

use super::simd::{Isa, Simd, dispatch};
use crate::graph::Unary;
use crate::plan;

/// Replaces every element of `x` by the function of it.
// Out of line: kernels call it in many places.
#[inline(never)]
pub(crate) fn apply(isa: Isa, op: Unary, x: &mut [f32]) {
    // SAFETY: one row of exactly that many elements.
    unsafe { row_function(op).apply(isa, &[x.as_mut_ptr()], x.len()) }
}

/// `map_vectors!(S, x, v => f(v))` replaces every element of `x`, a vector at a time.
///
/// A macro, because a closure is compiled without the instruction set of the kernel around it,
/// and one as large as these is not inlined into it.
macro_rules! map_vectors {
    ($S:ident, $x:ident, $v:ident => $f:expr) => {{
        let whole = $x.len() / $S::LANES * $S::LANES;
        let rest = $x.len() - whole;
        let first = $x.as_mut_ptr();
        for i in (0..whole).step_by($S::LANES) {
            let $v = $S::load(first.add(i));
            $S::store(first.add(i), $f);
        }
        if rest > 0 {
            let end = first.add(whole);
            let $v = $S::load_first(end, rest);
            $S::store_first(end, $f, rest);
        }
    }};
}

/// `map_elements!(S, x, v => f(v))` does so an element at a time, in a loop the compiler turns into
/// vectors where it can.
macro_rules! map_elements {
    ($S:ident, $x:ident, $v:ident => $f:expr) => {
        for element in $x {
            let $v = *element;
            *element = $f;
        }
    };
}

/// `match_function!(op; pattern [parameters] => map v: f(v); ..)`: one function per pattern, with the
/// parameters it takes from there; `map` is one of the two macros above.
macro_rules! match_function {
    ($op:ident; $($pattern:pat, [$($parameter:ident),*] => $map:ident $v:ident: $f:expr;)*) => {
        match $op {
            // The bits of an integer are never held in these rows.
            Unary::Identity | Unary::BitwiseNot => {
                unsafe fn kernel(_: Isa, _: [f32; 2], _: &[*mut f32], _: usize) {}
                // SAFETY: it touches nothing.
                unsafe { RowFunction::new(kernel, [0.0; 2]) }
            }
            $($pattern => {
                #[inline(always)]
                #[allow(
                    clippy::extra_unused_type_parameters,
                    reason = "it says which instruction set the function is compiled for"
                )]
                unsafe fn over<S: Simd>(rows: &[*mut f32], columns: usize $(, $parameter: f32)*) {
                    for &row in rows {
                        // SAFETY: the caller of `kernel` vouches for `columns` elements of
                        // every row; offsets stay below that.
                        unsafe {
                            let x = std::slice::from_raw_parts_mut(row, columns);
                            $map!(S, x, $v => $f);
                        }
                    }
                }
                unsafe fn kernel(isa: Isa, parameters: [f32; 2], rows: &[*mut f32], columns: usize) {
                    let [$($parameter,)* ..] = parameters;
                    // SAFETY: guaranteed by the caller; `isa` names a set this processor has.
                    unsafe {
                        dispatch!(isa, over(rows: &[*mut f32], columns: usize $(, $parameter: f32)*)
                            => (rows, columns $(, $parameter)*))
                    }
                }
                // SAFETY: it touches the given elements of the rows and no other memory.
                unsafe { RowFunction::new(kernel, padded(&[$($parameter),*])) }
            })*
        }
    };
}

/// As many parameters as a function may have.
fn padded(parameters: &[f32]) -> [f32; 2] {
    let mut padded = [0.0; 2];
    padded[..parameters.len()].copy_from_slice(parameters);
    padded
}

/// The function of an operator, over rows.
pub(crate) fn row_function(op: Unary) -> RowFunction {
    match_function! { op;
        Unary::Abs, [] => map_elements v: v.abs();
        Unary::Neg, [] => map_elements v: -v;
        Unary::Sign, [] => map_elements v: {
            let sign = if v > 0.0 { 1.0 } else { v };
            if v < 0.0 { -1.0 } else { sign }
        };
        Unary::Floor, [] => map_elements v: v.floor();
        Unary::Ceil, [] => map_elements v: v.ceil();
        Unary::Round, [] => map_elements v: v.round_ties_even();
        Unary::Reciprocal, [] => map_elements v: 1.0 / v;
        Unary::Sqrt, [] => map_elements v: v.sqrt();
        Unary::Exp, [] => map_vectors v: exp::<S>(v);
        Unary::Log, [] => map_vectors v: log::<S>(v);
        Unary::Sin, [] => map_elements v: v.sin();
        Unary::Cos, [] => map_elements v: v.cos();
        Unary::Tan, [] => map_elements v: v.tan();
        Unary::Asin, [] => map_elements v: v.asin();
        Unary::Acos, [] => map_elements v: v.acos();
        Unary::Atan, [] => map_elements v: v.atan();
        Unary::Sinh, [] => map_elements v: v.sinh();
        Unary::Cosh, [] => map_elements v: v.cosh();
        Unary::Asinh, [] => map_elements v: v.asinh();
        Unary::Acosh, [] => map_elements v: v.acosh();
        Unary::Atanh, [] => map_elements v: v.atanh();
        Unary::Erf, [] => map_vectors v: erf::<S>(v);
        Unary::Not, [] => map_elements v: f32::from(u8::from(v == 0.0));
        Unary::IsNaN, [] => map_elements v: f32::from(u8::from(v.is_nan()));
        Unary::IsInf, [] => map_elements v: f32::from(u8::from(v.is_infinite()));
        Unary::Relu, [] => map_vectors v: positive::<S>(v);
        Unary::LeakyRelu { alpha }, [alpha] => map_elements v: if v < 0.0 { alpha * v } else { v };
        Unary::ThresholdedRelu { alpha }, [alpha] => map_elements v: if v > alpha { v } else { 0.0 };
        Unary::Elu { alpha: 1.0 }, [] => map_vectors v: elu_one::<S>(v);
        Unary::Elu { alpha }, [alpha] => map_vectors v: elu::<S>(v, alpha);
        Unary::Selu { alpha, gamma }, [alpha, gamma] => map_vectors v: {
            S::mul(S::splat(gamma), elu::<S>(v, alpha))
        };
        Unary::Celu { alpha }, [alpha] => map_vectors v: celu::<S>(v, alpha);
        Unary::Sigmoid, [] => map_vectors v: sigmoid::<S>(v);
        Unary::HardSigmoid { alpha, beta }, [alpha, beta] => map_vectors v: {
            within::<S>(S::fma(S::splat(alpha), v, S::splat(beta)), 0.0, 1.0)
        };
        Unary::HardSwish, [] => map_vectors v: hard_swish::<S>(v);
        Unary::Tanh, [] => map_vectors v: tanh::<S>(v);
        Unary::Softplus, [] => map_vectors v: softplus::<S>(v);
        Unary::Softsign, [] => map_elements v: v / (1.0 + v.abs());
        Unary::Mish, [] => map_vectors v: S::mul(v, tanh::<S>(softplus::<S>(v)));
        Unary::Gelu { tanh: false }, [] => map_vectors v: gelu::<S>(v);
        Unary::Gelu { tanh: true }, [] => map_vectors v: gelu_tanh::<S>(v);
        Unary::Swish { alpha: 1.0 }, [] => map_vectors v: swish::<S>(v);
        Unary::Swish { alpha }, [alpha] => map_vectors v: {
            S::mul(v, sigmoid::<S>(S::mul(S::splat(alpha), v)))
        };
        Unary::Shrink { lambda, bias }, [lambda, bias] => map_elements v: {
            let high = if v > lambda { v - bias } else { 0.0 };
            if v < -lambda { v + bias } else { high }
        };
    }
}

/// The activation of a GEMM's epilogue, as `spark-gemm` takes it.
pub(crate) fn activation(activation: plan::Activation) -> Activation {
    match activation {
        plan::Activation::None => Activation::None,
        plan::Activation::Clamp { low, high } => Activation::Clamp { low, high },
        plan::Activation::Function(op) => Activation::Function(row_function(op)),
    }
}

/// `v * factor` of every element.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub(crate) unsafe fn scale<S: Simd>(x: &mut [f32], factor: f32) {
    // SAFETY: guaranteed by the caller; offsets stay below the slice's length.
    unsafe { map_vectors!(S, x, v => S::mul(v, S::splat(factor))) }
}

/// `min(max(x, low), high)`; NaN stays.
#[inline(always)]
pub(crate) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

#[cfg(test)]
mod tests;
