//! Control flow: bodies are networks of their own, run in the host's memory and counted with the rest.

use std::sync::Arc;

use super::evaluate::evaluate_for;
use super::network::{Network, Stacked};
use super::run::{Interpreter, Values, asker};
use crate::ModelError;
use crate::graph::{
    BodyId, Concat, Gather, If, Loop, MAX_ITERATIONS, Node, Op, Scan, TensorType, Unsqueeze,
    resolve_axis,
};
use crate::tensor::{DType, Tensor, TensorData};

impl<N: Network> Interpreter<'_, N> {
    pub(super) fn control(
        &self,
        node: &Node,
        operands: &[Option<Arc<Tensor>>],
        values: &mut Values<'_>,
    ) -> Result<Vec<Tensor>, ModelError> {
        match &node.op {
            Op::If(op) => self.branch(node, *op, operands, values),
            Op::Loop(op) => self.repeat(node, *op, operands, values),
            Op::Scan(op) => self.scan(node, op, operands, values),
            _ => Err(refused(node, "it is no control flow")),
        }
    }

    /// What a body makes of `given`.
    fn body(
        &self,
        node: &Node,
        id: BodyId,
        given: Vec<Arc<Tensor>>,
        values: &mut Values<'_>,
    ) -> Result<Vec<Arc<Tensor>>, ModelError> {
        let inner = Interpreter {
            graph: self.graph.body(id),
            wide: self.wide,
        };
        let n_values = inner.graph.n_values();
        let mut own = Values::new(n_values, values.iterations_left, &mut *values.host);
        for (&id, tensor) in inner.graph.inputs().iter().zip(given) {
            own.set(id, tensor, asker(node, "what its body is given"))?;
        }
        inner.all_nodes(&mut own)?;
        let outputs = inner.graph.outputs().iter();
        let made = outputs
            .map(|&id| inner.value(id, &mut own, asker(node, "what its body makes")))
            .collect();
        let iterations_left = own.iterations_left;
        drop(own);
        values.iterations_left = iterations_left;
        made
    }

    fn branch(
        &self,
        node: &Node,
        op: If,
        operands: &[Option<Arc<Tensor>>],
        values: &mut Values<'_>,
    ) -> Result<Vec<Tensor>, ModelError> {
        let operands = present(node, operands)?;
        let [condition, captured @ ..] = &operands[..] else {
            return Err(refused(node, "its condition is missing"));
        };
        let taken = match truth(node, condition)? {
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
        values: &mut Values<'_>,
    ) -> Result<Vec<Tensor>, ModelError> {
        let (Some([count, condition]), Some(rest)) = (operands.get(..2), operands.get(2..)) else {
            return Err(refused(node, "its count and condition are missing"));
        };
        let rest = present(node, rest)?;
        let count = match count {
            Some(count) => whole(node, count)?,
            None => i64::MAX,
        };
        let mut goes_on = match condition {
            Some(condition) => truth(node, condition)?,
            None => true,
        };
        let (mut carried, captured) = (rest[..op.carried].to_vec(), &rest[op.carried..]);
        let stacked = self.graph.body(op.body).outputs().len() - 1 - op.carried;
        let mut slices: Vec<Vec<Arc<Tensor>>> = vec![Vec::new(); stacked];
        let mut number = 0;
        let of_body = |number: i64, carried: &[Arc<Tensor>]| {
            let number = Tensor::from_i64([], vec![number])?;
            let goes_on = Tensor::new(Vec::new(), TensorData::Bool(vec![true]))?;
            let mut given = vec![Arc::new(number), Arc::new(goes_on)];
            given.extend(carried.iter().chain(captured).cloned());
            Ok::<_, ModelError>(given)
        };
        while goes_on && number < count {
            self.count_iteration(node, values)?;
            let mut made = self.body(node, op.body, of_body(number, &carried)?, values)?;
            for (slices, made) in slices.iter_mut().zip(made.drain(1 + op.carried..)) {
                let asker = asker(node, "a slice");
                values.host.take(asker, made.size_bytes())?;
                slices.push(made);
            }
            goes_on = truth(node, &made[0])?;
            carried = made.split_off(1);
            number += 1;
        }
        let axes = vec![0; stacked];
        let given = of_body(0, &carried)?.iter().map(|t| type_of(t)).collect();
        let stacks = Stacks {
            body: op.body,
            first: 1 + op.carried,
            axes: &axes,
            given,
        };
        self.with_stacked(node, carried, slices, &stacks, values)
    }

    fn scan(
        &self,
        node: &Node,
        op: &Scan,
        operands: &[Option<Arc<Tensor>>],
        values: &mut Values<'_>,
    ) -> Result<Vec<Tensor>, ModelError> {
        let operands = present(node, operands)?;
        let (from, to) = (op.carried, op.carried + op.inputs.len());
        let (mut carried, captured) = (operands[..from].to_vec(), &operands[to..]);
        let scanned = &operands[from..to];
        let mut slices: Vec<Vec<Arc<Tensor>>> = vec![Vec::new(); op.outputs.len()];
        let mut length = None;
        let mut of_slices = Vec::with_capacity(scanned.len());
        for (axis, whole) in op.inputs.iter().zip(scanned) {
            let mut ty = type_of(whole);
            let at = resolve_axis(axis.axis, ty.shape.len());
            let extent = ty
                .shape
                .remove(at.map_err(|error| refused(node, &error.reason))?);
            if *length.get_or_insert(extent) != extent {
                let reason = "its operands have different numbers of slices";
                return Err(refused(node, reason));
            }
            of_slices.push(ty);
        }
        let length = length.unwrap_or(0);
        for number in 0..length {
            self.count_iteration(node, values)?;
            let mut given = carried.clone();
            for (axis, whole) in op.inputs.iter().zip(scanned) {
                let at = match axis.is_reversed {
                    true => length - 1 - number,
                    false => number,
                };
                let at = Tensor::from_i64([], vec![at as i64])?;
                let gather = Op::Gather(Gather { axis: axis.axis });
                let slice = self.evaluated(node, &gather, &[whole, &at], values)?;
                given.push(Arc::new(slice));
            }
            given.extend(captured.iter().cloned());
            let mut made = self.body(node, op.body, given, values)?;
            for (slices, made) in slices.iter_mut().zip(made.drain(from..)) {
                let asker = asker(node, "a slice");
                values.host.take(asker, made.size_bytes())?;
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
        let types = |tensors: &[Arc<Tensor>]| -> Vec<TensorType> {
            tensors.iter().map(|tensor| type_of(tensor)).collect()
        };
        let stacks = Stacks {
            body: op.body,
            first: from,
            axes: &axes,
            given: [types(&carried), of_slices, types(captured)].concat(),
        };
        self.with_stacked(node, carried, slices, &stacks, values)
    }

    /// Carried values, and slices along new axes.
    fn with_stacked(
        &self,
        node: &Node,
        carried: Vec<Arc<Tensor>>,
        slices: Vec<Vec<Arc<Tensor>>>,
        stacks: &Stacks<'_>,
        values: &mut Values<'_>,
    ) -> Result<Vec<Tensor>, ModelError> {
        let n_carried = carried.len();
        let mut results: Vec<Tensor> = carried.into_iter().map(Arc::unwrap_or_clone).collect();
        for (index, (slices, &axis)) in slices.into_iter().zip(stacks.axes).enumerate() {
            let Some(first) = slices.first() else {
                let stacked = Stacked {
                    result: n_carried + index,
                    body: stacks.body,
                    output: stacks.first + index,
                    axis,
                    given: &stacks.given,
                };
                let TensorType { dtype, shape } = self.graph.no_slices(node, stacked)?;
                let is_wide = self.wide && dtype.is_float();
                let dtype = if is_wide { DType::F64 } else { dtype };
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
            values.host.give_back(held);
        }
        Ok(results)
    }

    fn count_iteration(&self, node: &Node, values: &mut Values<'_>) -> Result<(), ModelError> {
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
        values: &mut Values<'_>,
    ) -> Result<Tensor, ModelError> {
        let operands: Vec<Option<&Tensor>> = operands.iter().copied().map(Some).collect();
        let asker = asker(node, "evaluating it");
        let mut results = evaluate_for(values.host, asker, op, &operands, 1)?;
        match results.len() {
            1 => Ok(results.remove(0)),
            _ => Err(refused(node, "it makes no result")),
        }
    }
}

/// The stacked results of a node: which of its body's outputs are the slices, along which axes, and what the body is given.
struct Stacks<'a> {
    body: BodyId,
    first: usize,
    axes: &'a [i64],
    given: Vec<TensorType>,
}

fn type_of(tensor: &Tensor) -> TensorType {
    TensorType {
        dtype: tensor.dtype(),
        shape: tensor.shape().to_vec(),
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

/// The one element of a condition.
fn truth(node: &Node, condition: &Tensor) -> Result<bool, ModelError> {
    match condition.data() {
        TensorData::Bool(values) if values.len() == 1 => Ok(values[0]),
        _ => {
            let (dtype, shape) = (condition.dtype(), condition.shape());
            let reason = format!("its condition is {dtype} of shape {shape:?}");
            Err(refused(node, &reason))
        }
    }
}

/// The one element of a count.
fn whole(node: &Node, count: &Tensor) -> Result<i64, ModelError> {
    match count.data() {
        TensorData::I64(values) if values.len() == 1 => Ok(values[0]),
        _ => {
            let (dtype, shape) = (count.dtype(), count.shape());
            let reason = format!("its count is {dtype} of shape {shape:?}");
            Err(refused(node, &reason))
        }
    }
}
