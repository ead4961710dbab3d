//! Attention as one step: GEMM, scale, mask and softmax put back together.
//!
//! ```text
//! scores = MatMul(q, k')  ->  Pointwise: * scale, + mask  ->  Softmax  ->  MatMul(., v)  ->  Copy
//!          [.., m, n]                                                                heads joined
//! ```
//!
//! The scores are the largest tensor of an attention layer and are read as soon as they are
//! written. An executor of the one step holds a few of their rows at a time. Factors of the
//! queries and the keys become the scale; a copy that joins the heads becomes the result.
//!
//! A group is joined only if nothing else reads what lies between its steps.
//!
//! Deliberately absent: soft caps and logarithms of the softmax; scores that are masked twice.

use super::definition::Plan;
use super::pointwise::{PointOp, Program, RegisterKind};
use super::step::{AttentionStep, CopyStep, Mask, MatMulStep, PointwiseStep, Step};
use super::storage::Storage;
use super::view::{Axis, BufferId, View};

/// Joins every group of steps that is an attention.
pub(super) fn join(plan: &mut Plan) {
    let mut from = 0;
    while let Some((at, group)) = (from..plan.steps.len()).find_map(|at| {
        let group = Group::around(plan, at)?;
        Some((at, group))
    }) {
        let Group { step, steps } = group;
        // It runs where the last of them ran: what it reads is there by then, and what prepares
        // the memory it writes to, as padding does, has been.
        let place = steps.last;
        plan.steps[place].step = Step::Attention(step);
        let mut index = 0;
        plan.steps.retain(|_| {
            index += 1;
            index - 1 == place || !steps.all.contains(&(index - 1))
        });
        from = at.saturating_sub(steps.all.len());
    }
}

/// Steps that are one attention.
struct Group {
    step: AttentionStep,
    steps: Members,
}

/// Positions in the plan.
struct Members {
    /// The last of all.
    last: usize,
    all: Vec<usize>,
}

impl Group {
    /// The group of the softmax at `at`, if there is one.
    fn around(plan: &Plan, at: usize) -> Option<Self> {
        let Step::Softmax(softmax) = &plan.steps[at].step else {
            return None;
        };
        let row_major = softmax.x.is_row_major() && softmax.y.is_row_major();
        (!softmax.log && row_major).then_some(())?;
        let mut all = vec![at];
        let (scores, maker, effect) = scores_of(plan, &softmax.x, at, &mut all)?;
        let Step::MatMul(first) = &plan.steps[maker].step else {
            return None;
        };
        let product = sole_reader(plan, softmax.y.buffer, at)?;
        all.push(product);
        let Step::MatMul(second) = &plan.steps[product].step else {
            return None;
        };
        let reads_weights = second.a.buffer == softmax.y.buffer
            && second.b.buffer != softmax.y.buffer
            && second.a.offset == softmax.y.offset
            && second.a.is_row_major()
            && second.scale == 1.0;
        let rows = |view: &View| [2, 1].map(|i| view.axes[view.rank() - i].extent);
        let same = rows(&second.a) == rows(&scores)
            && second.a.len() == scores.len()
            && softmax.x.axes[1].extent == rows(&scores)[1]
            && !scores.is_empty();
        (reads_weights && same).then_some(())?;
        let mut scale = effect.scale * first.scale;
        let q = without_factor(plan, &first.a, maker, &mut scale, &mut all);
        let k = without_factor(plan, &first.b, maker, &mut scale, &mut all);
        let mut order: Vec<usize> = (0..k.rank()).collect();
        order.swap(k.rank() - 2, k.rank() - 1);
        let (y, last) = joined_heads(plan, second, product, &mut all);
        let has_unit_rows = |view: &View| {
            let axis = view.axes[view.rank() - 1];
            axis.extent == 1 || axis.stride == 1
        };
        let fits = AttentionStep::SCALES.contains(&scale)
            && has_unit_rows(&q)
            && effect.mask.view().is_none_or(has_unit_rows);
        fits.then(|| Self {
            step: AttentionStep {
                q,
                k: k.permuted(&order),
                v: second.b.clone(),
                mask: effect.mask,
                y,
                scale,
                masked: softmax.masked,
            },
            steps: Members { last, all },
        })
    }
}

