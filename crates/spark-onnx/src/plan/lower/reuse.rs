//! Results written over operands that nothing reads again.
//!
//! A pointwise or softmax step whose operand lies exactly as its result and dies there
//! writes in place: less memory, and the lines are in the L1 cache already. Inputs in
//! row-major order stay as they are: the caller's memory can stand in for them only if nothing
//! writes there.

use std::collections::HashMap;

use super::*;

/// Rewrites `plan` so that element-wise results take their dying operand's buffer.
pub(super) fn write_in_place(plan: &mut Plan) {
    let mut last_touch: HashMap<usize, usize> = HashMap::new();
    for (i, planned) in plan.steps.iter().enumerate() {
        let written = planned.step.views_written();
        for view in planned.step.views_read().into_iter().chain(written) {
            last_touch.insert(view.buffer.0, i);
        }
    }
    for port in &plan.outputs {
        last_touch.insert(port.view.buffer.0, usize::MAX);
    }
    for port in plan.inputs.iter().filter(|port| port.view.is_row_major()) {
        last_touch.insert(port.view.buffer.0, usize::MAX);
    }
    for i in 0..plan.steps.len() {
        let (candidates, y) = match &plan.steps[i].step {
            Step::Pointwise(s) => (s.inputs.clone(), s.y.clone()),
            Step::Softmax(s) => (vec![s.x.clone()], s.y.clone()),
            _ => continue,
        };
        let whole = |v: &View, b: &Buffer| v.offset == 0 && v.len() == b.len;
        let y_buffer = &plan.buffers[y.buffer.0];
        let fits = |x: &View| {
            let b = &plan.buffers[x.buffer.0];
            x.buffer != y.buffer
                && x.axes == y.axes
                && whole(x, b)
                && whole(&y, y_buffer)
                && b.storage == y_buffer.storage
                && matches!(b.place, Place::Arena)
                && last_touch.get(&x.buffer.0) == Some(&i)
                && candidates.iter().filter(|c| c.buffer == x.buffer).count() == 1
        };
        let Some(x) = candidates.iter().find(|x| fits(x)) else {
            continue;
        };
        let (from, to) = (y.buffer, x.buffer);
        if let Some(&last) = last_touch.get(&from.0) {
            last_touch.insert(to.0, last);
        }
        rename(plan, from, to);
    }
}

/// Every view of `from` becomes one of `to`.
fn rename(plan: &mut Plan, from: BufferId, to: BufferId) {
    let fix = |view: &mut View| {
        if view.buffer == from {
            view.buffer = to;
        }
    };
    for planned in &mut plan.steps {
        planned.step.for_each_view_mut(fix);
    }
    for port in plan.inputs.iter_mut().chain(&mut plan.outputs) {
        fix(&mut port.view);
    }
}
