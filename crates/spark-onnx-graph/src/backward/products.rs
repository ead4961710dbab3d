//! Products of matrices.
//!
//! ```text
//! y = a b              da = dy b',  db = a' dy        summed over batch axes that were broadcast
//! y = alpha a b + beta c    the same times alpha, with the transposes undone;  dc = beta * sum of dy
//! ```

use super::operator::{At, Backward, not_written};
use crate::building::{Builder, Built};
use crate::graph::{Det, Einsum, Gemm, MatMul, ValueId};

impl Backward for MatMul {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (a, b) = (at.operand(0)?, at.operand(1)?);
        let (shape, dy) = (at.shape(operand)?, at.dy()?);
        let builder = &mut *at.builder;
        let (mut a_shape, mut b_shape) = (builder.shape(a), builder.shape(b));
        let mut y_shape = builder.shape(dy);
        // Operands of one axis are a row and a column, whose axes the result lacks.
        if b_shape.len() == 1 {
            b_shape.push(1);
            y_shape.push(1);
        }
        if a_shape.len() == 1 {
            a_shape.insert(0, 1);
            y_shape.insert(y_shape.len() - 1, 1);
        }
        let a = builder.reshape(a, &a_shape)?;
        let b = builder.reshape(b, &b_shape)?;
        let dy = builder.reshape(dy, &y_shape)?;
        let gradient = match operand {
            // Of one matrix, too: what is known of it by its name stays known, as how it is packed.
            0 if b_shape.len() == 2 => {
                let dy = as_matrix(builder, dy)?;
                let gradient = builder.op(by_transpose(), &[dy, b])?;
                builder.reshape(gradient, &a_shape)?
            }
            0 => {
                let b = turned(builder, b)?;
                builder.op(Self, &[dy, b])?
            }
            // Of one matrix for all batches: one product over all rows of all.
            _ if b_shape.len() == 2 => {
                let a = as_matrix(builder, a)?;
                let dy = as_matrix(builder, dy)?;
                let a = turned(builder, a)?;
                builder.op(Self, &[a, dy])?
            }
            _ => {
                let a = turned(builder, a)?;
                builder.op(Self, &[a, dy])?
            }
        };
        let matrix = if operand == 0 { &a_shape } else { &b_shape };
        let gradient = builder.sum_to(gradient, matrix)?;
        builder.reshape(gradient, &shape)
    }
}

/// `x b'`.
fn by_transpose() -> Gemm {
    Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    }
}

/// With the last two axes exchanged.
fn turned(b: &mut Builder, x: ValueId) -> Built {
    let rank = b.ty(x).shape.len();
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    b.transpose(x, perm)
}

/// All rows of all batches.
fn as_matrix(b: &mut Builder, x: ValueId) -> Built {
    let shape = b.shape(x);
    let (rows, columns) = shape.split_at(shape.len() - 1);
    b.reshape(x, &[rows.iter().product(), columns[0]])
}

impl Backward for Gemm {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (a, b, dy) = (at.operand(0)?, at.operand(1)?, at.dy()?);
        if operand == 2 {
            let shape = at.shape(2)?;
            let scaled = at.builder.times(dy, self.beta.into())?;
            return at.builder.sum_to(scaled, &shape);
        }
        let product = |trans_a, trans_b| Self {
            alpha: self.alpha,
            beta: 1.0,
            trans_a,
            trans_b,
        };
        match (operand, self.trans_a, self.trans_b) {
            (0, false, trans_b) => at.builder.op(product(false, !trans_b), &[dy, b]),
            (0, true, trans_b) => at.builder.op(product(trans_b, true), &[b, dy]),
            (_, trans_a, false) => at.builder.op(product(!trans_a, false), &[a, dy]),
            (_, trans_a, true) => at.builder.op(product(true, trans_a), &[dy, a]),
        }
    }
}

not_written!(Det Einsum);
