//! Resizing: linear along each axis, so that its gradient is a product with the weights turned.

use super::operator::{At, Backward, not_written};
use crate::building::Built;
use crate::graph::{AffineGrid, GridSample, MatMul, Resize, RoiAlign, resolve_resize};
use crate::reference::gradient::taps_of;
use crate::reference::resize_changes;

impl Backward for Resize {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let shape = at.shape(0)?;
        let operand = |i| at.optional(i).map(|id| at.builder.operand(id));
        let axes = resolve_resize(self, &shape, operand(1), operand(2), operand(3))?;
        let mut gradient = at.dy()?;
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.retain(|&axis| resize_changes(self, &axes[axis]));
        // Axes that become shorter on the way back first: nothing in between is larger than operand and result.
        order.sort_by_key(|&axis| axes[axis].output < axes[axis].input);
        let b = &mut *at.builder;
        for axis in order {
            let (input, output) = (axes[axis].input, axes[axis].output);
            b.take(&[input, output])?;
            let mut weights = vec![0.0; input * output];
            for (o, taps) in taps_of(self, &axes[axis]).iter().enumerate() {
                for &(i, weight) in taps {
                    weights[i * output + o] += weight;
                }
            }
            let dtype = b.dtype(gradient);
            let weights = b.floats(dtype, &[input, output], weights)?;
            // [before, axis, behind], of which the last two are a matrix.
            let whole = b.shape(gradient);
            let before: usize = whole[..axis].iter().product();
            let behind: usize = whole[axis + 1..].iter().product();
            let matrices = b.reshape(gradient, &[before, output, behind])?;
            let product = b.op(MatMul, &[weights, matrices])?;
            let mut resized = whole;
            resized[axis] = input;
            gradient = b.reshape(product, &resized)?;
        }
        Ok(gradient)
    }
}

not_written!(GridSample AffineGrid RoiAlign);
