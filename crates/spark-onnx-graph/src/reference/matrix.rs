//! Matmul, GEMM and Einstein summation.
//!
//! All three are one loop nest over labelled axes:
//!
//! ```text
//! for every position of the result:
//!     sum = 0
//!     for every position of the labels that are summed over:
//!         sum += product of the operands' elements there
//! ```

use super::index::{broadcast_strides, for_each_position, offset, strides};
use super::numbers::{Numbers, from_floats, from_whole};
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use crate::graph::infer::op_error;
use crate::graph::{Einsum, EinsumLabels, Gemm, MatMul, OpError, TensorType, parse_einsum};
use crate::tensor::Tensor;

impl Evaluate for Einsum {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| einsum(&self.equation, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let shapes = working.shapes();
        let terms = parse_einsum(&self.equation, &shapes).map_or(0, |einsum| {
            let summed = (0..einsum.extents.len()).filter(|l| !einsum.output.contains(l));
            summed.fold(1, |n: usize, l| n.saturating_mul(einsum.extents[l]))
        });
        let products = terms.saturating_add(working.written());
        working.computed_with(times(products, times(shapes.len(), 24)))
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.read()
    }
}

fn einsum(equation: &str, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let tensors = (0..inputs.0.len())
        .map(|i| inputs.get(i))
        .collect::<Result<Vec<_>, _>>()?;
    let shapes: Vec<&[usize]> = tensors.iter().map(|t| t.shape()).collect();
    let parsed = parse_einsum(equation, &shapes)?;
    match contract(&parsed, &tensors)? {
        Numbers::Float(y) => from_floats(ty, y),
        Numbers::Whole(y) => from_whole(ty, y),
    }
}

impl Evaluate for MatMul {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| matmul(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let elements = working.read().saturating_add(working.written());
        working.computed_with(times(elements, 48))
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.smaller_factor()
    }
}

fn matmul(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    match product([inputs.get(0)?, inputs.get(1)?])? {
        Numbers::Float(y) => from_floats(ty, y),
        Numbers::Whole(y) => from_whole(ty, y),
    }
}

/// NumPy's `matmul`, not yet rounded.
pub(super) fn product(tensors: [&Tensor; 2]) -> Result<Numbers, OpError> {
    contract(&matmul_labels(tensors.map(Tensor::shape)), &tensors)
}

/// NumPy's `matmul` of operands of these shapes.
pub(super) fn matmul_labels([a, b]: [&[usize]; 2]) -> EinsumLabels {
    // Labels: rows 0, columns 1, depth 2, batch axis b from the end 3 + b.
    let batch = |shape: &[usize]| {
        (3..shape.len().saturating_sub(2) + 3)
            .rev()
            .collect::<Vec<_>>()
    };
    let (mut a_labels, mut b_labels) = (batch(a), batch(b));
    let batch_axes = a_labels.len().max(b_labels.len());
    let mut output: Vec<usize> = (3..3 + batch_axes).rev().collect();
    if a.len() > 1 {
        a_labels.push(0);
        output.push(0);
    }
    a_labels.push(2);
    b_labels.push(2);
    if b.len() > 1 {
        b_labels.push(1);
        output.push(1);
    }
    let mut extents = vec![1; 3 + batch_axes];
    for (label, &extent) in a_labels.iter().zip(a).chain(b_labels.iter().zip(b)) {
        if extent != 1 {
            extents[*label] = extent;
        }
    }
    EinsumLabels {
        operands: vec![a_labels, b_labels],
        output,
        extents,
    }
}

impl Evaluate for Gemm {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| gemm(self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let elements = working.read().saturating_add(working.written());
        working.computed_with(times(elements, 48))
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.smaller_factor()
    }
}

