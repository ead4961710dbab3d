//! Control flow: bodies lowered into the plan itself, with steps around them that say which step is next.
//!
//! ```text
//! If      Branch c            Loop    carried <- initial values
//!         then ...                    Begin            number = 0; behind it all unless it runs at all
//!         result <- its own           body ...
//!         Jump                        stacked[number] <- slices
//!         else ...                    carried <- the body's
//!         result <- its own           Repeat           number += 1; the body again, or on
//! ```
//!
//! So bodies have no memory, no weights and no budget of their own: buffers of one arena, weights packed
//! with the others, a run that can be ended before every step.
//!
//! Deliberately absent: fusing across the edges of a body.

use std::sync::Arc;

use super::lowering::{Lower, Lowered, Lowering, axis_index};
use crate::graph::{BodyId, If, Loop, Node, OpError, Scan, ScanAxis, ScatterReduction, ValueId};
use crate::plan::budget::check_node;
use crate::plan::step::{
    Action, ControlStep, CopyStep, FillStep, GatherNdStep, Iteration, ScatterNdStep, Step,
};
use crate::plan::{ConstantData, Storage, View};
use crate::tensor::TensorData;

impl Lower for If {
    fn lower(&self, l: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        let condition = l.operand(node, 0)?;
        let condition = l.view(condition)?;
        let captured = l.operand_views(node, 1)?;
        let results = l.result_buffers(node);
        let (otherwise, end) = (l.label(), l.label());
        l.control(
            node,
            None,
            Action::Branch {
                condition,
                otherwise,
            },
            Vec::new(),
        );
        for (branch, label, action) in [
            (self.then_branch, None, Action::Jump { to: end }),
            (self.else_branch, Some(otherwise), Action::Land),
        ] {
            if label.is_some() {
                l.control(node, label, Action::Land, Vec::new());
            }
            let made = l.within(branch, &captured)?;
            l.copy_results(node, &made, &results);
            if label.is_none() {
                l.control(node, None, action, Vec::new());
            }
        }
        // Results live from the first branch to here, whichever is taken.
        let keeps = results.into_iter().flatten().collect();
        l.control(node, Some(end), Action::Land, keeps);
        Ok(())
    }
}

impl Lower for Loop {
    fn lower(&self, l: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        let mut optional = |index| match l.optional(node, index) {
            Some(id) => l.view(id).map(Some),
            None => Ok(None),
        };
        let (count, condition) = (optional(0)?, optional(1)?);
        let values = l.operand_views(node, 2)?;
        let (initial, captured) = values.split_at(self.carried);
        let body = l.graph.body(self.body);
        let goes_on = body.value(body.outputs()[0]).constant.as_deref();
        let always = matches!(
            goes_on.map(|tensor| tensor.data()),
            Some(TensorData::Bool(values)) if values[..] == [true]
        );
        let first = ScanAxis {
            axis: 0,
            is_reversed: false,
        };
        let stacked = body.outputs().len() - 1 - self.carried;
        let mut around = Around::new(l, node, initial, &vec![first; stacked])?;
        around.keeps.extend(captured.iter().cloned());
        around.keeps.extend(count.iter().chain(&condition).cloned());
        let labels = l.begin(node, &around, count.clone(), condition);
        let holds = l.f32_constant(vec![1.0], &[]);
        let mut given = vec![around.number.clone(), holds];
        given.extend(around.carried.iter().cloned());
        given.extend(captured.iter().cloned());
        let made = l.within(self.body, &given)?;
        let condition = (!always).then(|| around.apart(l, node, &made[0]));
        around.finish(l, node, &made[1..]);
        l.repeat(node, around, count, condition, labels);
        Ok(())
    }
}

impl Lower for Scan {
    fn lower(&self, l: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        let values = l.operand_views(node, 0)?;
        let (initial, rest) = values.split_at(self.carried);
        let (scanned, captured) = rest.split_at(self.inputs.len());
        let mut slices = Vec::with_capacity(scanned.len());
        for (whole, axis) in scanned.iter().zip(&self.inputs) {
            slices.push(first_axis(whole, *axis)?);
        }
        let length = slices.first().map_or(0, |slices| slices.axes[0].extent);
        let length = ConstantData::I64(Arc::new(vec![length as i64]));
        let length = View::dense(l.constant_buffer(length), &[], &[]);
        let mut around = Around::new(l, node, initial, &self.outputs)?;
        around.keeps.extend(values.iter().cloned());
        let labels = l.begin(node, &around, Some(length.clone()), None);
        let mut given = around.carried.clone();
        for x in slices {
            let shape: Vec<usize> = x.shape()[1..].to_vec();
            let y = l.row_major_buffer(l.storage(&x), &shape);
            if !y.is_empty() {
                let step = GatherNdStep {
                    x,
                    index: around.tuple(),
                    y: y.clone(),
                    batch_dims: 0,
                };
                l.emit(&node.name, Step::GatherNd(step));
            }
            given.push(y);
        }
        given.extend(captured.iter().cloned());
        let made = l.within(self.body, &given)?;
        around.finish(l, node, &made);
        l.repeat(node, around, Some(length), None, labels);
        Ok(())
    }
}

