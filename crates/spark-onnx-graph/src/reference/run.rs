//! A whole network, node by node.
//!
//! Deliberately absent: what nodes of control flow do (`bodies`), and runs that somebody else steps through (`unbound`).

use std::borrow::Cow;
use std::sync::Arc;

use super::evaluate::evaluate_for;
use super::host::Host;
use super::network::Network;
use crate::ModelError;
use crate::budget::{Asker, ModelBudget};
use crate::graph::{
    Cast, CastLike, MAX_ITERATIONS, Node, Op, StaticGraph, StaticValue, TensorType, ValueId,
};
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

/// What is known so far, in memory of a host, which gets it back in the end.
pub(super) struct Values<'h> {
    list: Vec<Option<Held>>,
    pub(super) host: &'h mut dyn Host,
    /// Iterations of all loops that may still run.
    pub(super) iterations_left: usize,
}

/// A value, and how many bytes of the host's it is in.
struct Held {
    tensor: Arc<Tensor>,
    bytes: usize,
}

impl<'h> Values<'h> {
    pub(super) fn new(n_values: usize, iterations_left: usize, host: &'h mut dyn Host) -> Self {
        Self {
            list: std::iter::repeat_with(|| None).take(n_values).collect(),
            host,
            iterations_left,
        }
    }

    pub(super) fn get(&self, ValueId(id): ValueId) -> Option<&Arc<Tensor>> {
        self.list[id].as_ref().map(|held| &held.tensor)
    }

    pub(super) fn set(
        &mut self,
        ValueId(id): ValueId,
        tensor: Arc<Tensor>,
        asker: Asker<'_>,
    ) -> Result<(), ModelError> {
        let bytes = tensor.size_bytes();
        self.host.take(asker, bytes)?;
        self.list[id] = Some(Held { tensor, bytes });
        Ok(())
    }

    /// Sets a value that is somebody else's.
    pub(super) fn lend(&mut self, ValueId(id): ValueId, tensor: Arc<Tensor>) {
        self.list[id] = Some(Held { tensor, bytes: 0 });
    }

    /// The value, which stays in the host's memory, and in how much of it.
    pub(super) fn take(&mut self, ValueId(id): ValueId) -> Option<(Arc<Tensor>, usize)> {
        let Held { tensor, bytes } = self.list[id].take()?;
        Some((tensor, bytes))
    }

    pub(super) fn drop_value(&mut self, ValueId(id): ValueId) {
        if let Some(held) = self.list[id].take() {
            self.host.give_back(held.bytes);
        }
    }
}

impl Drop for Values<'_> {
    fn drop(&mut self) {
        let held = self.list.iter().flatten().map(|held| held.bytes);
        self.host.give_back(held.fold(0, usize::saturating_add));
    }
}

pub(super) fn asker<'n>(node: &'n Node, what: &'static str) -> Asker<'n> {
    Asker {
        node: &node.name,
        op: node.op.name(),
        what,
    }
}

pub(super) struct Interpreter<'g, N> {
    pub(super) graph: &'g N,
    pub(super) wide: bool,
}

impl Interpreter<'_, StaticGraph> {
    fn run(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, ModelError> {
        let graph = self.graph;
        let mut budget = ModelBudget::new(graph.budget_bytes);
        let mut values = Values::new(graph.values.len(), MAX_ITERATIONS, &mut budget);
        self.set_inputs(inputs, &mut values)?;
        self.all_nodes(&mut values)?;
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
                values.host.take(asker, tensor.size_bytes())?;
                Ok((name, Tensor::clone(&tensor)))
            })
            .collect()
    }

    /// Checks the inputs, and sets their values.
    pub(super) fn set_inputs(
        &self,
        inputs: &[(&str, &Tensor)],
        values: &mut Values<'_>,
    ) -> Result<(), ModelError> {
        let graph = self.graph;
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
            // Before the copy is made.
            values.host.take(asker, self.carried_bytes(tensor))?;
            values.host.give_back(self.carried_bytes(tensor));
            values.set(id, self.carried(Cow::Borrowed(tensor))?, asker)?;
        }
        Ok(())
    }
}

