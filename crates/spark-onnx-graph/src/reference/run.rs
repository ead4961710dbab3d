//! A whole network, node by node.

use std::borrow::Cow;
use std::sync::Arc;

use super::evaluate::{Unevaluated, evaluate_within};
use crate::ModelError;
use crate::budget::{Asker, ModelBudget};
use crate::graph::{Cast, CastLike, Node, Op, StaticGraph, StaticValue, TensorType, ValueId};
use crate::tensor::{DType, Tensor};

/// The outputs of `graph` with their names, every value rounded to its type.
///
/// # Errors
///
/// [`ModelError::InputMissing`], [`ModelError::InputUnknown`],
/// [`ModelError::InputType`] or [`ModelError::InputShape`] where `inputs` does not fit
/// the graph; [`ModelError::InputValue`] where it was bound for other elements of an input; [`ModelError::Operator`] where [`evaluate`](super::evaluate) refuses a node;
/// [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`] if a node and the values held beside
/// it take more than the graph's budget or the system has.
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

/// What is known so far, and what it takes.
struct Values {
    list: Vec<Option<Arc<Tensor>>>,
    budget: ModelBudget,
}

impl Values {
    fn set(
        &mut self,
        ValueId(id): ValueId,
        tensor: Arc<Tensor>,
        asker: Asker<'_>,
    ) -> Result<(), ModelError> {
        self.budget.take(asker, tensor.size_bytes())?;
        self.list[id] = Some(tensor);
        Ok(())
    }

    fn drop_value(&mut self, ValueId(id): ValueId) {
        if let Some(tensor) = self.list[id].take() {
            self.budget.give_back(tensor.size_bytes());
        }
    }
}

fn asker<'n>(node: &'n Node, what: &'static str) -> Asker<'n> {
    Asker {
        node: &node.name,
        op: node.op.name(),
        what,
    }
}

struct Interpreter<'g> {
    graph: &'g StaticGraph,
    wide: bool,
}

impl Interpreter<'_> {
    fn run(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, ModelError> {
        let graph = self.graph;
        let mut values = Values {
            list: vec![None; graph.values.len()],
            budget: ModelBudget::new(graph.budget_bytes),
        };
        for (name, _) in inputs {
            if !graph.inputs.iter().any(|&id| graph.value(id).name == *name) {
                return Err(ModelError::InputUnknown {
                    name: (*name).to_owned(),
                });
            }
        }
        for &id in &graph.inputs {
            let tensor = check_input(graph.value(id), inputs)?;
            let mut fixed = graph.fixed_inputs.iter();
            if fixed.any(|(of, want)| *of == id && !want.is_bitwise(tensor)) {
                return Err(ModelError::InputValue {
                    name: graph.value(id).name.clone(),
                });
            }
            let asker = Asker {
                node: &graph.value(id).name,
                op: "input",
                what: "the value",
            };
            values.budget.check(asker, self.carried_bytes(tensor))?;
            values.set(id, self.carried(Cow::Borrowed(tensor))?, asker)?;
        }
        let last_reads = last_reads(graph);
        for (index, node) in graph.nodes.iter().enumerate() {
            let results = self.node(node, &mut values)?;
            for (id, tensor) in node.outputs.iter().zip(results) {
                if let Some(id) = id {
                    let tensor = self.carried(Cow::Owned(tensor))?;
                    values.set(*id, tensor, asker(node, "the result"))?;
                }
            }
            for &id in node.inputs.iter().chain(&node.outputs).flatten() {
                if last_reads[id.0] <= index {
                    values.drop_value(id);
                }
            }
        }
        graph
            .outputs
            .iter()
            .map(|&id| {
                let name = graph.value(id).name.clone();
                let asker = Asker {
                    node: &name,
                    op: "output",
                    what: "the value",
                };
                let tensor = self.value(id, &mut values, asker)?;
                values.budget.take(asker, tensor.size_bytes())?;
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

    /// Bytes of a value as this run carries it.
    fn carried_bytes(&self, tensor: &Tensor) -> usize {
        match self.wide && tensor.dtype().is_float() {
            true => tensor.len().saturating_mul(DType::F64.size_bytes()),
            false => tensor.size_bytes(),
        }
    }

    /// A value that an input, an earlier node or a constant provides.
    fn value(
        &self,
        id: ValueId,
        values: &mut Values,
        asker: Asker<'_>,
    ) -> Result<Arc<Tensor>, ModelError> {
        if let Some(tensor) = &values.list[id.0] {
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
            true => {
                values.budget.check(asker, self.carried_bytes(constant))?;
                self.carried(Cow::Borrowed(constant.as_ref()))?
            }
            false => Arc::clone(constant),
        };
        values.set(id, Arc::clone(&carried), asker)?;
        Ok(carried)
    }

    fn node(&self, node: &Node, values: &mut Values) -> Result<Vec<Tensor>, ModelError> {
        let operands = node
            .inputs
            .iter()
            .map(|id| {
                id.map(|id| self.value(id, values, asker(node, "an operand")))
                    .transpose()
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut operands: Vec<Option<&Tensor>> = operands.iter().map(Option::as_deref).collect();
        let op = if self.wide {
            self.wide_op(node)
        } else {
            Cow::Borrowed(&node.op)
        };
        if matches!(*op, Op::Cast(_)) {
            operands.truncate(1);
        }
        let left = values.budget.left();
        evaluate_within(&op, &operands, node.outputs.len(), left).map_err(|error| match error {
            Unevaluated::Refused(error) => ModelError::Operator {
                node: node.name.clone(),
                op: node.op.name().to_owned(),
                reason: error.reason,
            },
            Unevaluated::Memory { bytes } => {
                let asker = asker(node, "evaluating it");
                let checked = values.budget.check(asker, bytes);
                checked.err().unwrap_or_else(|| asker.refused(bytes))
            }
        })
    }

    /// What a node does where floats are f64: casts to f32 keep all digits, and a
    /// cast to another operand's type goes to the type that operand stands for.
    fn wide_op<'n>(&self, node: &'n Node) -> Cow<'n, Op> {
        let widened = |to| {
            Op::Cast(Cast {
                to: if to == DType::F32 { DType::F64 } else { to },
            })
        };
        match (&node.op, node.inputs.get(1)) {
            (Op::Cast(Cast { to }), _) => Cow::Owned(widened(*to)),
            (Op::CastLike(CastLike), Some(Some(like))) => {
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