/// The matmul that makes the scores which the step at `at` reads as `x`, its result, and what
/// happens to them in between. Steps passed are added to `all`.
fn scores_of(
    plan: &Plan,
    x: &View,
    at: usize,
    all: &mut Vec<usize>,
) -> Option<(View, usize, Effect)> {
    let maker = sole_writer(plan, x.buffer, at)?;
    all.push(maker);
    let is_whole = |y: &View| y.is_row_major() && y.offset == x.offset && y.len() == x.len();
    match &plan.steps[maker].step {
        Step::MatMul(s) if is_whole(&s.y) => Some((s.y.clone(), maker, Effect::default())),
        Step::Pointwise(s) if is_whole(&s.y) => {
            // The operand that a matmul wrote; the other is a mask.
            s.inputs.iter().enumerate().find_map(|(operand, view)| {
                let made = sole_writer(plan, view.buffer, maker)?;
                let Step::MatMul(product) = &plan.steps[made].step else {
                    return None;
                };
                let fits = view.offset == product.y.offset
                    && product.y.is_row_major()
                    && view.is_row_major()
                    && product.y.shape() == s.y.shape();
                let effect = fits.then(|| Effect::of(s, operand))??;
                all.push(made);
                Some((product.y.clone(), made, effect))
            })
        }
        _ => None,
    }
}

/// What a pointwise program does to scores.
#[derive(Debug, Clone, PartialEq)]
struct Effect {
    scale: f32,
    mask: Mask,
}

impl Default for Effect {
    fn default() -> Self {
        Self {
            scale: 1.0,
            mask: Mask::None,
        }
    }
}

/// What a register of a program holds.
#[derive(Debug, Clone, PartialEq)]
enum Held {
    Unknown,
    Constant(f32),
    Operand(usize),
    Scores(Effect),
}

impl Effect {
    /// What `step` does to its operand `scores`, if it is a scale and then a mask.
    fn of(step: &PointwiseStep, scores: usize) -> Option<Self> {
        let reads = step.inputs.iter().map(|view| view.buffer);
        let buffer = step.inputs[scores].buffer;
        (reads.filter(|&b| b == buffer).count() == 1).then_some(())?;
        match result_of(&step.program, scores, &step.inputs) {
            Held::Scores(effect) => Some(effect),
            _ => None,
        }
    }

    fn scaled(&self, factor: f32) -> Held {
        match self.mask {
            Mask::None => Held::Scores(Self {
                scale: self.scale * factor,
                mask: Mask::None,
            }),
            _ => Held::Unknown,
        }
    }

    fn masked(&self, mask: Mask) -> Held {
        match self.mask {
            Mask::None => Held::Scores(Self {
                scale: self.scale,
                mask,
            }),
            _ => Held::Unknown,
        }
    }
}

fn result_of(program: &Program, scores: usize, inputs: &[View]) -> Held {
    let mut registers = vec![Held::Unknown; program.n_registers];
    for instruction in &program.instructions {
        let [a, b, c] = instruction.args.map(|r| registers[usize::from(r)].clone());
        let held = match (instruction.op, a, b, c) {
            _ if instruction.kind != RegisterKind::F32 => Held::Unknown,
            (PointOp::Load(operand), ..) if usize::from(operand) == scores => {
                Held::Scores(Effect::default())
            }
            (PointOp::Load(operand), ..) => Held::Operand(usize::from(operand)),
            (PointOp::ConstantF32(value), ..) => Held::Constant(value),
            (PointOp::Mul, Held::Scores(effect), Held::Constant(factor), _)
            | (PointOp::Mul, Held::Constant(factor), Held::Scores(effect), _) => {
                effect.scaled(factor)
            }
            (PointOp::Div, Held::Scores(effect), Held::Constant(divisor), _) => {
                effect.scaled(1.0 / divisor)
            }
            (PointOp::Add, Held::Scores(effect), Held::Operand(mask), _)
            | (PointOp::Add, Held::Operand(mask), Held::Scores(effect), _) => {
                effect.masked(Mask::Added(inputs[mask].clone()))
            }
            (
                PointOp::Select,
                Held::Operand(seen),
                Held::Scores(effect),
                Held::Constant(hidden),
            ) => effect.masked(Mask::Seen {
                seen: inputs[seen].clone(),
                hidden,
            }),
            _ => Held::Unknown,
        };
        registers[usize::from(instruction.to)] = held;
    }
    registers.swap_remove(usize::from(program.result))
}

