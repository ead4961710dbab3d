//! The positions that the threads of a launch go through, and the strides of every view along them.
//!
//! ```text
//! y [1, 64, 8, 16] channels last     in memory order 8, 16, 64     x along the same axes
//! neighbours that all views step through alike are one axis        [8192]: a copy of dense to dense
//! ```
//!
//! Neighbouring threads write neighbouring elements: axes stand as the result lies in memory.

use super::refused::Refused;
use super::structures::{BATCH_AXES, Shape};
use crate::plan::{Axis, MAX_RANK, View};

/// Positions of one launch at most: their numbers, rounded up to whole blocks, fit 32 bits.
const MOST_POSITIONS: usize = i32::MAX as usize;

/// A number of positions, as kernels count them.
pub(super) fn count(n: usize) -> Result<u32, Refused> {
    match u32::try_from(n) {
        Ok(count) if n <= MOST_POSITIONS => Ok(count),
        _ => Refused::because(format!("{n} positions, at most {MOST_POSITIONS}")),
    }
}

/// The product of some extents.
pub(super) fn product(extents: impl IntoIterator<Item = usize>) -> Result<u32, Refused> {
    let mut extents = extents.into_iter();
    let n = extents.try_fold(1usize, |n, extent| n.checked_mul(extent));
    count(n.unwrap_or(usize::MAX))
}

/// Axes that several views share, one list of strides for each.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) shape: Shape,
    /// By view.
    pub(super) strides: Vec<[i64; MAX_RANK]>,
    /// By axis of the shape, the axis of the views; of the outermost where several became one.
    pub(super) axes: Vec<usize>,
}

impl Walk {
    /// Through all positions of `views`, whose extents are alike; in the memory order of the first.
    pub(super) fn of(views: &[&View]) -> Result<Self, Refused> {
        let order = views[0].memory_order();
        Self::through(views, order.into_iter(), true)
    }

    /// The same, every axis by itself.
    pub(super) fn axis_by_axis(views: &[&View]) -> Result<Self, Refused> {
        let order = views[0].memory_order();
        Self::through(views, order.into_iter(), false)
    }

    /// Through the axes of `views` that `keeps` names.
    pub(super) fn along(views: &[&View], keeps: impl Fn(usize) -> bool) -> Result<Self, Refused> {
        let order = views[0].memory_order();
        Self::through(views, order.into_iter().filter(|&axis| keeps(axis)), true)
    }

    fn through(
        views: &[&View],
        order: impl Iterator<Item = usize>,
        joins: bool,
    ) -> Result<Self, Refused> {
        let mut rows: Vec<(usize, Vec<Axis>)> = Vec::new();
        for axis in order {
            let row: Vec<Axis> = views.iter().map(|view| view.axes[axis]).collect();
            if row.iter().any(|own| own.extent != row[0].extent) {
                return Refused::because("operands and result of different shapes");
            }
            if joins && row[0].extent == 1 {
                continue;
            }
            match rows
                .last_mut()
                .filter(|(_, outer)| joins && is_one_axis(outer, &row))
            {
                Some((_, outer)) => {
                    for (outer, inner) in outer.iter_mut().zip(row) {
                        outer.extent *= inner.extent;
                        outer.stride = inner.stride;
                    }
                }
                None => rows.push((axis, row)),
            }
        }
        let mut shape = Shape {
            n: product(rows.iter().map(|(_, row)| row[0].extent))?,
            rank: rows.len() as u32,
            extents: [1; MAX_RANK],
        };
        let mut strides = vec![[0; MAX_RANK]; views.len()];
        for (at, (_, row)) in rows.iter().enumerate() {
            // Below the number of positions, unless that is 0 and nobody goes there.
            shape.extents[at] = u32::try_from(row[0].extent).unwrap_or(u32::MAX);
            for (strides, axis) in strides.iter_mut().zip(row) {
                strides[at] = axis.stride as i64;
            }
        }
        Ok(Self {
            shape,
            strides,
            axes: rows.into_iter().map(|(axis, _)| axis).collect(),
        })
    }
}

/// Whether every view steps from the end of the inner axis on to the next position of the outer one.
fn is_one_axis(outer: &[Axis], inner: &[Axis]) -> bool {
    let mut pairs = outer.iter().zip(inner);
    pairs.all(|(outer, inner)| {
        let reach = isize::try_from(inner.extent)
            .ok()
            .and_then(|extent| inner.stride.checked_mul(extent));
        reach == Some(outer.stride)
    })
}

/// Strides of a view as kernels take them, the first axis first.
pub(super) fn strides(view: &View) -> [i64; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    for (to, axis) in strides.iter_mut().zip(&view.axes) {
        *to = axis.stride as i64;
    }
    strides
}

/// Batch extents and strides of a view of matrices: batch axes end at [`BATCH_AXES`], the matrix stands behind.
pub(super) fn matrices(view: &View) -> Result<([u32; BATCH_AXES], [i64; MAX_RANK]), Refused> {
    let Some(n_batch) = view.rank().checked_sub(2).filter(|&n| n <= BATCH_AXES) else {
        return Refused::because(format!("a matrix of {} axes", view.rank()));
    };
    let (mut batch, mut strides) = ([1; BATCH_AXES], [0; MAX_RANK]);
    for (axis, own) in view.axes.iter().enumerate() {
        let at = axis + BATCH_AXES - n_batch;
        strides[at] = own.stride as i64;
        if at < BATCH_AXES {
            batch[at] = count(own.extent)?;
        }
    }
    Ok((batch, strides))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::BufferId;

    const B: BufferId = BufferId(0);

    #[test]
    fn dense_views_are_one_axis_in_any_common_order() {
        let image = View::dense(B, &[1, 64, 8, 16], &[0, 2, 3, 1]);
        let walk = Walk::of(&[&image, &image]).unwrap();
        assert_eq!((walk.shape.n, walk.shape.rank), (8192, 1));
        assert_eq!(walk.strides[1][0], 1);
    }

    #[test]
    fn a_transposed_copy_keeps_its_axes_in_the_order_of_the_result() {
        let from = View::dense(B, &[2, 3, 4], &[0, 1, 2]);
        let to = View::dense(B, &[2, 3, 4], &[0, 2, 1]);
        let walk = Walk::of(&[&to, &from]).unwrap();
        assert_eq!(
            (walk.shape.rank, &walk.shape.extents[..3]),
            (3, &[2, 4, 3][..])
        );
        assert_eq!(walk.strides[1][..3], [12, 1, 4]);
        assert_eq!(walk.axes, [0, 2, 1]);
    }

    #[test]
    fn what_is_repeated_is_an_axis_of_its_own() {
        let to = View::dense(B, &[5, 6], &[0, 1]);
        let row = View::dense(B, &[6], &[0]).broadcast_to(&[5, 6]);
        let walk = Walk::of(&[&to, &row]).unwrap();
        assert_eq!((walk.shape.rank, walk.strides[1][0]), (2, 0));
        assert!(Walk::of(&[&to, &View::dense(B, &[5, 7], &[0, 1])]).is_err());
    }

    #[test]
    fn more_positions_than_a_launch_has_are_refused() {
        assert!(count(1 << 31).is_err() && product([usize::MAX, 2]).is_err());
        assert_eq!(product([3, 0, 5]).unwrap(), 0);
    }
}
