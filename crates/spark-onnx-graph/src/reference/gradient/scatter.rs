//! Gradients of writing updates into a copy of the operand.
//!
//! Replaced elements hand nothing on, and of several updates to one place the last has the gradient, as it has the
//! place. Combined ones have what a reduction of all that meet at the place has: equal extremes share evenly.

use super::super::scatter::{elements_targets, nd_targets};
use super::kinds::{Asked, GradientKind};
use super::movement::by_positions;
use super::operator::{At, Differentiate, Differentiated};
use super::reduce::slopes;
use crate::graph::{ReduceKind, ScatterElements, ScatterNd, ScatterReduction};

impl Differentiate for ScatterElements {
    fn kind(&self, asked: Asked) -> GradientKind {
        values_alone(asked)
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        match reduced(self.reduction) {
            None => by_positions(self, at, operand, &[0, 2]),
            Some(kind) => combined(kind, &elements_targets(self.axis, at.inputs)?, at, operand),
        }
    }
}

impl Differentiate for ScatterNd {
    fn kind(&self, asked: Asked) -> GradientKind {
        values_alone(asked)
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        match reduced(self.reduction) {
            None => by_positions(self, at, operand, &[0, 2]),
            Some(kind) => combined(kind, &nd_targets(at.inputs)?, at, operand),
        }
    }
}

fn values_alone(asked: Asked) -> GradientKind {
    match asked.operand {
        1 => GradientKind::Zero,
        _ => GradientKind::Computed,
    }
}

/// What becomes of an element and its updates, if they are combined.
fn reduced(reduction: ScatterReduction) -> Option<ReduceKind> {
    match reduction {
        ScatterReduction::None => None,
        ScatterReduction::Add => Some(ReduceKind::Sum),
        ScatterReduction::Mul => Some(ReduceKind::Prod),
        ScatterReduction::Max => Some(ReduceKind::Max),
        ScatterReduction::Min => Some(ReduceKind::Min),
    }
}

/// `targets[u]` is where update `u` goes.
fn combined(kind: ReduceKind, targets: &[usize], at: &At<'_>, operand: usize) -> Differentiated {
    let (x, updates, dy) = (at.floats(0)?, at.floats(2)?, at.dy()?);
    let mut met: Vec<Vec<usize>> = vec![Vec::new(); x.len()];
    for (update, &target) in targets.iter().enumerate() {
        met[target].push(update);
    }
    let mut gradient = at.zeros(operand)?;
    for (place, met) in met.iter().enumerate() {
        let mut set = vec![x[place]];
        set.extend(met.iter().map(|&update| updates[update]));
        let slopes = slopes(kind, &set);
        if operand == 0 {
            gradient[place] = slopes[0] * dy[place];
            continue;
        }
        for (&update, slope) in met.iter().zip(&slopes[1..]) {
            gradient[update] = slope * dy[place];
        }
    }
    Ok(gradient)
}
