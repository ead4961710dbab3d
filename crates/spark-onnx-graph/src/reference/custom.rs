//! Operators of an embedder's own: run on the operands as they are.

use super::operator::{Evaluate, Evaluated, Inputs, Working};
use crate::ModelError;
use crate::graph::infer::op_error;
use crate::graph::{Custom, OperatorError, TensorType};
use crate::tensor::Tensor;
use crate::tensor_view::TensorView;
use crate::tensor_view_mut::TensorViewMut;

impl Custom {
    /// The results, or the operator's own error.
    pub(super) fn computed(
        &self,
        inputs: Inputs<'_>,
        types: &[TensorType],
    ) -> Result<Vec<Tensor>, OperatorError> {
        let operands: Vec<Option<TensorView<'_>>> = inputs
            .0
            .iter()
            .map(|tensor| tensor.map(TensorView::from))
            .collect();
        let results = types
            .iter()
            .map(|ty| Tensor::zeros(ty.dtype, ty.shape.clone()));
        let mut results = results.collect::<Result<Vec<Tensor>, ModelError>>()?;
        let mut lent: Vec<Option<TensorViewMut<'_>>> = results
            .iter_mut()
            .map(|tensor| Some(TensorViewMut::from(tensor)))
            .collect();
        self.operator().run(&operands, &mut lent)?;
        drop(lent);
        Ok(results)
    }
}

impl Evaluate for Custom {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        self.computed(inputs, types)
            .map_err(|source| op_error!("{source}"))
    }

    /// What it takes for itself, only it knows.
    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.reshaped()
    }
}