impl<N: Network> Interpreter<'_, N> {
    pub(super) fn all_nodes(&self, values: &mut Values<'_>) -> Result<(), ModelError> {
        let last_reads = last_reads(self.graph);
        for index in 0..self.graph.nodes().len() {
            self.step(index, &last_reads, values)?;
        }
        Ok(())
    }

    /// Runs node `index`, and drops what nothing reads any more.
    pub(super) fn step(
        &self,
        index: usize,
        last_reads: &[usize],
        values: &mut Values<'_>,
    ) -> Result<(), ModelError> {
        let node = &self.graph.nodes()[index];
        values.host.go_on()?;
        let results = self.node(node, values)?;
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
        Ok(())
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
    pub(super) fn value(
        &self,
        id: ValueId,
        values: &mut Values<'_>,
        asker: Asker<'_>,
    ) -> Result<Arc<Tensor>, ModelError> {
        if let Some(tensor) = values.get(id) {
            return Ok(Arc::clone(tensor));
        }
        let constant = self.graph.constant(id);
        let constant = constant.ok_or_else(|| ModelError::InputMissing {
            name: self.graph.name_of(id).to_owned(),
        })?;
        let carried = match self.wide {
            true => {
                values.host.take(asker, self.carried_bytes(constant))?;
                values.host.give_back(self.carried_bytes(constant));
                self.carried(Cow::Borrowed(constant.as_ref()))?
            }
            false => Arc::clone(constant),
        };
        values.set(id, Arc::clone(&carried), asker)?;
        Ok(carried)
    }

    fn node(&self, node: &Node, values: &mut Values<'_>) -> Result<Vec<Tensor>, ModelError> {
        let operands = node
            .inputs
            .iter()
            .map(|id| {
                id.map(|id| self.value(id, values, asker(node, "an operand")))
                    .transpose()
            })
            .collect::<Result<Vec<_>, _>>()?;
        if node.op.is_control_flow() {
            return self.control(node, &operands, values);
        }
        let mut operands: Vec<Option<&Tensor>> = operands.iter().map(Option::as_deref).collect();
        let op = if self.wide {
            self.wide_op(node)
        } else {
            Cow::Borrowed(&node.op)
        };
        if matches!(*op, Op::Cast(_)) {
            operands.truncate(1);
        }
        let narrowed = self.narrowed(node, &operands)?;
        let operands: Vec<Option<&Tensor>> = match &narrowed {
            Some(narrowed) => narrowed.iter().map(Option::as_ref).collect(),
            None => operands,
        };
        let asker = asker(node, "evaluating it");
        evaluate_for(values.host, asker, &op, &operands, node.outputs.len())
    }

    /// The operands of an embedder's own operator in their types, where this run carries wider ones.
    fn narrowed(
        &self,
        node: &Node,
        operands: &[Option<&Tensor>],
    ) -> Result<Option<Vec<Option<Tensor>>>, ModelError> {
        if !self.wide || !matches!(node.op, Op::Custom(_)) {
            return Ok(None);
        }
        let operands = node.inputs.iter().zip(operands);
        let operands = operands.map(|(id, tensor)| {
            let (Some(id), Some(tensor)) = (id, tensor) else {
                return Ok(None);
            };
            match self.graph.dtype_of(*id) {
                Some(dtype) if dtype != tensor.dtype() => {
                    Tensor::from_f64(dtype, tensor.shape(), tensor.to_f64()).map(Some)
                }
                _ => Ok(Some(Tensor::clone(tensor))),
            }
        });
        operands.collect::<Result<_, _>>().map(Some)
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
            (Op::CastLike(CastLike), Some(Some(like))) => match self.graph.dtype_of(*like) {
                Some(dtype) => Cow::Owned(widened(dtype)),
                None => Cow::Borrowed(&node.op),
            },
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
pub(super) fn last_reads(graph: &impl Network) -> Vec<usize> {
    let mut last = vec![0; graph.n_values()];
    for (index, node) in graph.nodes().iter().enumerate() {
        for ValueId(id) in node.inputs.iter().flatten() {
            last[*id] = index;
        }
    }
    for ValueId(id) in graph.outputs() {
        last[*id] = usize::MAX;
    }
    last
}
