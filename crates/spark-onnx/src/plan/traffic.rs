//! Bytes a step reads and writes: what its time is compared with where arithmetic is not the
//! limit.
//!
//! ```text
//! bytes = elements read + elements written     each element of a view once, repeated ones not
//! ```
//!
//! Weights are not counted here: how they are held is the executor's business.

use super::step::Step;
use super::view::View;
use super::{Buffer, Plan};

impl Plan {
    /// Bytes step `index` reads and writes, weights not counted.
    pub(crate) fn step_bytes(&self, index: usize) -> u64 {
        let step: &Step = &self.steps[index].step;
        let views = step.views_read().into_iter().chain(step.views_written());
        views.map(|view| bytes(&self.buffers, view)).sum()
    }
}

fn bytes(buffers: &[Buffer], view: &View) -> u64 {
    let distinct = view.axes.iter().map(|axis| match axis.stride {
        0 => axis.extent.min(1),
        _ => axis.extent,
    });
    let elements: usize = distinct.product();
    (elements * buffers[view.buffer.0].storage.size_bytes()) as u64
}

#[cfg(test)]
mod tests {
    use crate::graph::bind;
    use crate::plan::lower;
    use crate::tests::networks::attentive;

    #[test]
    fn a_linear_step_moves_its_operand_and_its_result() {
        let bound = bind(&attentive(), &[]).expect("fixed shapes");
        let plan = lower(&bound).expect("lowers");
        let steps = plan.steps.iter().enumerate();
        let mut linear = steps.filter_map(|(i, s)| match &s.step {
            super::Step::Linear(l) if l.epilogue.residual.is_none() => Some((i, l)),
            _ => None,
        });
        let (index, step) = linear.next().expect("it has linear steps");
        let want = 4 * (step.x.len() + step.y.len());
        assert_eq!(plan.step_bytes(index), want as u64);
    }
}
