//! Which step is next: what the bodies of control flow stand between.

use super::lowered_step::LoweredStep;
use crate::plan::storage::Storage;
use crate::plan::view::View;

/// A step that computes nothing but which one is next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ControlStep {
    /// What others call it; unique in the plan.
    pub(crate) label: Option<usize>,
    pub(crate) action: Action,
    /// What must not be overwritten until here, though no step behind reads it: later iterations do.
    pub(crate) keeps: Vec<View>,
}

/// What a [`ControlStep`] does. Going to a label is going to the step behind the one it names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Goes to `otherwise` unless the condition, one f32, holds.
    Branch { condition: View, otherwise: usize },
    /// Goes to `to`.
    Jump { to: usize },
    /// Nothing; others lead here.
    Land,
    /// Sets the number to 0, and goes to `after` unless that iteration runs.
    Begin { iteration: Iteration, after: usize },
    /// Counts the number up, and goes to `begin` if that iteration runs.
    Repeat { iteration: Iteration, begin: usize },
}

/// Which iteration is next, and what says whether it runs: its number is below the count, and the condition holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Iteration {
    /// One i64.
    pub(crate) number: View,
    /// One i64.
    pub(crate) count: Option<View>,
    /// One f32.
    pub(crate) condition: Option<View>,
}

impl Action {
    /// The label it may go to.
    pub(crate) fn goes_to(&self) -> Option<usize> {
        match self {
            Self::Branch { otherwise: to, .. }
            | Self::Jump { to }
            | Self::Begin { after: to, .. }
            | Self::Repeat { begin: to, .. } => Some(*to),
            Self::Land => None,
        }
    }
}

impl Iteration {
    /// What says whether it runs.
    fn limits(&self) -> impl Iterator<Item = &View> {
        self.count.iter().chain(&self.condition)
    }
}

impl LoweredStep for ControlStep {
    fn kind(&self) -> &'static str {
        match self.action {
            Action::Branch { .. } => "branch",
            Action::Jump { .. } => "jump",
            Action::Land => "land",
            Action::Begin { .. } => "begin",
            Action::Repeat { .. } => "repeat",
        }
    }

    fn views_read(&self) -> Vec<&View> {
        let mut views: Vec<&View> = self.keeps.iter().collect();
        match &self.action {
            Action::Branch { condition, .. } => views.push(condition),
            Action::Jump { .. } | Action::Land => {}
            Action::Begin { iteration, .. } => views.extend(iteration.limits()),
            Action::Repeat { iteration, .. } => {
                views.push(&iteration.number);
                views.extend(iteration.limits());
            }
        }
        views
    }

    fn views_written(&self) -> Vec<&View> {
        match &self.action {
            Action::Begin { iteration, .. } | Action::Repeat { iteration, .. } => {
                vec![&iteration.number]
            }
            _ => Vec::new(),
        }
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        let mut views: Vec<&mut View> = self.keeps.iter_mut().collect();
        match &mut self.action {
            Action::Branch { condition, .. } => views.push(condition),
            Action::Jump { .. } | Action::Land => {}
            Action::Begin { iteration, .. } | Action::Repeat { iteration, .. } => {
                views.push(&mut iteration.number);
                views.extend(iteration.count.iter_mut().chain(&mut iteration.condition));
            }
        }
        views
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        let is = |view: &View, wanted| view.len() == 1 && storage(view) == wanted;
        match &self.action {
            Action::Branch { condition, .. } => is(condition, Storage::F32),
            Action::Jump { .. } | Action::Land => true,
            Action::Begin { iteration, .. } | Action::Repeat { iteration, .. } => {
                let Iteration {
                    number,
                    count,
                    condition,
                } = iteration;
                let mut whole = std::iter::once(number).chain(count);
                whole.all(|view| is(view, Storage::I64))
                    && condition.iter().all(|view| is(view, Storage::F32))
            }
        }
    }

    fn describe(&self) -> String {
        match &self.action {
            Action::Branch { otherwise, .. } => format!("else to {otherwise}"),
            Action::Jump { to } => format!("to {to}"),
            Action::Land => String::new(),
            Action::Begin { after, .. } => format!("or to {after}"),
            Action::Repeat { begin, .. } => format!("to {begin} or on"),
        }
    }
}
