//! Regions of interest, cell by cell.
//!
//! ```text
//! cell (row, column) of a region = average of its samples, or their maximum
//! sample = sum of four elements, each times its weights along both axes; 0 outside
//! maximum: of each sample's four products, the largest, as in onnxruntime
//! ```
//!
//! Where samples lie, `crate::graph::region_axes` says.

use super::index::strides;
use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one};
use crate::graph::infer::op_error;
use crate::graph::{OpError, PoolKind, RegionAxis, RoiAlign, TensorType, region_axes};
use crate::tensor::{Tensor, TensorData};

impl Evaluate for RoiAlign {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| roi_align(self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn roi_align(op: &RoiAlign, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (x, regions, samples) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
    let &[n, channels, h, w] = x.shape() else {
        return Err(op_error!("`x` has not four axes"));
    };
    let samples = samples_of_regions(samples, n)?;
    let steps = strides(x.shape());
    let (x, regions) = (x.to_f64(), regions.to_f32());
    let mut y = Vec::with_capacity(ty.shape.iter().product());
    for (region, sample) in regions.chunks_exact(4).zip(samples) {
        let axes = region_axes(op, [region[0], region[1], region[2], region[3]])?;
        for channel in 0..channels {
            let plane = &x[sample * steps[0] + channel * steps[1]..][..h * w];
            for row in 0..op.cells[0] {
                for column in 0..op.cells[1] {
                    y.push(cell(op.kind, &axes, [row, column], plane, [h, w]));
                }
            }
        }
    }
    from_floats(ty, y)
}

/// Which of `n` samples each region is of.
pub(super) fn samples_of_regions(indices: &Tensor, n: usize) -> Result<Vec<usize>, OpError> {
    let TensorData::I64(indices) = indices.data() else {
        return Err(op_error!("`batch_indices` is not i64"));
    };
    let known = |&index: &i64| usize::try_from(index).ok().filter(|&sample| sample < n);
    let samples: Option<Vec<usize>> = indices.iter().map(known).collect();
    samples.ok_or_else(|| op_error!("`batch_indices` names samples {indices:?}, there are {n}"))
}

/// What one cell is of a picture of one channel.
fn cell(
    kind: PoolKind,
    [rows, columns]: &[RegionAxis; 2],
    [row, column]: [usize; 2],
    plane: &[f64],
    [h, w]: [usize; 2],
) -> f64 {
    let count = rows.samples * columns.samples;
    let (mut sum, mut most) = (0.0, None::<f64>);
    let seen = for_each_tap([rows, columns], [row, column], [h, w], |element, weight| {
        let product = weight * plane[element];
        sum += product;
        most = Some(most.map_or(product, |most| most.max(product)));
    });
    match kind {
        PoolKind::Average => sum / count.max(1) as f64,
        // A sample outside is 0.
        PoolKind::Max if seen < count => most.unwrap_or(0.0).max(0.0),
        PoolKind::Max => most.unwrap_or(0.0),
    }
}

/// Tells of every element that a cell reads, and with what weight, sample by sample; how many samples lie inside.
pub(super) fn for_each_tap(
    [rows, columns]: [&RegionAxis; 2],
    [row, column]: [usize; 2],
    [h, w]: [usize; 2],
    mut visit: impl FnMut(usize, f64),
) -> usize {
    let (inside_rows, inside_columns) = (rows.inside(h, row), columns.inside(w, column));
    let mut seen = 0;
    for i in inside_rows {
        for j in inside_columns.clone() {
            let taps = rows.taps(h, row, i).zip(columns.taps(w, column, j));
            let Some((y, x)) = taps else { continue };
            seen += 1;
            for (&y, wy) in y.at.iter().zip(y.weight) {
                for (&x, wx) in x.at.iter().zip(x.weight) {
                    visit(y * w + x, f64::from(wy) * f64::from(wx));
                }
            }
        }
    }
    seen
}
