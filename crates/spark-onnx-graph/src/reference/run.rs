//! A whole network, node by node.

use std::borrow::Cow;
use std::sync::Arc;

use super::evaluate::{Unevaluated, evaluate_within};
use crate::ModelError;
use crate::budget::{Asker, ModelBudget};
use crate::graph::{
    BodyId, Cast, CastLike, Concat, Gather, If, Loop, MAX_ITERATIONS, Node, Op, Scan, StaticGraph,
    StaticValue, TensorType, Unsqueeze, ValueId, resolve_axis,
};
use crate::tensor::{DType, Tensor, TensorData};

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
    /// Iterations of all loops that may still run.
    iterations_left: usize,
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
            iterations_left: MAX_ITERATIONS,
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
                values.budget.take(asker, tensor.size_bytes())?;
                Ok((name, Tensor::clone(&tensor)))
            })
            .collect()
    }

    fn all_nodes(&self, values: &mut Values) -> Result<(), ModelError> {
        let last_reads = last_reads(self.graph);
        for (index, node) in self.graph.nodes.iter().enumerate() {
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
        match &node.op {
            Op::If(op) => return self.branch(node, *op, &operands, values),
            Op::Loop(op) => return self.repeat(node, *op, &operands, values),
            Op::Scan(op) => return self.scan(node, op, &operands, values),
            _ => {}
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
        let left = values.budget.left();
        evaluate_within(&op, &operands, node.outputs.len(), left)
            .map_err(|error| unevaluated(node, error, &values.budget))
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
            let dtype = self.graph.value(*id).ty.dtype;
            match tensor.dtype() == dtype {
                true => Ok(Some(Tensor::clone(tensor))),
                false => Tensor::from_f64(dtype, tensor.shape(), tensor.to_f64()).map(Some),
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
            (Op::CastLike(CastLike), Some(Some(like))) => {
                Cow::Owned(widened(self.graph.value(*like).ty.dtype))
            }
            (op, _) => Cow::Borrowed(op),
        }
    }
}

/// Control flow: bodies are networks of their own.
impl Interpreter<'_> {
    /// What a body makes of `given`, within what is left of the budget.
    fn body(
        &self,
        node: &Node,
        id: BodyId,
        given: Vec<Arc<Tensor>>,
        values: &mut Values,
    ) -> Result<Vec<Arc<Tensor>>, ModelError> {
        let inner = Interpreter {
            graph: self.graph.body(id),
            wide: self.wide,
        };
        let mut own = Values {
            list: vec![None; inner.graph.values.len()],
            budget: values.budget,
            iterations_left: values.iterations_left,
        };
        for (&id, tensor) in inner.graph.inputs.iter().zip(given) {
            own.set(id, tensor, asker(node, "what its body is given"))?;
        }
        inner.all_nodes(&mut own)?;
        values.iterations_left = own.iterations_left;
        let outputs = inner.graph.outputs.iter();
        outputs
            .map(|&id| inner.value(id, &mut own, asker(node, "what its body makes")))
            .collect()
    }

    fn branch(
        &self,
        node: &Node,
        op: If,
        operands: &[Option<Arc<Tensor>>],
        values: &mut Values,
    ) -> Result<Vec<Tensor>, ModelError> {
        let operands = present(node, operands)?;
        let [condition, captured @ ..] = &operands[..] else {
            return Err(refused(node, "its condition is missing"));
        };
        let taken = match is_true(condition) {
            true => op.then_branch,
            false => op.else_branch,
        };
        let made = self.body(node, taken, captured.to_vec(), values)?;
        Ok(made.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    fn repeat(
        &self,
        node: &Node,
        op: Loop,
        operands: &[Option<Arc<Tensor>>],
        values: &mut Values,
    ) -> Result<Vec<Tensor>, ModelError> {
        let (Some([count, condition]), Some(rest)) = (operands.get(..2), operands.get(2..)) else {
            return Err(refused(node, "its count and condition are missing"));
        };
        let rest = present(node, rest)?;
        let count = count.as_deref().map_or(i64::MAX, first_whole);
        let mut goes_on = condition.as_deref().is_none_or(is_true);
        let (mut carried, captured) = (rest[..op.carried].to_vec(), &rest[op.carried..]);
        let stacked = self.graph.body(op.body).outputs.len() - 1 - op.carried;
        let mut slices: Vec<Vec<Arc<Tensor>>> = vec![Vec::new(); stacked];
        let mut number = 0;
        while goes_on && number < count {
            self.count_iteration(node, values)?;
            let mut given = vec![
                Arc::new(Tensor::from_i64([], vec![number])?),
                Arc::new(Tensor::new(Vec::new(), TensorData::Bool(vec![true]))?),
            ];
            given.extend(carried.iter().chain(captured).cloned());
            let mut made = self.body(node, op.body, given, values)?;
            for (slices, made) in slices.iter_mut().zip(made.drain(1 + op.carried..)) {
                values
                    .budget
                    .take(asker(node, "a slice"), made.size_bytes())?;
                slices.push(made);
            }
            goes_on = is_true(&made[0]);
            carried = made.split_off(1);
            number += 1;
        }
        let axes = vec![0; stacked];
        self.with_stacked(node, carried, slices, &axes, values)
    }

    fn scan(
        &self,
        node: &Node,
        op: &Scan,
        operands: &[Option<Arc<Tensor>>],
        values: &mut Values,
    ) -> Result<Vec<Tensor>, ModelError> {
        let operands = present(node, operands)?;
        let (from, to) = (op.carried, op.carried + op.inputs.len());
        let (mut carried, captured) = (operands[..from].to_vec(), &operands[to..]);
        let mut slices: Vec<Vec<Arc<Tensor>>> = vec![Vec::new(); op.outputs.len()];
        let lengths = op.inputs.iter().zip(&operands[from..to]);
        let lengths = lengths.map(|(axis, whole)| {
            let at = resolve_axis(axis.axis, whole.shape().len());
            at.map_or(0, |at| whole.shape()[at])
        });
        let length = lengths.min().unwrap_or(0);
        for number in 0..length {
            self.count_iteration(node, values)?;
            let mut given = carried.clone();
            for (axis, whole) in op.inputs.iter().zip(&operands[from..to]) {
                let at = match axis.is_reversed {
                    true => length - 1 - number,
                    false => number,
                };
                let at = Tensor::from_i64([], vec![at as i64])?;
                let gather = Op::Gather(Gather { axis: axis.axis });
                given.push(Arc::new(self.evaluated(
                    node,
                    &gather,
                    &[whole, &at],
                    values,
                )?));
            }
            given.extend(captured.iter().cloned());
            let mut made = self.body(node, op.body, given, values)?;
            for (slices, made) in slices.iter_mut().zip(made.drain(from..)) {
                values
                    .budget
                    .take(asker(node, "a slice"), made.size_bytes())?;
                slices.push(made);
            }
            carried = made;
        }
        for (slices, axis) in slices.iter_mut().zip(&op.outputs) {
            if axis.is_reversed {
                slices.reverse();
            }
        }
        let axes: Vec<i64> = op.outputs.iter().map(|output| output.axis).collect();
        self.with_stacked(node, carried, slices, &axes, values)
    }

    /// Carried values, and slices along new axes.
    fn with_stacked(
        &self,
        node: &Node,
        carried: Vec<Arc<Tensor>>,
        slices: Vec<Vec<Arc<Tensor>>>,
        axes: &[i64],
        values: &mut Values,
    ) -> Result<Vec<Tensor>, ModelError> {
        let n_carried = carried.len();
        let mut results: Vec<Tensor> = carried.into_iter().map(Arc::unwrap_or_clone).collect();
        for (index, (slices, &axis)) in slices.into_iter().zip(axes).enumerate() {
            let Some(first) = slices.first() else {
                let id = node.outputs.get(n_carried + index).copied().flatten();
                let ty = id.map(|id| &self.graph.value(id).ty);
                let (dtype, shape) = ty.map_or((DType::F32, vec![0]), |ty| {
                    let is_wide = self.wide && ty.dtype.is_float();
                    let dtype = if is_wide { DType::F64 } else { ty.dtype };
                    (dtype, ty.shape.clone())
                });
                results.push(Tensor::zeros(dtype, shape)?);
                continue;
            };
            let rank = first.shape().len() + 1;
            let at = resolve_axis(axis, rank).map_err(|error| refused(node, &error.reason))?;
            let held = slices.iter().map(|slice| slice.size_bytes());
            let held = held.fold(0, usize::saturating_add);
            let axes = Tensor::from_i64([1], vec![at as i64])?;
            let mut parts = Vec::with_capacity(slices.len());
            for slice in slices {
                let unsqueeze = Op::Unsqueeze(Unsqueeze);
                parts.push(self.evaluated(node, &unsqueeze, &[&slice, &axes], values)?);
            }
            let parts: Vec<&Tensor> = parts.iter().collect();
            let concat = Op::Concat(Concat { axis: at as i64 });
            results.push(self.evaluated(node, &concat, &parts, values)?);
            values.budget.give_back(held);
        }
        Ok(results)
    }

    fn count_iteration(&self, node: &Node, values: &mut Values) -> Result<(), ModelError> {
        match values.iterations_left.checked_sub(1) {
            Some(left) => {
                values.iterations_left = left;
                Ok(())
            }
            None => {
                let reason = format!("more than {MAX_ITERATIONS} iterations in one run");
                Err(refused(node, &reason))
            }
        }
    }

    /// The one result of an operator that a node of control flow stands on.
    fn evaluated(
        &self,
        node: &Node,
        op: &Op,
        operands: &[&Tensor],
        values: &mut Values,
    ) -> Result<Tensor, ModelError> {
        let operands: Vec<Option<&Tensor>> = operands.iter().copied().map(Some).collect();
        let results = evaluate_within(op, &operands, 1, values.budget.left());
        match results {
            Ok(mut results) if results.len() == 1 => Ok(results.remove(0)),
            Ok(_) => Err(refused(node, "it makes no result")),
            Err(error) => Err(unevaluated(node, error, &values.budget)),
        }
    }
}

/// `error` of `node`, with its name.
fn unevaluated(node: &Node, error: Unevaluated, budget: &ModelBudget) -> ModelError {
    match error {
        Unevaluated::Refused(error) => refused(node, &error.reason),
        Unevaluated::Custom(source) => ModelError::Custom {
            node: node.name.clone(),
            op: node.op.name().to_owned(),
            source,
        },
        Unevaluated::Memory { bytes } => {
            let asker = asker(node, "evaluating it");
            let checked = budget.check(asker, bytes);
            checked.err().unwrap_or_else(|| asker.refused(bytes))
        }
    }
}

fn refused(node: &Node, reason: &str) -> ModelError {
    ModelError::Operator {
        node: node.name.clone(),
        op: node.op.name().to_owned(),
        reason: reason.to_owned(),
    }
}

/// Operands none of which is left out.
fn present(node: &Node, operands: &[Option<Arc<Tensor>>]) -> Result<Vec<Arc<Tensor>>, ModelError> {
    let all: Option<Vec<Arc<Tensor>>> = operands.iter().cloned().collect();
    all.ok_or_else(|| refused(node, "an operand is missing"))
}

/// The one element of a condition, which binding has found to be one boolean.
fn is_true(condition: &Tensor) -> bool {
    matches!(condition.data(), TensorData::Bool(values) if values.first() == Some(&true))
}

/// The one element of a count, which binding has found to be one i64.
fn first_whole(count: &Tensor) -> i64 {
    match count.data() {
        TensorData::I64(values) => values.first().copied().unwrap_or(0),
        _ => 0,
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