/// `view` before it was multiplied by a constant, which goes to `scale` instead, if the step at
/// `reader` alone reads the matmul; else `view`.
fn without_factor(
    plan: &Plan,
    view: &View,
    reader: usize,
    scale: &mut f32,
    all: &mut Vec<usize>,
) -> View {
    let found = || {
        let maker = sole_writer(plan, view.buffer, reader)?;
        let Step::Pointwise(step) = &plan.steps[maker].step else {
            return None;
        };
        let [x] = &step.inputs[..] else {
            return None;
        };
        // A register of floats may be loaded of bytes.
        (plan.storage(x) == Storage::F32).then_some(())?;
        let Held::Scores(effect) = result_of(&step.program, 0, &step.inputs) else {
            return None;
        };
        Some((maker, effect.scale, rearranged(view, &step.y, x)?))
    };
    let Some((maker, factor, x)) = found() else {
        return view.clone();
    };
    *scale *= factor;
    all.push(maker);
    x
}

/// Where the heads of `product`'s result are copied to side by side, if nothing else reads them,
/// and the last step of the group then.
fn joined_heads(
    plan: &Plan,
    product: &MatMulStep,
    at: usize,
    all: &mut Vec<usize>,
) -> (View, usize) {
    let found = || {
        let reader = sole_reader(plan, product.y.buffer, at)?;
        let Step::Copy(CopyStep { x, y }) = &plan.steps[reader].step else {
            return None;
        };
        let to = rearranged(&product.y, x, y)?;
        let last = to.axes[to.rank() - 1];
        (last.extent == 1 || last.stride == 1).then_some((to, reader))
    };
    match found() {
        Some((to, reader)) => {
            all.push(reader);
            (to, reader)
        }
        None => (product.y.clone(), at),
    }
}

/// `view`, which has the axes of `from` in some order, as those of `to`, which correspond to
/// `from`'s one by one. Repeated axes stay.
fn rearranged(view: &View, from: &View, to: &View) -> Option<View> {
    let is_axis = |axis: &Axis| axis.extent != 1 && axis.stride != 0;
    let mut left: Vec<usize> = (0..from.rank())
        .filter(|&i| from.axes[i].extent != 1)
        .collect();
    let mut axes = view.axes.clone();
    (view.buffer == from.buffer && view.offset == from.offset).then_some(())?;
    for axis in axes.iter_mut().filter(|axis| is_axis(axis)) {
        let at = left.iter().position(|&i| from.axes[i] == *axis)?;
        *axis = to.axes[left.remove(at)];
    }
    left.is_empty().then_some(View {
        buffer: to.buffer,
        offset: to.offset,
        axes,
    })
}

/// The step before `reader` that writes `buffer`, if that is the only one and `reader` alone
/// reads it.
fn sole_writer(plan: &Plan, buffer: BufferId, reader: usize) -> Option<usize> {
    let writer = only(plan, |step| step.views_written(), buffer)?;
    (writer < reader && sole_reader(plan, buffer, writer)? == reader).then_some(writer)
}

/// The step behind `writer` that alone reads `buffer`, once.
fn sole_reader(plan: &Plan, buffer: BufferId, writer: usize) -> Option<usize> {
    let mut ports = plan.inputs.iter().chain(&plan.outputs);
    ports.all(|port| port.view.buffer != buffer).then_some(())?;
    let reader = only(plan, |step| step.views_read(), buffer)?;
    let is_written_once = only(plan, |step| step.views_written(), buffer) == Some(writer);
    (is_written_once && reader > writer).then_some(reader)
}

/// The one step with one view of `buffer` among its `views`.
fn only(
    plan: &Plan,
    views: impl for<'s> Fn(&'s Step) -> Vec<&'s View>,
    buffer: BufferId,
) -> Option<usize> {
    let mut found = None;
    for (index, planned) in plan.steps.iter().enumerate() {
        for view in views(&planned.step) {
            if view.buffer == buffer && found.replace(index).is_some() {
                return None;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
