//! GEMM: one operand constant (`Linear`), or both computed (`MatMul`).
//!
//! ```text
//! x [.., k] * W [k, n]      Linear, x flattened to rows
//! W [m, k] * x [k, n]       the transpose of x^T W^T, also Linear
//! a [.., m, k] * b [.., k, n]   MatMul, batch axes broadcast by strides
//! ```

use std::sync::Arc;

use super::*;
use crate::graph::{Einsum, Gemm, MatMul};

impl Lower for Gemm {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.gemm(node, *self)
    }

    fn table_bytes(&self, _: &[usize], written: &[usize]) -> usize {
        written.last().map_or(0, |&n| n.saturating_mul(8))
    }
}

impl Lower for MatMul {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.matmul(node)
    }
}

impl Lower for Einsum {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.einsum(node, &self.equation)
    }
}

impl Lowering<'_> {
    fn gemm(&mut self, node: &Node, params: Gemm) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let shape = self.ty(out).shape.clone();
        let addend = self.optional(node, 2).filter(|_| params.beta != 0.0);
        let bias = addend.and_then(|c| self.row_vector(c, shape[1], params.beta));
        let folded = bias.is_some();
        let a_view = self.view(a)?;
        let a_view = transposed_if(&a_view, params.trans_a);
        let product = match self.constant(b) {
            Some(weights) => {
                let matrix = matrix_of(weights, params.trans_b, params.alpha);
                let y = self.row_major_buffer(Storage::F32, &shape);
                let x = self.unit_stride(&node.name, a_view, 1);
                let step = self.linear(&node.name, x, y.clone(), matrix, bias);
                if addend.is_none() || folded {
                    self.producer.insert(
                        out,
                        Producer {
                            step,
                            channel_axis: 1,
                        },
                    );
                }
                y
            }
            None => {
                let b_view = self.view(b)?;
                let b_view = transposed_if(&b_view, params.trans_b);
                let y = self.dynamic(&node.name, a_view, b_view, &shape, params.alpha);
                match bias {
                    Some(bias) => {
                        let n = shape[1];
                        let c = self.f32_constant(bias.to_vec(), &[n]);
                        return self.defer_views(&node.name, out, vec![y, c], &mut |e, x| {
                            e.push(PointOp::Add, &[x[0], x[1]])
                        });
                    }
                    None => y,
                }
            }
        };
        let Some(c) = addend.filter(|_| !folded) else {
            self.set(out, product);
            return Ok(());
        };
        let c = self.view(c)?;
        let beta = params.beta;
        self.defer_views(&node.name, out, vec![product, c], &mut |e, x| {
            let beta = e.push(PointOp::ConstantF32(beta), &[]);
            let c = e.push(PointOp::Mul, &[x[1], beta]);
            e.push(PointOp::Add, &[x[0], c])
        })
    }

    /// `beta * c` as one value per column, if `c` is constant and the same in every row.
    fn row_vector(&self, c: ValueId, columns: usize, beta: f32) -> Option<Arc<Vec<f32>>> {
        let tensor = self.constant(c)?;
        let values = tensor.to_f32();
        let last = tensor.shape().last().copied().unwrap_or(1);
        (values.len() == last).then_some(())?;
        let expanded: Vec<f32> = match last {
            1 => vec![values[0] * beta; columns],
            n if n == columns => values.iter().map(|v| v * beta).collect(),
            _ => return None,
        };
        Some(Arc::new(expanded))
    }

    fn matmul(&mut self, node: &Node) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let shape = self.ty(out).shape.clone();
        let (a_shape, b_shape) = (&self.ty(a).shape, &self.ty(b).shape);
        if let Some(weights) = self.constant(b).filter(|w| w.shape().len() == 2)
            && !a_shape.is_empty()
        {
            return self.matmul_by_constant(node, a, weights, out);
        }
        if let Some(weights) = self.constant(a).filter(|w| w.shape().len() == 2)
            && b_shape.len() == 2
        {
            // y = W x: as rows of y^T = x^T W^T, so the result is column-major.
            let (m, n) = (shape[0], shape[1]);
            let x = self.view(b)?.permuted(&[1, 0]);
            let x = self.unit_stride(&node.name, x, 1);
            let y = self.row_major_buffer(Storage::F32, &[n, m]);
            let matrix = matrix_of(weights, true, 1.0);
            self.linear(&node.name, x, y.clone(), matrix, None);
            self.set(out, y.permuted(&[1, 0]));
            return Ok(());
        }
        let (mut a_view, mut b_view) = (self.view(a)?, self.view(b)?);
        let unit = Axis {
            extent: 1,
            stride: 0,
        };
        let mut full = shape.clone();
        if a_view.rank() == 1 {
            a_view.axes.insert(0, unit);
            full.insert(full.len() + 1 - b_view.rank().min(2), 1);
        }
        if b_view.rank() == 1 {
            b_view.axes.push(unit);
            full.push(1);
        }
        let y = self.dynamic(&node.name, a_view, b_view, &full, 1.0);
        let y = self.reshaped(&node.name, y, &shape);
        self.set(out, y);
        Ok(())
    }

    fn matmul_by_constant(
        &mut self,
        node: &Node,
        a: ValueId,
        weights: &Arc<Tensor>,
        out: ValueId,
    ) -> Result<(), OpError> {
        let shape = self.ty(out).shape.clone();
        let (k, n) = (weights.shape()[0], weights.shape()[1]);
        let view = self.view(a)?;
        // Not from the number of elements, of which there are none where `k` is zero.
        let rows = shape[..shape.len() - 1].iter().product();
        let x = self.rows(&node.name, view, rows, k);
        let y = self.row_major_buffer(Storage::F32, &[rows, n]);
        let matrix = matrix_of(weights, false, 1.0);
        let step = self.linear(&node.name, x, y.clone(), matrix, None);
        let whole: Vec<usize> = (0..shape.len()).collect();
        self.set(out, View::dense(y.buffer, &shape, &whole));
        let channel_axis = shape.len() - 1;
        self.producer.insert(out, Producer { step, channel_axis });
        Ok(())
    }

    /// `view` as `[rows, k]` with unit stride along `k`.
    pub(super) fn rows(&mut self, name: &str, view: View, rows: usize, k: usize) -> View {
        let view = match view.rank() {
            0 => view,
            rank => self.unit_stride_or_row_major(name, view, rank - 1, rows, k),
        };
        self.reshaped(name, view, &[rows, k])
    }

    /// Avoids copying twice: once for the stride, once for the shape.
    fn unit_stride_or_row_major(
        &mut self,
        name: &str,
        view: View,
        axis: usize,
        rows: usize,
        k: usize,
    ) -> View {
        let unit = view.axes[axis].extent == 1 || view.axes[axis].stride == 1;
        let flat = view.reshaped(&[rows, k]);
        match flat {
            Some(flat) if k == 1 || flat.axes[1].stride == 1 => flat,
            _ if unit && view.is_row_major() => view,
            _ => {
                let order: Vec<usize> = (0..view.rank()).collect();
                self.copied(name, &view, &order)
            }
        }
    }

    /// Emits `y = x * matrix + bias`; returns the step.
    pub(super) fn linear(
        &mut self,
        name: &str,
        x: View,
        y: View,
        matrix: Weights,
        bias: Option<Arc<Vec<f32>>>,
    ) -> usize {
        let step = LinearStep {
            x,
            y,
            weights: matrix,
            epilogue: Epilogue {
                bias,
                ..Epilogue::default()
            },
        };
        self.emit(name, Step::Linear(step))
    }

    /// Emits a matmul of two computed operands; returns the row-major result.
    pub(super) fn dynamic(
        &mut self,
        name: &str,
        a: View,
        b: View,
        shape: &[usize],
        scale: f32,
    ) -> View {
        let rank = shape.len();
        let last = a.rank() - 1;
        let a = self.unit_stride(name, a, last);
        let batch = &shape[..rank - 2];
        let broadcast = |v: &View| {
            let (m, n) = (v.axes[v.rank() - 2].extent, v.axes[v.rank() - 1].extent);
            v.broadcast_to(&[batch, &[m, n]].concat())
        };
        let y = self.row_major_buffer(Storage::F32, shape);
        let step = MatMulStep {
            a: broadcast(&a),
            b: broadcast(&b),
            y: y.clone(),
            scale,
        };
        self.emit(name, Step::MatMul(step));
        y
    }

    /// Einstein summation of one or two operands.
    fn einsum(&mut self, node: &Node, equation: &str) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let (terms, target) = einsum_terms(equation)?;
        let shape = self.ty(out).shape.clone();
        match terms[..] {
            [ref a] => {
                let id = self.operand(node, 0)?;
                let view = self.view(id)?;
                let y = self.sum_to(&node.name, view, a, &target)?;
                self.set(out, y);
                Ok(())
            }
            [ref a, ref b] => {
                let (x, w) = (self.operand(node, 0)?, self.operand(node, 1)?);
                let (x, w) = (self.view(x)?, self.view(w)?);
                let y = self.einsum_pair(&node.name, (x, a), (w, b), &target)?;
                debug_assert_eq!(y.shape(), shape);
                self.set(out, y);
                Ok(())
            }
            _ => fail("einsum of more than two operands is not supported"),
        }
    }

    /// `view` with letters `from` summed over those not in `to`, in the order of `to`.
    fn sum_to(
        &mut self,
        name: &str,
        view: View,
        from: &[char],
        to: &[char],
    ) -> Result<View, OpError> {
        let keep: Vec<char> = from.iter().copied().filter(|c| to.contains(c)).collect();
        let summed = if keep.len() == from.len() {
            view
        } else {
            let shape: Vec<usize> = from
                .iter()
                .zip(&view.axes)
                .map(|(c, a)| if to.contains(c) { a.extent } else { 1 })
                .collect();
            let y = self.row_major_buffer(self.storage(&view), &shape);
            let kind = crate::graph::ReduceKind::Sum;
            let step = ReduceStep {
                x: view,
                y: y.clone(),
                kind,
            };
            self.emit(name, Step::Reduce(step));
            View {
                axes: from
                    .iter()
                    .zip(&y.axes)
                    .filter(|(c, _)| to.contains(c))
                    .map(|(_, &a)| a)
                    .collect(),
                ..y
            }
        };
        let perm: Option<Vec<usize>> = to
            .iter()
            .map(|c| keep.iter().position(|k| k == c))
            .collect();
        match perm {
            Some(perm) => Ok(summed.permuted(&perm)),
            None => fail("an output letter is in no operand"),
        }
    }

    fn einsum_pair(
        &mut self,
        name: &str,
        (a, a_letters): (View, &[char]),
        (b, b_letters): (View, &[char]),
        target: &[char],
    ) -> Result<View, OpError> {
        // Letters of one operand alone that the result lacks are summed first.
        let of_a = |c: &char| b_letters.contains(c) || target.contains(c);
        let of_b = |c: &char| a_letters.contains(c) || target.contains(c);
        let a_kept: Vec<char> = a_letters.iter().copied().filter(of_a).collect();
        let b_kept: Vec<char> = b_letters.iter().copied().filter(of_b).collect();
        let a = self.sum_to(name, a, a_letters, &a_kept)?;
        let b = self.sum_to(name, b, b_letters, &b_kept)?;
        let (a_letters, b_letters) = (a_kept, b_kept);
        let both = |c: &&char| b_letters.contains(c);
        let batch: Vec<char> = a_letters
            .iter()
            .filter(both)
            .filter(|c| target.contains(c))
            .copied()
            .collect();
        let contracted: Vec<char> = a_letters
            .iter()
            .filter(both)
            .filter(|c| !target.contains(c))
            .copied()
            .collect();
        let rows: Vec<char> = a_letters.iter().filter(|c| !both(c)).copied().collect();
        let columns: Vec<char> = b_letters
            .iter()
            .filter(|c| !a_letters.contains(c))
            .copied()
            .collect();
        let pick = |view: &View, letters: &[char], order: &[&[char]]| {
            let perm: Vec<usize> = order
                .concat()
                .iter()
                .filter_map(|c| letters.iter().position(|l| l == c))
                .collect();
            view.permuted(&perm)
        };
        let a = pick(&a, &a_letters, &[&batch, &rows, &contracted]);
        let b = pick(&b, &b_letters, &[&batch, &contracted, &columns]);
        let extents = |v: &View, from: usize, n: usize| -> Vec<usize> {
            v.axes[from..from + n].iter().map(|x| x.extent).collect()
        };
        let (nb, nr, nk, nc) = (batch.len(), rows.len(), contracted.len(), columns.len());
        let batch_shape: Vec<usize> = (0..nb)
            .map(|i| a.axes[i].extent.max(b.axes[i].extent))
            .collect();
        let row_shape = extents(&a, nb, nr);
        let column_shape = extents(&b, nb + nk, nc);
        let product = |s: &[usize]| s.iter().product::<usize>();
        let k = product(&extents(&a, nb + nr, nk));
        let (m, n) = (product(&row_shape), product(&column_shape));
        let a_shape = [&extents(&a, 0, nb)[..], &[m, k]].concat();
        let b_shape = [&extents(&b, 0, nb)[..], &[k, n]].concat();
        let a = self.reshaped(name, a, &a_shape);
        let b = self.reshaped(name, b, &b_shape);
        let y = self.dynamic(name, a, b, &[&batch_shape[..], &[m, n]].concat(), 1.0);
        let y = self.reshaped(name, y, &[batch_shape, row_shape, column_shape].concat());
        let letters = [batch, rows, columns].concat();
        let perm: Option<Vec<usize>> = target
            .iter()
            .map(|c| letters.iter().position(|l| l == c))
            .collect();
        match perm {
            Some(perm) => Ok(y.permuted(&perm)),
            None => fail("an output letter is in no operand"),
        }
    }
}

