//! Places buffers in one arena so that those alive at the same time do not overlap.
//!
//! Lowering leaves this to executors, since only they know what their memory is. Each calls
//! [`ArenaLayout::of`] once, when a plan is made ready, with the alignment that its device wants and with the
//! steps that it may run together with the next one; holds [`ArenaLayout::bytes`] against the plan's
//! budget ([`Plan::take_for_a_run`]) before it takes anything; and gives every buffer its offset.
//!
//! ```text
//! offset ^   +-----+
//!        |   |  b3 |  +----+
//!        | +-+-----+--+ b5 |        greedy: largest first, at the lowest offset
//!        | |   b1     |----+        that is free for its whole life
//!        +------------------> step
//! ```
//!
//! The greedy-by-size rule is that of Pisarchyk and Lee, "Efficient Memory
//! Management for Deep Neural Net Inference" (2020), section 5.2.

use super::{Place, Plan};

/// First and last step a buffer is alive in, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    first: usize,
    last: usize,
}

/// Where each buffer of a plan that is no constant starts in an executor's arena, and how long the
/// arena is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArenaLayout {
    /// In bytes, by buffer of the plan; `None` for constants and for buffers that nothing touches,
    /// which are never read or written.
    pub(crate) offsets: Vec<Option<usize>>,
    /// Bytes of the whole arena; `usize::MAX`, which no budget allows, if they cannot be counted.
    pub(crate) bytes: usize,
}

impl ArenaLayout {
    /// Places all buffers of `plan` that are no constants, each at a multiple of `alignment` bytes.
    ///
    /// Inputs are alive from the start to their last reader, outputs to the end. Where
    /// `may_run_with_next` says that a step's work may be done while the next step runs, its
    /// operands stay alive until that one ends.
    pub(crate) fn of(
        plan: &Plan,
        alignment: usize,
        may_run_with_next: impl Fn(usize) -> bool,
    ) -> Self {
        // What is between two steps may be larger than any value of the graph.
        let bytes_of = |b: usize| {
            let buffer = &plan.buffers[b];
            Some(buffer.len.saturating_mul(buffer.storage.size_bytes()))
        };
        Self::of_sizes(plan, alignment, bytes_of, may_run_with_next)
    }

    /// The same where buffers take as many bytes as `bytes_of` says, `usize::MAX` if they cannot be counted; those of which
    /// it says nothing have no place in the arena.
    pub(crate) fn of_sizes(
        plan: &Plan,
        alignment: usize,
        bytes_of: impl Fn(usize) -> Option<usize>,
        may_run_with_next: impl Fn(usize) -> bool,
    ) -> Self {
        let lives = lives(plan, may_run_with_next);
        let sizes = (0..lives.len()).map(|b| lives[b].and_then(|_| bytes_of(b)));
        let sizes: Vec<Option<usize>> = sizes.collect();
        let mut order: Vec<usize> = (0..lives.len()).filter(|&b| sizes[b].is_some()).collect();
        let bytes_of = |b: usize| {
            let whole = sizes[b].and_then(|bytes| bytes.checked_next_multiple_of(alignment));
            whole.unwrap_or(usize::MAX)
        };
        order.sort_by_key(|&b| (std::cmp::Reverse(bytes_of(b)), b));
        let mut placed: Vec<(usize, usize, Life)> = Vec::new(); // (start, end, life), by start
        let mut offsets = vec![None; lives.len()];
        let mut total = 0;
        for b in order {
            let Some(life) = lives[b] else { continue };
            let need = bytes_of(b);
            let mut start = 0usize;
            for &(other_start, other_end, other) in &placed {
                if other.first > life.last || other.last < life.first {
                    continue;
                }
                if start.saturating_add(need) <= other_start {
                    break;
                }
                start = start.max(other_end);
            }
            offsets[b] = Some(start);
            let end = start.saturating_add(need);
            total = total.max(end);
            let at = placed.partition_point(|p| p.0 <= start);
            placed.insert(at, (start, end, life));
        }
        Self {
            offsets,
            bytes: total,
        }
    }

    /// The most bytes alive at one time, which no layout can be shorter than; sizes as in [`ArenaLayout::of_sizes`].
    #[cfg(all(test, feature = "cuda"))]
    pub(crate) fn least_bytes(plan: &Plan, bytes_of: impl Fn(usize) -> Option<usize>) -> usize {
        let lives = lives(plan, |_| false);
        let alive_at = |time: usize| {
            let alive = lives.iter().enumerate().filter_map(|(buffer, life)| {
                let is_alive = life.is_some_and(|life| (life.first..=life.last).contains(&time));
                is_alive.then(|| bytes_of(buffer)).flatten()
            });
            alive.sum::<usize>()
        };
        (0..=plan.steps.len() + 1).map(alive_at).max().unwrap_or(0)
    }
}

fn lives(plan: &Plan, may_run_with_next: impl Fn(usize) -> bool) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; plan.buffers.len()];
    let mut touch = |buffer: usize, step: usize| {
        if matches!(plan.buffers[buffer].place, Place::Constant(_)) {
            return;
        }
        let life = lives[buffer].get_or_insert(Life {
            first: step,
            last: step,
        });
        life.first = life.first.min(step);
        life.last = life.last.max(step);
    };
    for port in &plan.inputs {
        touch(port.view.buffer.0, 0);
    }
    for (i, planned) in plan.steps.iter().enumerate() {
        for view in planned.step.views_read() {
            let last = if may_run_with_next(i) { i + 2 } else { i + 1 };
            touch(view.buffer.0, last);
        }
        for view in planned.step.views_written() {
            touch(view.buffer.0, i + 1);
        }
    }
    for port in &plan.outputs {
        touch(port.view.buffer.0, plan.steps.len() + 1);
    }
    lives
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::bind;
    use crate::plan::lower;
    use crate::tests::networks::attentive;

    fn plan() -> Plan {
        lower(&bind(&attentive(), &[]).expect("fixed shapes")).expect("lowers")
    }

    #[test]
    fn buffers_start_at_multiples_of_the_alignment() {
        let plan = plan();
        for alignment in [64, 256, 4096] {
            let arena = ArenaLayout::of(&plan, alignment, |_| false);
            let starts: Vec<usize> = arena.offsets.iter().flatten().copied().collect();
            assert!(starts.len() > 1);
            assert!(starts.iter().all(|start| start % alignment == 0));
            assert_eq!(arena.bytes % alignment, 0);
        }
    }

    #[test]
    fn operands_of_a_step_that_may_run_with_the_next_live_until_that_one_ends() {
        let plan = plan();
        let last_of = |may_run_with_next: bool, buffer: usize| {
            lives(&plan, |_| may_run_with_next)[buffer].map(|life| life.last)
        };
        let input = plan.inputs[0].view.buffer.0;
        let alone = last_of(false, input).expect("read by a step");
        assert_eq!(last_of(true, input), Some(alone + 1));
    }
}
