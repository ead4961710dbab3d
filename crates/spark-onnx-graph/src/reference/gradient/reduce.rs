//! Gradients of reductions over axes, and of running sums and products along one.
//!
//! Where a slope jumps, the value there is PyTorch's: equal extremes share the gradient evenly, L1 has none at 0, L2
//! none of a set of zeros.

use super::super::index::Lines;
use super::super::operator::{Working, times};
use super::super::reduce::members;
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::infer::op_error;
use crate::graph::{CumProd, CumSum, OpError, Reduce, ReduceKind, resolve_axis};

impl Differentiate for Reduce {
    fn kind(&self, asked: Asked) -> GradientKind {
        asked.first_alone()
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let [ty] = at.types else {
            return Err(op_error!("makes one result"));
        };
        let (x, dy) = (at.floats(0)?, at.dy()?);
        let mut gradient = at.zeros(0)?;
        for (set, dy) in members(self, at.inputs, ty)?.iter().zip(dy) {
            let values: Vec<f64> = set.iter().map(|&i| x[i]).collect();
            for (&i, slope) in set.iter().zip(slopes(self.kind, &values)) {
                gradient[i] = slope * dy;
            }
        }
        Ok(gradient)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let lists = times(working.read(), 96);
        working.computed_with(lists.saturating_add(times(working.written(), 128)))
    }
}

/// By every element of a set that is reduced to one.
pub(super) fn slopes(kind: ReduceKind, set: &[f64]) -> Vec<f64> {
    let n = set.len();
    let each = |slope: &dyn Fn(f64) -> f64| set.iter().map(|&x| slope(x)).collect();
    let sum = || set.iter().sum::<f64>();
    match kind {
        ReduceKind::Sum => vec![1.0; n],
        ReduceKind::Mean => vec![1.0 / n as f64; n],
        ReduceKind::Max => extremes(set, |a, b| a > b),
        ReduceKind::Min => extremes(set, |a, b| a < b),
        ReduceKind::Prod => others(set),
        ReduceKind::L1 => each(&|x| if x == 0.0 { 0.0 } else { x.signum() }),
        ReduceKind::L2 => {
            let norm = set.iter().map(|x| x * x).sum::<f64>().sqrt();
            each(&|x| if norm == 0.0 { 0.0 } else { x / norm })
        }
        ReduceKind::SumSquare => each(&|x| 2.0 * x),
        ReduceKind::LogSum => vec![1.0 / sum(); n],
        ReduceKind::LogSumExp => {
            let largest = set.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = set.iter().map(|x| (x - largest).exp()).sum();
            each(&|x| (x - largest).exp() / total)
        }
    }
}

/// An equal part for each of the extremes.
fn extremes(set: &[f64], beats: impl Fn(f64, f64) -> bool) -> Vec<f64> {
    let extreme = set
        .iter()
        .copied()
        .reduce(|best, x| if beats(x, best) { x } else { best });
    let Some(extreme) = extreme else {
        return Vec::new();
    };
    let n_equal = set.iter().filter(|&&x| x == extreme).count();
    let part = |&x: &f64| {
        if x == extreme {
            1.0 / n_equal as f64
        } else {
            0.0
        }
    };
    set.iter().map(part).collect()
}

/// For every element the product of all others, without a division, so that it is right of zeros.
fn others(set: &[f64]) -> Vec<f64> {
    let mut products = vec![1.0; set.len()];
    let mut before = 1.0;
    for (product, x) in products.iter_mut().zip(set) {
        *product = before;
        before *= x;
    }
    let mut behind = 1.0;
    for (product, x) in products.iter_mut().zip(set).rev() {
        *product *= behind;
        behind *= x;
    }
    products
}

impl Differentiate for CumSum {
    fn kind(&self, asked: Asked) -> GradientKind {
        asked.first_alone()
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let dy = at.dy()?;
        let mut gradient = at.zeros(0)?;
        lines(at)?.for_each(|line| {
            let line = in_order(line, self.reverse);
            // The sums from an element on, or from the next.
            let mut behind = 0.0;
            for &i in line.iter().rev() {
                gradient[i] = if self.exclusive {
                    behind
                } else {
                    behind + dy[i]
                };
                behind += dy[i];
            }
        });
        Ok(gradient)
    }
}

impl Differentiate for CumProd {
    fn kind(&self, asked: Asked) -> GradientKind {
        asked.first_alone()
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let (x, dy) = (at.floats(0)?, at.dy()?);
        let mut gradient = at.zeros(0)?;
        lines(at)?.for_each(|line| {
            let line = in_order(line, self.reverse);
            for (result, &j) in line.iter().enumerate() {
                // The product that this result is.
                let n_factors = if self.exclusive { result } else { result + 1 };
                let factors: Vec<f64> = line[..n_factors].iter().map(|&i| x[i]).collect();
                for (&i, slope) in line.iter().zip(others(&factors)) {
                    gradient[i] += slope * dy[j];
                }
            }
        });
        Ok(gradient)
    }
}

fn in_order(line: &[usize], reverse: bool) -> Vec<usize> {
    match reverse {
        true => line.iter().rev().copied().collect(),
        false => line.to_vec(),
    }
}

/// The lines along the axis that the second operand says.
fn lines(at: &At<'_>) -> Result<Lines, OpError> {
    let axis = at.floats(1)?;
    let axis = axis.first().ok_or_else(|| op_error!("no axis"))?;
    let shape = at.shape(0)?;
    Ok(Lines::new(shape, resolve_axis(*axis as i64, shape.len())?))
}