/// `whole` with the axis that is taken apart first, in the order of the slices.
fn first_axis(whole: &View, axis: ScanAxis) -> Result<View, OpError> {
    let at = axis_index(axis.axis, whole.rank())?;
    let mut order = vec![at];
    order.extend((0..whole.rank()).filter(|&other| other != at));
    Ok(in_order(whole.permuted(&order), axis))
}

/// `slices`, one per position of the first axis, the last first where they are reversed.
fn in_order(slices: View, axis: ScanAxis) -> View {
    let extent = slices.axes[0].extent;
    match axis.is_reversed && extent > 0 {
        true => slices.sliced(0, extent - 1, -1, extent),
        false => slices,
    }
}

/// What goes from one iteration to the next.
struct Around {
    /// The number of the iteration.
    number: View,
    carried: Vec<View>,
    /// One slice per position of the first axis, in the order in which they are made; `None` where nobody
    /// reads them.
    stacked: Vec<Option<View>>,
    /// What later iterations read, though no step behind this one does.
    keeps: Vec<View>,
}

impl Around {
    fn iteration(&self, count: Option<View>, condition: Option<View>) -> Iteration {
        Iteration {
            number: self.number.clone(),
            count,
            condition,
        }
    }

    /// Buffers for results of `node`, those carried with their initial values.
    fn new(
        l: &mut Lowering<'_>,
        node: &Node,
        initial: &[View],
        axes: &[ScanAxis],
    ) -> Result<Self, OpError> {
        let number = View::dense(l.buffer(Storage::I64, 1), &[], &[]);
        let mut carried = Vec::with_capacity(initial.len());
        for (index, x) in initial.iter().enumerate() {
            let y = l.row_major_buffer(l.storage(x), &x.shape());
            l.copy(node, x, &y);
            if let Some(out) = l.result(node, index) {
                l.set(out, y.clone());
            }
            carried.push(y);
        }
        let mut stacked = Vec::with_capacity(axes.len());
        for (index, axis) in axes.iter().enumerate() {
            let Some(out) = l.result(node, initial.len() + index) else {
                stacked.push(None);
                continue;
            };
            let ty = l.ty(out);
            let at = axis_index(axis.axis, ty.shape.len())?;
            let mut order = vec![at];
            order.extend((0..ty.shape.len()).filter(|&other| other != at));
            let whole = l.dense_buffer(Storage::of(ty.dtype), &ty.shape, &order);
            l.set(out, whole.clone());
            if !whole.is_empty() {
                let fill = FillStep {
                    y: whole.clone(),
                    value: 0.0,
                };
                l.emit(&node.name, Step::Fill(fill));
            }
            stacked.push(Some(in_order(whole.permuted(&order), *axis)));
        }
        Ok(Self {
            keeps: vec![number.clone()],
            number,
            carried,
            stacked,
        })
    }

    /// The number of the iteration as an index of one axis.
    fn tuple(&self) -> View {
        View::dense(self.number.buffer, &[1], &[0])
    }

    /// `view`, or a copy of it where it is a part of what carrying writes over.
    fn apart(&self, l: &mut Lowering<'_>, node: &Node, view: &View) -> View {
        let mut carried = self.carried.iter();
        if view.is_empty() || carried.all(|to| to.buffer != view.buffer) {
            return view.clone();
        }
        let order: Vec<usize> = (0..view.rank()).collect();
        l.copied(&node.name, view, &order)
    }

    /// Stacks and carries what the body made: first all that is read, then what is written.
    fn finish(&mut self, l: &mut Lowering<'_>, node: &Node, made: &[View]) {
        let (carried, slices) = made.split_at(self.carried.len());
        for (slice, whole) in slices.iter().zip(&self.stacked) {
            let Some(y) = whole.as_ref().filter(|y| !y.is_empty()) else {
                continue;
            };
            let step = ScatterNdStep {
                index: self.tuple(),
                updates: slice.clone(),
                y: y.clone(),
                reduction: ScatterReduction::None,
            };
            l.emit(&node.name, Step::ScatterNd(step));
        }
        let mut from = Vec::with_capacity(carried.len());
        for (x, to) in carried.iter().zip(&self.carried) {
            from.push(match x == to {
                true => x.clone(),
                false => self.apart(l, node, x),
            });
        }
        for (x, to) in from.iter().zip(&self.carried) {
            l.copy(node, x, to);
        }
        self.keeps.extend(self.carried.iter().cloned());
        self.keeps.extend(self.stacked.iter().flatten().cloned());
    }
}

