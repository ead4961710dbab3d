//! Matrix products and sums of products.

use super::Translator;
use super::call::{Call, Translated};
use crate::graph::{Einsum, Gemm, MatMul, Op};

pub(super) const OPERATORS: &[Translator] =
    &[("Gemm", gemm), ("MatMul", mat_mul), ("Einsum", einsum)];

fn gemm(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    if call.opset() < 7 {
        // Whether the addend is broadcast, which follows from the shapes.
        call.ignore(&["broadcast"]);
    }
    let gemm = Gemm {
        alpha: call.float_or("alpha", 1.0)?,
        beta: call.float_or("beta", 1.0)?,
        trans_a: call.flag("transA", false)?,
        trans_b: call.flag("transB", false)?,
    };
    call.finish_as_is(Op::Gemm(gemm))
}

fn mat_mul(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    call.finish_as_is(Op::MatMul(MatMul))
}

/// Spaces in the equation mean nothing and are left out.
fn einsum(call: &mut Call<'_, '_>) -> Translated {
    let count = call.inputs().len();
    call.operands(count.max(1), usize::MAX)?;
    let Some(equation) = call.text("equation")? else {
        return Err(call.error("attribute `equation` is missing"));
    };
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    call.finish_as_is(Op::Einsum(Einsum { equation }))
}
