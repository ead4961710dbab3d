//! Discrete Fourier transforms as a matmul with a table of sines and cosines.
//!
//! ```text
//! [..., n, ..., parts] -> [rows, taken * parts] x [taken * parts, output * parts'] -> [..., output, ..., parts']
//! ```
//!
//! The table is an operand like any other and no weight: of the lower precisions only bf16 on both sides rounds it.
//!
//! Deliberately absent: the fast transform. The lengths of speech and radar are a few hundred, where a GEMM is quick.

use std::f64::consts::TAU;

use super::*;
use crate::graph::{Dft, DftAxis, Operand, resolve_dft};

/// Elements of a table, 128 MiB.
const MAX_TABLE: usize = 1 << 25;

impl Lower for Dft {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.dft(node, *self, out))
    }
}

impl Lowering<'_> {
    fn dft(&mut self, node: &Node, op: Dft, out: ValueId) -> Result<View, OpError> {
        let x_id = self.operand(node, 0)?;
        let x_shape = self.ty(x_id).shape.clone();
        let known = |index: usize| {
            let id = self.optional(node, index)?;
            self.constant(id).map(|tensor| Operand::constant(tensor))
        };
        let shape = resolve_dft(op, &x_shape, known(1), known(2))?;
        let DftAxis { axis, taken, .. } = shape;
        let depth = taken * shape.parts;
        let columns = shape.output * shape.output_parts;
        if elements(&[depth, columns]) > MAX_TABLE {
            return fail(format!(
                "a transform of {} points takes a table of {depth} by {columns} numbers, at most {MAX_TABLE} are \
                 supported",
                shape.length
            ));
        }
        let rank = x_shape.len();
        let last = rank - 1;
        let mut order: Vec<usize> = (0..last).filter(|&a| a != axis).collect();
        order.extend([axis, last]);
        let x = self.view(x_id)?.sliced(axis, 0, 1, taken).permuted(&order);
        let rows = elements(&x_shape) / (x_shape[axis] * shape.parts);
        let x = self.reshaped(&node.name, x, &[rows, depth]);
        let table = self.f32_constant(table(op, shape), &[depth, columns]);
        let y = self.dynamic(&node.name, x, table, &[rows, columns], 1.0);
        let y_shape = self.ty(out).shape.clone();
        let moved: Vec<usize> = order.iter().map(|&a| y_shape[a]).collect();
        let y = self.reshaped(&node.name, y, &moved);
        let mut back = vec![0; rank];
        for (at, &from) in order.iter().enumerate() {
            back[from] = at;
        }
        Ok(y.permuted(&back))
    }
}

/// What each number of the operand adds to each of the result.
fn table(op: Dft, shape: DftAxis) -> Vec<f32> {
    let n = shape.length;
    let sign = if op.inverse { 1.0 } else { -1.0 };
    let scale = if op.inverse { 1.0 / n as f64 } else { 1.0 };
    let mut table =
        Vec::with_capacity(shape.taken * shape.parts * shape.output * shape.output_parts);
    for i in 0..shape.taken {
        // Of one side, a frequency stands for its mirror image too, unless it is its own.
        let is_own = i == 0 || 2 * i == n;
        let weight = match op.one_sided && op.inverse && !is_own {
            true => 2.0 * scale,
            false => scale,
        };
        for part in 0..shape.parts {
            for k in 0..shape.output {
                let angle = TAU * (i as u128 * k as u128 % n as u128) as f64 / n as f64;
                let (re, im) = (weight * angle.cos(), weight * sign * angle.sin());
                let own = [re, im];
                let turned = [-im, re];
                let of_part = if part == 0 { own } else { turned };
                let dropped = shape.output_parts == 1 && part == 1 && is_own;
                for value in &of_part[..shape.output_parts] {
                    table.push(if dropped { 0.0 } else { *value as f32 });
                }
            }
        }
    }
    table
}