fn gemm(gemm: &Gemm, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let tensors = [inputs.get(0)?, inputs.get(1)?];
    let product = gemm_labels(gemm, tensors[0].shape(), &ty.shape);
    let addend = inputs.optional(2).map(|c| {
        let c_strides = broadcast_strides(c.shape(), &ty.shape);
        let mut at_result = Vec::with_capacity(ty.shape.iter().product());
        for_each_position(&ty.shape, |at| at_result.push(offset(at, &c_strides)));
        (Numbers::of(c), at_result)
    });
    match (contract(&product, &tensors)?, addend) {
        (Numbers::Float(mut y), addend) => {
            y.iter_mut().for_each(|y| *y *= f64::from(gemm.alpha));
            if let Some((Numbers::Float(c), at)) = addend {
                y.iter_mut()
                    .zip(at)
                    .for_each(|(y, i)| *y += f64::from(gemm.beta) * c[i]);
            }
            from_floats(ty, y)
        }
        (Numbers::Whole(mut y), addend) => {
            y.iter_mut()
                .for_each(|y| *y = y.wrapping_mul(gemm.alpha as i128));
            if let Some((Numbers::Whole(c), at)) = addend {
                let beta = gemm.beta as i128;
                y.iter_mut()
                    .zip(at)
                    .for_each(|(y, i)| *y = y.wrapping_add(beta.wrapping_mul(c[i])));
            }
            from_whole(ty, y)
        }
    }
}

/// The product of a GEMM whose first operand has the shape `a`.
pub(super) fn gemm_labels(gemm: &Gemm, a: &[usize], result: &[usize]) -> EinsumLabels {
    let depth = a[usize::from(!gemm.trans_a)];
    EinsumLabels {
        operands: vec![
            if gemm.trans_a { vec![2, 0] } else { vec![0, 2] },
            if gemm.trans_b { vec![1, 2] } else { vec![2, 1] },
        ],
        output: vec![0, 1],
        extents: vec![result[0], result[1], depth],
    }
}

/// The contraction, not yet rounded.
fn contract(einsum: &EinsumLabels, tensors: &[&Tensor]) -> Result<Numbers, OpError> {
    let n_labels = einsum.extents.len();
    let summed: Vec<usize> = (0..n_labels)
        .filter(|label| !einsum.output.contains(label))
        .collect();
    let extents_of = |labels: &[usize]| {
        labels
            .iter()
            .map(|&l| einsum.extents[l])
            .collect::<Vec<_>>()
    };
    let (result_shape, summed_shape) = (extents_of(&einsum.output), extents_of(&summed));

    // Strides of every operand along every label; 0 where it has none or broadcasts.
    let by_label: Vec<Vec<usize>> = tensors
        .iter()
        .zip(&einsum.operands)
        .map(|(tensor, labels)| {
            let mut by_label = vec![0; n_labels];
            for ((&label, &extent), stride) in labels
                .iter()
                .zip(tensor.shape())
                .zip(strides(tensor.shape()))
            {
                by_label[label] = if extent == 1 { 0 } else { stride };
            }
            by_label
        })
        .collect();
    let along = |labels: &[usize]| -> Vec<Vec<usize>> {
        by_label
            .iter()
            .map(|strides| labels.iter().map(|&l| strides[l]).collect())
            .collect()
    };
    let (result_strides, summed_strides) = (along(&einsum.output), along(&summed));

    // Where every operand's factor of every term lies, counted from its first factor.
    let mut terms: Vec<usize> = Vec::new();
    for_each_position(&summed_shape, |at| {
        terms.extend(summed_strides.iter().map(|strides| offset(at, strides)));
    });
    let n_operands = tensors.len();
    let mut firsts: Vec<usize> = Vec::new();
    for_each_position(&result_shape, |at| {
        firsts.extend(result_strides.iter().map(|strides| offset(at, strides)));
    });

    let mut floats = Vec::new();
    let mut wholes = Vec::new();
    for tensor in tensors {
        match Numbers::of(tensor) {
            Numbers::Float(values) => floats.push(values),
            Numbers::Whole(values) => wholes.push(values),
        }
    }
    if floats.len() == n_operands {
        let sum = |first: &[usize]| -> f64 {
            terms
                .chunks_exact(n_operands)
                .map(|term| {
                    (0..n_operands)
                        .map(|t| floats[t][first[t] + term[t]])
                        .product::<f64>()
                })
                .sum()
        };
        return Ok(Numbers::Float(
            firsts.chunks_exact(n_operands).map(sum).collect(),
        ));
    }
    if wholes.len() == n_operands {
        let sum = |first: &[usize]| {
            terms.chunks_exact(n_operands).fold(0i128, |sum, term| {
                let factors = (0..n_operands).map(|t| wholes[t][first[t] + term[t]]);
                sum.wrapping_add(factors.fold(1, i128::wrapping_mul))
            })
        };
        return Ok(Numbers::Whole(
            firsts.chunks_exact(n_operands).map(sum).collect(),
        ));
    }
    Err(op_error!("operands of different kinds"))
}
