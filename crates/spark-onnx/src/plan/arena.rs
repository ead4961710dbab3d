//! Places buffers in one arena so that those alive at the same time do not overlap.
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

/// Every buffer starts at a multiple of this many bytes: one cache line, one AVX-512 vector.
const ALIGNMENT: usize = 64;

/// First and last step a buffer is alive in, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    first: usize,
    last: usize,
}

/// Result of planning: where each arena buffer starts, and how long the arena is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arena {
    /// Per buffer of the plan; `None` for constants and buffers nothing touches.
    pub(crate) offsets: Vec<Option<usize>>,
    /// Bytes of the whole.
    pub(crate) bytes: usize,
}

impl Arena {
    /// Places all arena buffers of `plan`.
    ///
    /// Inputs are alive from the start to their last reader, outputs to the end.
    pub(crate) fn of(plan: &Plan) -> Self {
        let lives = lives(plan);
        let mut order: Vec<usize> = (0..lives.len()).filter(|&b| lives[b].is_some()).collect();
        // What is between two steps may be larger than any value of the graph: an arena that cannot
        // be counted has `usize::MAX` bytes, which no budget allows.
        let bytes_of = |b: usize| {
            let buffer = &plan.buffers[b];
            let bytes = buffer.len.checked_mul(buffer.storage.size_bytes());
            let whole = bytes.and_then(|bytes| bytes.checked_next_multiple_of(ALIGNMENT));
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
}

fn lives(plan: &Plan) -> Vec<Option<Life>> {
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
            // What a product reads that runs together with the next step lives until then.
            let last = if plan.expands(i) { i + 2 } else { i + 1 };
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
