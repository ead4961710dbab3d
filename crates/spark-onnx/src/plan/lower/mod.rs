//! Graph to plan, one operator family per file, one `impl Lower` per operator.
//!
//! ```text
//! for node in graph:
//!     data movement     -> a view where strides can say it, else Copy steps
//!     element-wise      -> folded into the GEMM before it (bias, scale, activation, residual),
//!                          else deferred and joined with the element-wise nodes around it
//!     everything else   -> a step or a few, their operands brought into the layout they require
//! ```
//!
//! A batch normalisation, a layer scale or a bias after a GEMM is a scale and a
//! shift per channel, and both fold into the weights by the same two rules.

mod control;
mod conv;
mod custom;
mod elementwise;
mod fourier;
mod fuse;
mod inputs;
mod integers;
mod lowering;
mod matmul;
mod movement;
mod norm;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod reuse;
mod transposed;
mod volume;

use lowering::{
    Deferred, Lower, Lowered, Lowering, Producer, axis_index, constant_data, elements, fail,
    image_order, register_kind,
};

use super::pointwise::{Expression, RegisterKind};
use super::*;
use crate::ModelError;
use crate::graph::{Node, OpError, StaticGraph, ValueId};
use crate::tensor::Tensor;
use spark_onnx_graph::{each_operator, simplify, spell_out_computed_weights};

/// Lowers a graph whose shapes are fixed.
///
/// # Errors
///
/// [`ModelError::Operator`] for an operator or form of it no step exists for, naming
/// the node: more than 8 axes, shapes that depend on values. [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`] if a table or a copy
/// of constants made on the way takes more than the graph's budget or the system has; what running
/// the plan takes is for its executor to ask ([`Plan::take_for_a_run`]). [`ModelError::BeyondF32`] for constants that would become infinities.
pub(crate) fn lower(graph: &StaticGraph) -> Result<Plan, ModelError> {
    let graph = spell_out_computed_weights(simplify(graph.clone()))?;
    let mut lowering = Lowering::new(&graph);
    lowering.inputs()?;
    constants_fit_f32(&graph)?;
    for node in graph.nodes() {
        if lowering.nothing(node) {
            continue;
        }
        let held = lowering.constant_bytes.saturating_add(lowering.table_bytes);
        super::budget::check_node(&graph, node, held, table_bytes(&graph, node))?;
        lowering
            .node(node)
            .map_err(|e: OpError| ModelError::Operator {
                node: node.name.clone(),
                op: node.op.name().to_owned(),
                reason: e.reason,
            })?;
    }
    lowering.outputs()?;
    let mut plan = lowering.plan;
    // Both take steps to run one after the other.
    if !plan.has_control_flow() {
        super::attention::join(&mut plan);
        reuse::write_in_place(&mut plan);
    }
    if let Some(planned) = plan.wrongly_held() {
        return Err(ModelError::Operator {
            node: planned.name.clone(),
            op: planned.step.kind().to_owned(),
            reason: "no kernel for integers of 16 bits and more".to_owned(),
        });
    }
    plan.budget_bytes = graph.budget_bytes();
    Ok(plan)
}

/// Bytes of the tables and masks that lowering `node` makes.
fn table_bytes(graph: &StaticGraph, node: &Node) -> usize {
    let shape = |id: Option<&ValueId>| id.map_or(&[][..], |&id| &graph.value(id).ty.shape);
    let read = shape(node.inputs.first().and_then(Option::as_ref));
    let written = shape(node.outputs.iter().flatten().next());
    each_operator!(match &node.op, it => Lower::table_bytes(it, read, written))
}

/// Refuses constants that nodes read, of a body too; what folding left behind is not computed with.
fn constants_fit_f32(graph: &StaticGraph) -> Result<(), ModelError> {
    let mut is_read = vec![false; graph.values().len()];
    let nodes = graph.nodes().iter();
    let read = nodes.flat_map(|node| node.inputs.iter().flatten());
    for id in read.chain(graph.outputs()) {
        is_read[id.0] = true;
    }
    for (value, is_read) in graph.values().iter().zip(is_read) {
        let constant = value.constant.as_ref().filter(|_| is_read);
        if let Some(beyond) = constant.and_then(|c| c.first_beyond_f32()) {
            return Err(ModelError::BeyondF32 {
                what: "constant",
                name: value.name.clone(),
                value: beyond,
            });
        }
    }
    let bodies = graph.nodes().iter().flat_map(|node| node.op.bodies());
    bodies
        .into_iter()
        .try_for_each(|id| constants_fit_f32(graph.body(id)))
}

impl Lowering<'_> {
    fn outputs(&mut self) -> Result<(), ModelError> {
        for &id in self.graph.outputs() {
            let view = self.view(id).map_err(|e| ModelError::Operator {
                node: self.graph.value(id).name.clone(),
                op: "output".to_owned(),
                reason: e.reason,
            })?;
            let value = self.graph.value(id);
            self.plan.outputs.push(Port {
                name: value.name.clone(),
                dtype: value.ty.dtype,
                shape: value.ty.shape.clone(),
                view,
            });
        }
        Ok(())
    }

    /// Whether no result of `node`, all of as many axes as there may be, has an element; then they
    /// are set, and no step makes them.
    fn nothing(&mut self, node: &Node) -> bool {
        let results = || node.outputs.iter().flatten();
        let shapes = results().map(|&id| &self.graph.value(id).ty.shape[..]);
        let is_nothing = results().all(|&id| self.ty(id).shape.len() <= MAX_RANK)
            && node.op.computes_nothing(shapes);
        if is_nothing {
            for &id in results() {
                let ty = self.ty(id);
                let empty = self.image_buffer(Storage::of(ty.dtype), &ty.shape);
                self.set(id, empty);
            }
        }
        is_nothing
    }

    fn node(&mut self, node: &Node) -> Result<(), OpError> {
        for id in node.outputs.iter().flatten() {
            if self.ty(*id).shape.len() > MAX_RANK {
                return fail(format!(
                    "result has {} axes, at most {MAX_RANK}",
                    self.ty(*id).shape.len()
                ));
            }
        }
        each_operator!(match &node.op, it => Lower::lower(it, self, node))
    }
}
