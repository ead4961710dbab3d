//! Control flow that only a run decides: the node stays, with its bodies bound for the types of its operands.
//!
//! ```text
//! If     both branches bound, results of the same types
//! Loop   body bound once, carried values of one type from first to last
//! Scan   the same, a slice of each scanned operand given
//! ```
//!
//! Deliberately absent: stacked results whose number of slices only a run knows, and values that change
//! their shape from iteration to iteration.

use std::sync::Arc;

use super::super::infer::resolve_axis;
use super::super::op::{BodyId, If, Loop, Op, Scan};
use super::super::{Node, StaticGraph, TensorType, ValueId};
use super::Binder;
use super::control::{Given, check_makes, refuse, refused, truth};
use crate::ModelError;
use crate::tensor::{MAX_ELEMENTS, TensorData, checked_elements};

/// What a stacked result adds to its slices: an axis, and how many there are.
#[derive(Clone, Copy)]
pub(super) struct Stacked {
    pub(super) axis: i64,
    pub(super) length: usize,
}

impl Binder<'_> {
    /// Keeps an If whose condition only a run knows.
    pub(super) fn keep_if(
        &mut self,
        node: &Node,
        op: If,
        inputs: Vec<Option<ValueId>>,
        captured: &[Given],
    ) -> Result<(), ModelError> {
        let then_branch = self.bind_body(node, op.then_branch, captured)?;
        let else_branch = self.bind_body(node, op.else_branch, captured)?;
        let n_results = node.outputs.len();
        for branch in [&then_branch, &else_branch] {
            check_makes(node, branch, n_results)?;
        }
        let mut types = Vec::with_capacity(n_results);
        for index in 0..n_results {
            let [a, b] = [&then_branch, &else_branch].map(|b| Given::output(b, index).ty);
            if a != b {
                let describe = |ty: &TensorType| format!("{} {:?}", ty.dtype, ty.shape);
                return refuse(
                    node,
                    format!(
                        "its condition is not known before it runs, and result {index} is {} \
                         of one branch, {} of the other",
                        describe(&a),
                        describe(&b)
                    ),
                );
            }
            types.push(a);
        }
        let op = If {
            then_branch: self.keep_body(then_branch),
            else_branch: self.keep_body(else_branch),
        };
        self.keep(node, Op::If(op), inputs, types);
        Ok(())
    }

    /// Keeps a Loop; `length` is how often it runs, where that is known.
    pub(super) fn keep_loop(
        &mut self,
        node: &Node,
        op: Loop,
        inputs: Vec<Option<ValueId>>,
        given: &[Given],
        length: Option<usize>,
    ) -> Result<(), ModelError> {
        let number = Given::scalar(TensorData::I64(vec![0]))?.unknown();
        // It runs only while this holds.
        let goes_on = Given::scalar(TensorData::Bool(vec![true]))?;
        let carried = given[..op.carried].iter().map(Given::unknown);
        let captured = given[op.carried..].iter().cloned();
        let operands: Vec<Given> = [number, goes_on]
            .into_iter()
            .chain(carried)
            .chain(captured)
            .collect();
        let body = self.bind_body(node, op.body, &operands)?;
        check_makes(node, &body, 1 + op.carried)?;
        let goes_on = truth(node, &Given::output(&body, 0))?;
        let mut types = self.carried(node, &body, 1, &given[..op.carried])?;
        let first = 1 + op.carried;
        for index in first..body.outputs.len() {
            let Some(length) = length.filter(|_| goes_on == Some(true)) else {
                return refuse(
                    node,
                    "how many slices it stacks is not known before it runs, which is not supported",
                );
            };
            let stacked = Stacked { axis: 0, length };
            types.push(stacked_type(node, &body, index, stacked)?);
        }
        let op = Loop {
            body: self.keep_body(body),
            ..op
        };
        self.keep(node, Op::Loop(op), inputs, types);
        Ok(())
    }

    /// Keeps a Scan over `length` slices.
    pub(super) fn keep_scan(
        &mut self,
        node: &Node,
        op: &Scan,
        inputs: Vec<Option<ValueId>>,
        given: &[Given],
        (slices, length): (Vec<Given>, usize),
    ) -> Result<(), ModelError> {
        let carried = given[..op.carried].iter().map(Given::unknown);
        let captured = given[op.carried + slices.len()..].iter().cloned();
        let operands: Vec<Given> = carried.chain(slices).chain(captured).collect();
        let body = self.bind_body(node, op.body, &operands)?;
        check_makes(node, &body, op.carried + op.outputs.len())?;
        let mut types = self.carried(node, &body, 0, &given[..op.carried])?;
        for (index, output) in op.outputs.iter().enumerate() {
            let axis = output.axis;
            let stacked = Stacked { axis, length };
            types.push(stacked_type(node, &body, op.carried + index, stacked)?);
        }
        let op = Scan {
            body: self.keep_body(body),
            ..op.clone()
        };
        self.keep(node, Op::Scan(op), inputs, types);
        Ok(())
    }

    /// The types of carried values, which are outputs of the body from `from` on.
    fn carried(
        &self,
        node: &Node,
        body: &StaticGraph,
        from: usize,
        carried: &[Given],
    ) -> Result<Vec<TensorType>, ModelError> {
        let mut types = Vec::with_capacity(carried.len());
        for (index, before) in carried.iter().enumerate() {
            let (was, is) = (&before.ty, Given::output(body, from + index).ty);
            if *was != is {
                return refuse(
                    node,
                    format!(
                        "carried value {index} is {} {:?}, then {} {:?}: without a number of \
                         iterations that is known and small it must stay as it is",
                        was.dtype, was.shape, is.dtype, is.shape
                    ),
                );
            }
            types.push(is);
        }
        Ok(types)
    }

    fn keep_body(&mut self, body: StaticGraph) -> BodyId {
        let types = body.values.iter().map(|value| value.ty.size_bytes());
        let bytes = types.fold(0, usize::saturating_add);
        self.total_bytes = self.total_bytes.saturating_add(bytes);
        self.bodies.push(Arc::new(body));
        BodyId(self.bodies.len() - 1)
    }

    fn keep(&mut self, node: &Node, op: Op, inputs: Vec<Option<ValueId>>, types: Vec<TensorType>) {
        for (id, ty) in node.outputs.iter().zip(types) {
            if let Some(id) = *id {
                self.declare(id, ty);
            }
        }
        self.nodes.push(Node {
            name: node.name.clone(),
            op,
            inputs,
            outputs: node.outputs.clone(),
        });
    }
}

/// The type of slices of output `index` of `body` put together.
fn stacked_type(
    node: &Node,
    body: &StaticGraph,
    index: usize,
    stacked: Stacked,
) -> Result<TensorType, ModelError> {
    let TensorType { dtype, mut shape } = Given::output(body, index).ty;
    let at = resolve_axis(stacked.axis, shape.len() + 1).map_err(refused(node))?;
    shape.insert(at, stacked.length);
    match checked_elements(&shape) {
        Some(_) => Ok(TensorType { dtype, shape }),
        None => refuse(
            node,
            format!("a result of shape {shape:?} has more than {MAX_ELEMENTS} elements"),
        ),
    }
}
