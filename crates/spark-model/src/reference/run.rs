//! A whole network, node by node.

use std::borrow::Cow;
use std::sync::Arc;

use super::evaluate;
use crate::ModelError;
use crate::graph::{Node, Op, StaticGraph, StaticValue, TensorType, ValueId};
use crate::tensor::{DType, Tensor};

/// The outputs of `graph` with their names, every value rounded to its type.
///
/// # Errors
///
/// [`ModelError::InputMissing`], [`ModelError::InputUnknown`],
/// [`ModelError::InputType`] or [`ModelError::InputShape`] where `inputs` does not fit
/// the graph; [`ModelError::Operator`] where [`evaluate`] refuses a node.
pub fn run(
    graph: &StaticGraph,
    inputs: &[(&str, &Tensor)],
) -> Result<Vec<(String, Tensor)>, ModelError> {
    Interpreter { graph, wide: false }.run(inputs)
}

/// As [`run`], but every float value, constants and inputs included, is carried as
/// f64 and not rounded to its type; a cast to f16 or bf16 still rounds to it.
///
/// The outputs are f64 where the graph says they are floats. They show what the
/// network computes without the error of its own arithmetic.
///
/// # Errors
///
/// As [`run`].
pub fn run_wide(
    graph: &StaticGraph,
    inputs: &[(&str, &Tensor)],
) -> Result<Vec<(String, Tensor)>, ModelError> {
    Interpreter { graph, wide: true }.run(inputs)
}

struct Interpreter<'g> {
    graph: &'g StaticGraph,
    wide: bool,
}

impl Interpreter<'_> {
    fn run(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, ModelError> {
        let graph = self.graph;
        let mut values: Vec<Option<Arc<Tensor>>> = vec![None; graph.values.len()];
        for (name, _) in inputs {
            if !graph.inputs.iter().any(|&id| graph.value(id).name == *name) {
                return Err(ModelError::InputUnknown {
                    name: (*name).to_owned(),
                });
            }
        }
        for &id in &graph.inputs {
            let tensor = check_input(graph.value(id), inputs)?;
            values[id.0] = Some(self.carried(Cow::Borrowed(tensor))?);
        }
        let last_reads = last_reads(graph);
        for (index, node) in graph.nodes.iter().enumerate() {
            let results = self.node(node, &mut values)?;
            for (id, tensor) in node.outputs.iter().zip(results) {
                if let Some(ValueId(id)) = id {
                    values[*id] = Some(self.carried(Cow::Owned(tensor))?);
                }
            }
            for ValueId(id) in node.inputs.iter().chain(&node.outputs).flatten() {
                if last_reads[*id] <= index {
                    values[*id] = None;
                }
            }
        }
        graph
            .outputs
            .iter()
            .map(|&id| {
                let name = graph.value(id).name.clone();
                let tensor = self.value(id, &mut values)?;
                Ok((name, Tensor::clone(&tensor)))
            })
            .collect()
    }

    /// The value as this run carries it: floats as f64 in a wide one.
    fn carried(&self, tensor: Cow<'_, Tensor>) -> Result<Arc<Tensor>, ModelError> {
        if !self.wide || !tensor.dtype().is_float() || tensor.dtype() == DType::F64 {
            return Ok(Arc::new(tensor.into_owned()));
        }
        Tensor::from_f64(DType::F64, tensor.shape(), tensor.to_f64()).map(Arc::new)
    }

    /// A value that an input, an earlier node or a constant provides.
    fn value(
        &self,
        id: ValueId,
        values: &mut [Option<Arc<Tensor>>],
    ) -> Result<Arc<Tensor>, ModelError> {
        if let Some(tensor) = &values[id.0] {
            return Ok(Arc::clone(tensor));
        }
        let value = self.graph.value(id);
        let constant = value
            .constant
            .as_ref()
            .ok_or_else(|| ModelError::InputMissing {
                name: value.name.clone(),
            })?;
        let carried = match self.wide {
            true => self.carried(Cow::Borrowed(constant.as_ref()))?,
            false => Arc::clone(constant),
        };
        values[id.0] = Some(Arc::clone(&carried));
        Ok(carried)
    }

    fn node(
        &self,
        node: &Node,
        values: &mut [Option<Arc<Tensor>>],
    ) -> Result<Vec<Tensor>, ModelError> {
        let operands = node
            .inputs
            .iter()
            .map(|id| id.map(|id| self.value(id, values)).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let mut operands: Vec<Option<&Tensor>> = operands.iter().map(Option::as_deref).collect();
        let op = if self.wide {
            self.wide_op(node)
        } else {
            Cow::Borrowed(&node.op)
        };
        if matches!(*op, Op::Cast { .. }) {
            operands.truncate(1);
        }
        evaluate(&op, &operands, node.outputs.len()).map_err(|error| ModelError::Operator {
            node: node.name.clone(),
            op: node.op.name().to_owned(),
            reason: error.reason,
        })
    }

    /// What a node does where floats are f64: casts to f32 keep all digits, and a
    /// cast to another operand's type goes to the type that operand stands for.
    fn wide_op<'n>(&self, node: &'n Node) -> Cow<'n, Op> {
        let widened = |to| Op::Cast {
            to: if to == DType::F32 { DType::F64 } else { to },
        };
        match (&node.op, node.inputs.get(1)) {
            (Op::Cast { to }, _) => Cow::Owned(widened(*to)),
            (Op::CastLike, Some(Some(like))) => {
                Cow::Owned(widened(self.graph.value(*like).ty.dtype))
            }
            (op, _) => Cow::Borrowed(op),
        }
    }
}

fn check_input<'t>(
    value: &StaticValue,
    inputs: &[(&str, &'t Tensor)],
) -> Result<&'t Tensor, ModelError> {
    let TensorType { dtype, shape } = &value.ty;
    let (_, tensor) = inputs
        .iter()
        .find(|(name, _)| *name == value.name)
        .ok_or_else(|| ModelError::InputMissing {
            name: value.name.clone(),
        })?;
    if tensor.dtype() != *dtype {
        return Err(ModelError::InputType {
            name: value.name.clone(),
            got: tensor.dtype(),
            want: *dtype,
        });
    }
    if tensor.shape() != shape {
        return Err(ModelError::InputShape {
            name: value.name.clone(),
            got: tensor.shape().to_vec(),
            want: format!("{shape:?}"),
        });
    }
    Ok(tensor)
}

/// The last node that reads each value; beyond all nodes for outputs.
fn last_reads(graph: &StaticGraph) -> Vec<usize> {
    let mut last = vec![0; graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        for ValueId(id) in node.inputs.iter().flatten() {
            last[*id] = index;
        }
    }
    for ValueId(id) in &graph.outputs {
        last[*id] = usize::MAX;
    }
    last
}
