//! Matmul, GEMM and Einstein summation.

use super::operator::{Exported, Inferred, Operator};
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{
    Operands, check_broadcasts_to, check_float, check_rank, check_same_dtype, one, op_error,
};
use crate::graph::{
    Det, Einsum, Gemm, MatMul, Op, OpError, Operand, broadcast_shapes, parse_einsum,
};
use crate::tensor::DType;

impl Operator for Gemm {
    const IMPORTS: &'static [Translator] = &[("Gemm", gemm)];

    fn name(&self) -> &'static str {
        "Gemm"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 3, 1)?;
        let a = operands.required(0, "a")?;
        let b = operands.required(1, "b")?;
        check_matrix("a", &a)?;
        check_same_dtype("b", &b, a.dtype)?;
        check_rank("a", &a, 2)?;
        check_rank("b", &b, 2)?;
        if !a.dtype.is_float() && (self.alpha.fract() != 0.0 || self.beta.fract() != 0.0) {
            return Err(op_error!(
                "alpha {} and beta {} must be whole for {} operands",
                self.alpha,
                self.beta,
                a.dtype
            ));
        }
        let (m, k) = if self.trans_a {
            (a.shape[1], a.shape[0])
        } else {
            (a.shape[0], a.shape[1])
        };
        let (k_b, n) = if self.trans_b {
            (b.shape[1], b.shape[0])
        } else {
            (b.shape[0], b.shape[1])
        };
        if k != k_b {
            return Err(op_error!(
                "shapes {:?} and {:?} do not multiply: depth {k} is not {k_b}",
                a.shape,
                b.shape
            ));
        }
        if let Some(c) = operands.optional(2) {
            check_same_dtype("c", &c, a.dtype)?;
            check_broadcasts_to("c", c.shape, &[m, n])?;
        }
        one(a.dtype, [m, n])
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .float("alpha", self.alpha)
            .float("beta", self.beta)
            .flag("transA", self.trans_a)
            .flag("transB", self.trans_b))
    }
}

impl Operator for MatMul {
    const IMPORTS: &'static [Translator] = &[("MatMul", mat_mul)];

    fn name(&self) -> &'static str {
        "MatMul"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let a = operands.required(0, "a")?;
        let b = operands.required(1, "b")?;
        check_matrix("a", &a)?;
        check_same_dtype("b", &b, a.dtype)?;
        one(a.dtype, matmul_shape(&a, &b)?)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

/// The shape of NumPy's `matmul`.
pub(super) fn matmul_shape(a: &Operand<'_>, b: &Operand<'_>) -> Result<Vec<usize>, OpError> {
    let (Some((&k_a, rows)), Some((_, _))) = (a.shape.split_last(), b.shape.split_last()) else {
        return Err(op_error!("scalars have no matrix product"));
    };
    let (b_batch, k_b, columns) = match b.shape {
        [k] => (&[][..], *k, None),
        [batch @ .., k, n] => (batch, *k, Some(*n)),
        [] => unreachable!("refused above"),
    };
    if k_a != k_b {
        return Err(op_error!(
            "shapes {:?} and {:?} do not multiply: depth {k_a} is not {k_b}",
            a.shape,
            b.shape
        ));
    }
    let (a_batch, row) = match rows {
        [] => (&[][..], None),
        [batch @ .., m] => (batch, Some(*m)),
    };
    let mut shape = broadcast_shapes(a_batch, b_batch)?;
    shape.extend(row);
    shape.extend(columns);
    Ok(shape)
}

impl Operator for Det {
    const IMPORTS: &'static [Translator] = &[("Det", det)];

    fn name(&self) -> &'static str {
        "Det"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        check_float("x", &x)?;
        match x.shape {
            [batch @ .., rows, columns] if rows == columns => one(x.dtype, batch),
            _ => Err(op_error!("`x` of shape {:?} must be square", x.shape)),
        }
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

fn det(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    call.finish_as_is(Op::Det(Det))
}

impl Operator for Einsum {
    const IMPORTS: &'static [Translator] = &[("Einsum", einsum)];

    fn name(&self) -> &'static str {
        "Einsum"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, usize::MAX, 1)?;
        let first = operands.required(0, "x0")?;
        check_matrix("x0", &first)?;
        let mut shapes = Vec::with_capacity(operands.list.len());
        for index in 0..operands.list.len() {
            let x = operands.required(index, "x")?;
            check_same_dtype("x", &x, first.dtype)?;
            shapes.push(x.shape);
        }
        let parsed = parse_einsum(&self.equation, &shapes)?;
        one(
            first.dtype,
            parsed
                .output
                .iter()
                .map(|&id| parsed.extents[id])
                .collect::<Vec<_>>(),
        )
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().text("equation", &self.equation))
    }
}

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

/// The element types ONNX multiplies matrices of.
fn check_matrix(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if matches!(
        operand.dtype,
        DType::I32 | DType::I64 | DType::U32 | DType::U64
    ) {
        return Ok(());
    }
    check_float(what, operand)
}
