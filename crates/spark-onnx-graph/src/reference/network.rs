//! What a run reads of a network: of one that is bound, or of one as it is.
//!
//! ```text
//! StaticGraph   types are known before the run
//! Graph         types are those of the tensors that a run makes
//! ```

use std::sync::Arc;

use crate::ModelError;
use crate::graph::{
    BodyId, Dim, Graph, Node, StaticGraph, TensorType, ValueId, bind_within, resolve_axis,
};
use crate::tensor::{DType, Tensor};

/// What binding the body of a loop may take to find the type of slices that there are none of.
const TYPING_BYTES: usize = 16 << 20;

/// A network that can be run, its bodies checked.
pub(super) trait Network {
    fn nodes(&self) -> &[Node];
    fn inputs(&self) -> &[ValueId];
    fn outputs(&self) -> &[ValueId];
    fn n_values(&self) -> usize;
    fn name_of(&self, id: ValueId) -> &str;
    fn constant(&self, id: ValueId) -> Option<&Arc<Tensor>>;

    /// The element type of a value, where it is known before the run.
    fn dtype_of(&self, id: ValueId) -> Option<DType>;

    fn body(&self, id: BodyId) -> &Self;

    /// The type of what `node` stacks of no slices.
    ///
    /// # Errors
    ///
    /// Why nobody can tell.
    fn no_slices(&self, node: &Node, stacked: Stacked<'_>) -> Result<TensorType, ModelError>;
}

/// A stacked result: which of the node's, which of the body's, along which axis, and what the body would be given.
pub(super) struct Stacked<'t> {
    pub(super) result: usize,
    pub(super) body: BodyId,
    pub(super) output: usize,
    pub(super) axis: i64,
    pub(super) given: &'t [TensorType],
}

impl Network for StaticGraph {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    fn n_values(&self) -> usize {
        self.values.len()
    }

    fn name_of(&self, id: ValueId) -> &str {
        &self.value(id).name
    }

    fn constant(&self, id: ValueId) -> Option<&Arc<Tensor>> {
        self.value(id).constant.as_ref()
    }

    fn dtype_of(&self, id: ValueId) -> Option<DType> {
        Some(self.value(id).ty.dtype)
    }

    fn body(&self, id: BodyId) -> &Self {
        StaticGraph::body(self, id)
    }

    fn no_slices(&self, node: &Node, stacked: Stacked<'_>) -> Result<TensorType, ModelError> {
        let id = node.outputs.get(stacked.result).copied().flatten();
        // Nobody reads a result without a name.
        Ok(id.map_or_else(nothing, |id| self.value(id).ty.clone()))
    }
}

impl Network for Graph {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    fn n_values(&self) -> usize {
        self.values.len()
    }

    fn name_of(&self, id: ValueId) -> &str {
        &self.value(id).name
    }

    fn constant(&self, id: ValueId) -> Option<&Arc<Tensor>> {
        self.value(id).constant.as_ref()
    }

    fn dtype_of(&self, id: ValueId) -> Option<DType> {
        self.value(id).dtype
    }

    fn body(&self, id: BodyId) -> &Self {
        &self.bodies[id.0]
    }

    /// As the body makes it of what it would be given; where that follows from values only, as it is declared, and extents
    /// that are not declared are 0.
    fn no_slices(&self, node: &Node, stacked: Stacked<'_>) -> Result<TensorType, ModelError> {
        if node
            .outputs
            .get(stacked.result)
            .copied()
            .flatten()
            .is_none()
        {
            return Ok(nothing());
        }
        let mut body = self.body(stacked.body).clone();
        for (&id, ty) in body.inputs.iter().zip(stacked.given) {
            let value = &mut body.values[id.0];
            value.dtype = Some(ty.dtype);
            value.shape = Some(ty.shape.iter().map(|&extent| Dim::Known(extent)).collect());
        }
        let slice = body.outputs[stacked.output];
        let TensorType { dtype, mut shape } = match bind_within(&body, &[], TYPING_BYTES) {
            Ok(bound) => bound.value(slice).ty.clone(),
            Err(error) => {
                let value = body.value(slice);
                let extent = |dim: &Dim| match dim {
                    Dim::Known(extent) => *extent,
                    Dim::Symbol(_) | Dim::Unknown => 0,
                };
                let shape = value.shape.as_deref().unwrap_or_default();
                TensorType {
                    dtype: value.dtype.ok_or(error)?,
                    shape: shape.iter().map(extent).collect(),
                }
            }
        };
        let at = resolve_axis(stacked.axis, shape.len() + 1);
        let at = at.map_err(|error| ModelError::Operator {
            node: node.name.clone(),
            op: node.op.name().to_owned(),
            reason: error.reason,
        })?;
        shape.insert(at, 0);
        Ok(TensorType { dtype, shape })
    }
}

fn nothing() -> TensorType {
    TensorType {
        dtype: DType::F32,
        shape: vec![0],
    }
}
