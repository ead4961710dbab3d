//! The inputs of a product with weights, as the GEMM of fewer bits takes them: for calibration.
//!
//! Deliberately absent: groups, transposed convolutions, products of two computed operands.

use super::geometry::{Geometry, Place, index_of};
use crate::cpu::memory::Memory;
use crate::plan::{Step, Storage};

/// What stands in the operand of a product now.
pub(crate) struct ProductInputs<'a> {
    geometry: Geometry,
    x: Place,
    /// Lends the operand.
    _memory: &'a Memory,
}

impl<'a> ProductInputs<'a> {
    /// Those of `step`, if it is a product with weights in one group, whose views are of the plan that `memory` is of.
    pub(crate) fn of(step: &Step, memory: &'a Memory) -> Option<Self> {
        let (geometry, x, strides) = match step {
            Step::Conv(s) if s.weights.groups == 1 && !s.transposed => {
                let strides = [0, 2, 3].map(|axis| s.x.axes[axis].stride);
                (Geometry::of_conv(s), &s.x, strides)
            }
            Step::Linear(s) => (Geometry::of_linear(s), &s.x, [0, s.x.axes[0].stride, 0]),
            _ => return None,
        };
        (memory.storage(x) == Storage::F32).then(|| Self {
            geometry,
            x: Place {
                start: memory.f32(x),
                strides,
            },
            _memory: memory,
        })
    }

    /// Rows of the product.
    pub(crate) fn n_rows(&self) -> usize {
        self.geometry.rows()
    }

    /// Calls `each` with the channels of every pixel.
    pub(crate) fn for_each_pixel<E>(
        &self,
        mut each: impl FnMut(&[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        (0..self.geometry.pixels()).try_for_each(|pixel| {
            let from = self.x.at(index_of(pixel, self.geometry.input)).cast_const();
            // SAFETY: the pixel lies inside a view that was checked when the memory was made, whose channels have
            // unit stride by the step's contract; the memory is lent, so that nothing writes it.
            each(unsafe { std::slice::from_raw_parts(from, self.geometry.channels) })
        })
    }

    /// Writes row `row` of the product, `[tap][channels]`.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub(crate) fn write_row(&self, row: usize, to: &mut [f32]) {
        assert!(row < self.n_rows(), "row {row} of {}", self.n_rows());
        // SAFETY: `x` is where the operand is, as in `for_each_pixel`.
        unsafe { self.geometry.gather(&self.x, row, to) };
    }
}
