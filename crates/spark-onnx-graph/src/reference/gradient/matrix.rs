//! Gradients of matmul, GEMM and Einstein summation, one loop nest over labelled axes.
//!
//! ```text
//! for every position of all labels, those of the result and those that are summed over:
//!     gradient[operand there] += dy there * product of the other operands' elements there
//! ```

use super::super::index::{for_each_position, offset, strides};
use super::super::matrix::{gemm_labels, matmul_labels};
use super::super::operator::{Working, times};
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::{Einsum, EinsumLabels, Gemm, MatMul, OpError, parse_einsum};

impl Differentiate for MatMul {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let labels = matmul_labels([at.shape(0)?, at.shape(1)?]);
        contracted(&labels, at, operand)
    }
}

impl Differentiate for Einsum {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let shapes = (0..at.inputs.0.len()).map(|i| at.shape(i));
        let shapes = shapes.collect::<Result<Vec<_>, _>>()?;
        contracted(&parse_einsum(&self.equation, &shapes)?, at, operand)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let elements = working.read().saturating_add(working.written());
        // Strides along every letter, of which there are no more than characters.
        let lists = times(
            working.shapes().len().saturating_add(2),
            times(self.equation.len(), 64),
        );
        working.computed_with(times(elements, 40).saturating_add(lists))
    }
}

impl Differentiate for Gemm {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        if operand == 2 {
            let (beta, dy) = (f64::from(self.beta), at.dy()?);
            let mut gradient = at.zeros(2)?;
            at.for_each_broadcast(&[2], |i, places| gradient[places[0]] += beta * dy[i])?;
            return Ok(gradient);
        }
        let labels = gemm_labels(self, at.shape(0)?, at.y_shape());
        let mut gradient = contracted(&labels, at, operand)?;
        let alpha = f64::from(self.alpha);
        gradient.iter_mut().for_each(|gradient| *gradient *= alpha);
        Ok(gradient)
    }
}

/// The gradient by one factor of a contraction.
fn contracted(labels: &EinsumLabels, at: &At<'_>, operand: usize) -> Differentiated {
    let n_labels = labels.extents.len();
    // An axis of extent 1 broadcasts, as one that is not there.
    let by_label = |axes: &[usize], shape: &[usize]| {
        let mut by_label = vec![0; n_labels];
        for ((&label, &extent), stride) in axes.iter().zip(shape).zip(strides(shape)) {
            by_label[label] = if extent == 1 { 0 } else { stride };
        }
        by_label
    };
    let n_factors = labels.operands.len();
    let factors = (0..n_factors).map(|i| at.floats(i));
    let factors = factors.collect::<Result<Vec<_>, _>>()?;
    let factor_strides = labels.operands.iter().enumerate();
    let factor_strides = factor_strides.map(|(i, axes)| Ok(by_label(axes, at.shape(i)?)));
    let factor_strides = factor_strides.collect::<Result<Vec<_>, OpError>>()?;
    let result_strides = by_label(&labels.output, at.y_shape());
    let dy = at.dy()?;
    let mut gradient = at.zeros(operand)?;
    for_each_position(&labels.extents, |position| {
        let mut term = dy[offset(position, &result_strides)];
        for other in (0..n_factors).filter(|&other| other != operand) {
            term *= factors[other][offset(position, &factor_strides[other])];
        }
        gradient[offset(position, &factor_strides[operand])] += term;
    });
    Ok(gradient)
}
