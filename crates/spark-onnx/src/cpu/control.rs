//! Control flow while it runs: the counters of loops, and which step is next.
#![allow(
    unsafe_code,
    reason = "conditions and counters are single elements of views that were checked at load"
)]

use spark_quant::QuantError;

use super::memory::Memory;
use super::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::plan::{Action, ControlStep, Iteration, View};

/// The kernel of a step that computes nothing but which one is next.
pub(crate) struct Control(Action);

impl Kernel<ControlStep> for Control {
    fn prepare(problem: &Problem<'_, ControlStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.action.clone()))
    }
}

/// The one element of a condition.
fn holds(memory: &Memory, condition: &View) -> bool {
    // SAFETY: a view of one element of f32 (`ControlStep::is_held_rightly`), inside its buffer as all are.
    unsafe { *memory.f32(condition) != 0.0 }
}

/// The one element of a counter.
fn whole(memory: &Memory, number: &View) -> i64 {
    // SAFETY: as above, of i64.
    unsafe { *memory.i64(number) }
}

fn runs(memory: &Memory, iteration: &Iteration) -> bool {
    let number = &iteration.number;
    let is_below = |count| whole(memory, number) < whole(memory, count);
    iteration.count.as_ref().is_none_or(is_below)
        && iteration
            .condition
            .as_ref()
            .is_none_or(|condition| holds(memory, condition))
}

impl PreparedStep for Control {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        let (number, value) = match &self.0 {
            Action::Begin { iteration, .. } => (&iteration.number, 0),
            Action::Repeat { iteration, .. } => {
                let number = &iteration.number;
                (number, whole(c.memory, number).wrapping_add(1))
            }
            _ => return Ok(()),
        };
        // SAFETY: as above; steps run one after the other, and this one works alone.
        unsafe { *c.memory.i64(number) = value };
        Ok(())
    }

    fn goes_to(&self, c: &Context<'_>) -> Option<usize> {
        let memory = c.memory;
        match &self.0 {
            Action::Branch {
                condition,
                otherwise,
            } => (!holds(memory, condition)).then_some(*otherwise),
            Action::Jump { to } => Some(*to),
            Action::Land => None,
            Action::Begin { iteration, after } => (!runs(memory, iteration)).then_some(*after),
            Action::Repeat { iteration, begin } => runs(memory, iteration).then_some(*begin),
        }
    }
}