impl<'g> Lowering<'g> {
    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels - 1
    }

    fn control(&mut self, node: &Node, label: Option<usize>, action: Action, keeps: Vec<View>) {
        // Nothing behind this is computed by a step before it, nor the other way round.
        self.producer.clear();
        let step = ControlStep {
            label,
            action,
            keeps,
        };
        self.emit(&node.name, Step::Control(step));
    }

    /// Begins the body of a loop; gives the labels of its begin and end.
    fn begin(
        &mut self,
        node: &Node,
        around: &Around,
        count: Option<View>,
        condition: Option<View>,
    ) -> (usize, usize) {
        let (begin, end) = (self.label(), self.label());
        let iteration = around.iteration(count, condition);
        let action = Action::Begin {
            iteration,
            after: end,
        };
        self.control(node, Some(begin), action, Vec::new());
        (begin, end)
    }

    /// Ends the body of a loop.
    fn repeat(
        &mut self,
        node: &Node,
        around: Around,
        count: Option<View>,
        condition: Option<View>,
        (begin, end): (usize, usize),
    ) {
        let iteration = around.iteration(count, condition);
        let action = Action::Repeat { iteration, begin };
        self.control(node, None, action, around.keeps.clone());
        self.control(node, Some(end), Action::Land, around.keeps);
    }

    /// All operands from `from` on, computed now.
    fn operand_views(&mut self, node: &Node, from: usize) -> Result<Vec<View>, OpError> {
        let ids = from..node.inputs.len();
        ids.map(|index| {
            let id = self.operand(node, index)?;
            self.view(id)
        })
        .collect()
    }

    fn result_buffers(&mut self, node: &Node) -> Vec<Option<View>> {
        let results = node.outputs.iter();
        results
            .map(|id| {
                let id = (*id)?;
                let ty = self.ty(id);
                let view = self.row_major_buffer(Storage::of(ty.dtype), &ty.shape);
                self.set(id, view.clone());
                Some(view)
            })
            .collect()
    }

    fn copy_results(&mut self, node: &Node, made: &[View], results: &[Option<View>]) {
        for (x, y) in made.iter().zip(results) {
            if let Some(y) = y {
                self.copy(node, x, y);
            }
        }
    }

    fn copy(&mut self, node: &Node, x: &View, y: &View) {
        if x != y && !y.is_empty() {
            let step = CopyStep {
                x: x.clone(),
                y: y.clone(),
            };
            self.emit(&node.name, Step::Copy(step));
        }
    }

    /// Adds the steps of a body whose inputs are `given`, and gives what it makes.
    fn within(&mut self, body: BodyId, given: &[View]) -> Result<Vec<View>, OpError> {
        let graph: &'g crate::graph::StaticGraph = self.graph;
        let body = graph.body(body);
        let inner = Lowering::new(body);
        let outer = (
            std::mem::replace(&mut self.graph, body),
            std::mem::replace(&mut self.values, inner.values),
            std::mem::replace(&mut self.bytes, inner.bytes),
            std::mem::replace(&mut self.readers, inner.readers),
        );
        self.producer.clear();
        for (&ValueId(input), view) in body.inputs().iter().zip(given) {
            // Where the elements are known, steps want them as such.
            if body.values()[input].constant.is_none() {
                self.values[input] = Lowered::View(view.clone());
            }
        }
        for node in body.nodes() {
            if self.nothing(node) {
                continue;
            }
            let held = self.constant_bytes.saturating_add(self.table_bytes);
            let named = |reason: String| OpError {
                reason: format!(
                    "in a body, node `{}` ({}): {reason}",
                    node.name,
                    node.op.name()
                ),
            };
            check_node(body, node, held, super::table_bytes(body, node))
                .map_err(|error| named(error.to_string()))?;
            self.node(node).map_err(|error| named(error.reason))?;
        }
        let outputs = body.outputs().iter();
        let made = outputs.map(|&id| self.view(id)).collect::<Result<_, _>>()?;
        (self.graph, self.values, self.bytes, self.readers) = outer;
        self.producer.clear();
        Ok(made)
    }
}
