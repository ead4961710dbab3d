//! What a plan is for: the shapes of all inputs, and the elements of those that decide shapes.
//!
//! ```text
//! x [1, 3, 8, 8], sizes [2] = (16, 16)   one plan
//! x [1, 3, 8, 8], sizes [2] = (32, 32)   another
//! ```
//!
//! Deliberately absent: which inputs decide, which the graph says
//! ([`deciding_inputs`](crate::graph::deciding_inputs)).

use std::sync::Arc;

use crate::graph::MAX_DECIDING_ELEMENTS;
use crate::tensor_view::TensorView;
use crate::{ModelError, Tensor};

/// What a plan is for.
#[derive(Debug, Clone)]
pub(crate) struct PlanKey {
    /// By input of the model.
    pub(crate) shapes: Vec<Vec<usize>>,
    /// Elements of inputs that decide, with the numbers of the inputs, in ascending order.
    pub(crate) values: Vec<(usize, Arc<Tensor>)>,
}

impl PlanKey {
    /// Where no elements matter.
    pub(crate) fn of_shapes(shapes: Vec<Vec<usize>>) -> Self {
        Self {
            shapes,
            values: Vec::new(),
        }
    }

    /// Of `n_inputs` inputs, of which those in `deciding` decide.
    ///
    /// # Errors
    ///
    /// As [`TensorView::to_tensor`].
    pub(crate) fn of_inputs<'t>(
        n_inputs: usize,
        deciding: &[usize],
        input: impl Fn(usize) -> Option<TensorView<'t>>,
    ) -> Result<Self, ModelError> {
        let shapes = (0..n_inputs).filter_map(|number| Some(input(number)?.shape().to_vec()));
        let mut key = Self::of_shapes(shapes.collect());
        for &number in deciding {
            if let Some(view) = input(number).filter(|view| may_decide(view.shape())) {
                key.values.push((number, Arc::new(view.to_tensor()?)));
            }
        }
        Ok(key)
    }

    /// Whether it is the key of these inputs; takes no memory.
    pub(crate) fn is_of_inputs<'t>(&self, input: impl Fn(usize) -> Option<TensorView<'t>>) -> bool {
        let mut shapes = self.shapes.iter().enumerate();
        let mut values = self.values.iter();
        shapes.all(|(number, shape)| input(number).is_some_and(|view| view.shape() == &shape[..]))
            && values
                .all(|(number, tensor)| input(*number).is_some_and(|view| view.is_bitwise(tensor)))
    }
}

impl PartialEq for PlanKey {
    /// Elements are compared bit by bit.
    fn eq(&self, other: &Self) -> bool {
        let pairs = || self.values.iter().zip(&other.values);
        self.shapes == other.shapes
            && self.values.len() == other.values.len()
            && pairs().all(|((a, x), (b, y))| a == b && x.is_bitwise(y))
    }
}

/// Whether the elements of an input of this shape are few enough to plan by.
pub(crate) fn may_decide(shape: &[usize]) -> bool {
    shape.len() <= 1 && shape.iter().all(|&extent| extent <= MAX_DECIDING_ELEMENTS)
}