fn transposed_if(view: &View, transpose: bool) -> View {
    if transpose {
        view.permuted(&[1, 0])
    } else {
        view.clone()
    }
}

/// A constant matrix as `[k][n]` weights times `alpha`.
fn matrix_of(tensor: &Arc<Tensor>, transpose: bool, alpha: f32) -> Weights {
    let (rows, columns) = (tensor.shape()[0], tensor.shape()[1]);
    let (k, n, order) = match transpose {
        true => (columns, rows, WeightOrder::OutputsFirst),
        false => (rows, columns, WeightOrder::InputsFirst),
    };
    let mut weights = Weights::new(Arc::clone(tensor), 0, order, [1, 1, k, n]);
    if alpha != 1.0 {
        weights.scale(vec![f64::from(alpha); n]);
    }
    weights
}

/// Operand terms and result of an equation without ellipses or repeated letters.
fn einsum_terms(equation: &str) -> Result<(Vec<Vec<char>>, Vec<char>), OpError> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    if text.contains('.') {
        return fail("an ellipsis in an einsum is not supported");
    }
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let terms: Vec<Vec<char>> = left.split(',').map(|t| t.chars().collect()).collect();
    let repeated = |t: &Vec<char>| t.iter().enumerate().any(|(i, c)| t[..i].contains(c));
    if terms.iter().any(repeated) {
        return fail("a letter repeated within one operand of an einsum is not supported");
    }
    let target = match right {
        Some(right) => right.chars().collect(),
        None => {
            let count = |c: char| terms.iter().flatten().filter(|&&x| x == c).count();
            let mut letters: Vec<char> = terms.iter().flatten().copied().collect();
            letters.sort_unstable();
            letters.retain(|&c| count(c) == 1);
            letters
        }
    };
    Ok((terms, target))
}
