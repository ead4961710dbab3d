//! Gradients of maximum and average over windows.
//!
//! ```text
//! max      the first largest element of a window has all of its gradient, as in PyTorch
//! average  every element of a window has an equal part, of the number that the sum is divided by
//! ```

use super::super::operator::{Working, times};
use super::super::pool::{global_windows, members};
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::{GlobalPool, Pool, PoolKind, WindowAxis, pool_windows};

impl Differentiate for Pool {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let windows = pool_windows(self, &at.shape(0)?[2..])?;
        over_windows(self.kind, self.count_include_pad, &windows, at)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let taps = self.kernel.iter();
        let taps = taps.fold(1, |n: usize, &k| n.saturating_mul(k));
        let each = times(taps.min(working.read()), 8).saturating_add(128);
        working
            .computed_with(times(working.written(), each).saturating_add(times(working.read(), 8)))
    }
}

impl Differentiate for GlobalPool {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let windows = global_windows(&at.shape(0)?[2..]);
        over_windows(self.kind, false, &windows, at)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.read(), 40))
    }
}

fn over_windows(
    kind: PoolKind,
    count_include_pad: bool,
    windows: &[WindowAxis],
    at: &At<'_>,
) -> Differentiated {
    let members = members(windows, count_include_pad);
    let plane: usize = windows.iter().map(|w| w.input).product();
    let (x, mut dy) = (at.floats(0)?, at.dy()?.iter());
    let mut gradient = at.zeros(0)?;
    if plane == 0 {
        return Ok(gradient);
    }
    for (x, gradient) in x.chunks_exact(plane).zip(gradient.chunks_exact_mut(plane)) {
        for ((inside, counted), dy) in members.iter().zip(dy.by_ref()) {
            match kind {
                PoolKind::Average => inside.iter().for_each(|&i| gradient[i] += dy / counted),
                PoolKind::Max => {
                    let first_largest = |best: usize, i: usize| {
                        if x[i] > x[best] || x[i].is_nan() {
                            i
                        } else {
                            best
                        }
                    };
                    if let Some(best) = inside.iter().copied().reduce(first_largest) {
                        gradient[best] += dy;
                    }
                }
            }
        }
    }
    Ok(gradient)
}
