//! Views: which elements of a buffer a tensor is made of.
//!
//! ```text
//! element (i0, i1, ...) is buffer[offset + i0 * stride0 + i1 * stride1 + ...]
//! [1, 64, 8, 16] channels last: strides [8192, 1, 1024, 64]
//! ```
//!
//! Axes are in the model's (ONNX) order; strides are in elements and may be zero
//! (broadcast) or negative (reversed).

/// Most axes a tensor of a plan may have.
pub(crate) const MAX_RANK: usize = 8;

/// Position of a buffer in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BufferId(pub usize);

/// One axis of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Number of positions; may be 0.
    pub(crate) extent: usize,
    /// Elements from one to the next.
    pub(crate) stride: isize,
}

/// Some elements of a buffer in some order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// Buffer that holds the elements.
    pub(crate) buffer: BufferId,
    /// Element of the buffer where every index is zero.
    pub(crate) offset: usize,
    /// Axes in the model's order; empty for a scalar.
    pub(crate) axes: Vec<Axis>,
}

impl View {
    /// A dense view of `shape` whose axes lie in memory in `order`, outermost first.
    pub(crate) fn dense(buffer: BufferId, shape: &[usize], order: &[usize]) -> Self {
        let mut axes = vec![
            Axis {
                extent: 1,
                stride: 0
            };
            shape.len()
        ];
        let mut stride = 1isize;
        for &axis in order.iter().rev() {
            axes[axis] = Axis {
                extent: shape[axis],
                stride,
            };
            stride *= shape[axis] as isize;
        }
        Self {
            buffer,
            offset: 0,
            axes,
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.axes.len()
    }

    /// Elements from the first to that of matrix `batch`, counted in row-major order, of the matrices along the last two axes.
    pub(crate) fn batch_offset(&self, batch: usize) -> isize {
        let (mut rest, mut offset) = (batch, 0);
        for axis in self.axes[..self.rank() - 2].iter().rev() {
            offset += (rest % axis.extent) as isize * axis.stride;
            rest /= axis.extent;
        }
        offset
    }

    /// Strides of the last two axes.
    pub(crate) fn matrix_strides(&self) -> (isize, isize) {
        let rank = self.rank();
        (self.axes[rank - 2].stride, self.axes[rank - 1].stride)
    }

    /// Extent of every axis.
    pub(crate) fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(|a| a.extent).collect()
    }

    /// Number of positions: elements that are repeated count each time.
    pub(crate) fn len(&self) -> usize {
        self.axes.iter().map(|a| a.extent).product()
    }

    /// Whether there are no elements.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements lie side by side with the axes in `order`, outermost
    /// first. Strides of axes of extent 1 do not matter.
    pub(crate) fn is_dense_in(&self, order: &[usize]) -> bool {
        let mut stride = 1isize;
        for &axis in order.iter().rev() {
            let a = self.axes[axis];
            if a.extent != 1 && a.stride != stride {
                return false;
            }
            stride *= a.extent as isize;
        }
        true
    }

    /// Whether the elements lie side by side in row-major order.
    pub(crate) fn is_row_major(&self) -> bool {
        self.is_dense_in(&(0..self.rank()).collect::<Vec<_>>())
    }

    /// Axes from the widest stride to the narrowest; equal strides keep their order
    /// and axes of extent 1 or stride 0 stay where the model has them, counted outermost.
    pub(crate) fn memory_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        let key = |&axis: &usize| {
            let a = self.axes[axis];
            if a.extent == 1 || a.stride == 0 {
                isize::MIN
            } else {
                -a.stride.abs()
            }
        };
        order.sort_by_key(key);
        order
    }

    /// The same elements under `shape`, if strides can say so without a copy.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        if self.is_empty() {
            let order: Vec<usize> = (0..shape.len()).collect();
            return Some(Self {
                offset: self.offset,
                ..Self::dense(self.buffer, shape, &order)
            });
        }
        let old: Vec<Axis> = self
            .axes
            .iter()
            .copied()
            .filter(|a| a.extent != 1)
            .collect();
        let mut axes = Vec::with_capacity(shape.len());
        let (mut next, mut at) = (0, 0);
        while at < shape.len() {
            if shape[at] == 1 {
                axes.push(Axis {
                    extent: 1,
                    stride: 0,
                });
                at += 1;
                continue;
            }
            // One group: the shortest runs of old and new axes with equal products.
            let (mut n_old, mut n_new) = (old.get(next)?.extent, shape[at]);
            let (mut end_old, mut end_new) = (next + 1, at + 1);
            while n_old != n_new {
                if n_old < n_new {
                    n_old *= old.get(end_old)?.extent;
                    end_old += 1;
                } else {
                    n_new *= shape.get(end_new)?;
                    end_new += 1;
                }
            }
            // The old run must itself be contiguous to be cut anew.
            for pair in old[next..end_old].windows(2) {
                if pair[0].stride != pair[1].stride * pair[1].extent as isize {
                    return None;
                }
            }
            let mut stride = old[end_old - 1].stride;
            let start = axes.len();
            for &extent in shape[at..end_new].iter().rev() {
                axes.push(Axis { extent, stride });
                stride *= extent as isize;
            }
            axes[start..].reverse();
            next = end_old;
            at = end_new;
        }
        (next == old.len()).then_some(Self {
            buffer: self.buffer,
            offset: self.offset,
            axes,
        })
    }

    /// Axes in another order: output axis `i` is axis `perm[i]`.
    pub(crate) fn permuted(&self, perm: &[usize]) -> Self {
        Self {
            buffer: self.buffer,
            offset: self.offset,
            axes: perm.iter().map(|&p| self.axes[p]).collect(),
        }
    }

    /// Broadcast to `shape` by NumPy's rule: axes are matched from the last, and an
    /// extent of 1 or a missing axis repeats. `shape` must be a valid target.
    pub(crate) fn broadcast_to(&self, shape: &[usize]) -> Self {
        let missing = shape.len() - self.rank();
        let axes = shape
            .iter()
            .enumerate()
            .map(|(i, &extent)| match i.checked_sub(missing) {
                Some(own) if self.axes[own].extent == extent => self.axes[own],
                _ => Axis { extent, stride: 0 },
            })
            .collect();
        Self {
            buffer: self.buffer,
            offset: self.offset,
            axes,
        }
    }

    /// Positions `start, start + step, ...` (`extent` of them) along `axis`.
    pub(crate) fn sliced(&self, axis: usize, start: usize, step: isize, extent: usize) -> Self {
        let mut view = self.clone();
        let old = view.axes[axis];
        view.offset = (view.offset as isize + start as isize * old.stride) as usize;
        // A step from the only position leads nowhere, and may be of any length.
        let step = if extent > 1 { step } else { 1 };
        view.axes[axis] = Axis {
            extent,
            stride: old.stride * step,
        };
        view
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: BufferId = BufferId(0);

    #[test]
    fn channels_last_flattens_only_when_the_image_is_one_pixel() {
        let image = View::dense(B, &[1, 64, 8, 16], &[0, 2, 3, 1]);
        assert_eq!(image.reshaped(&[1, 8192]), None);
        let pixel = View::dense(B, &[1, 64, 1, 1], &[0, 2, 3, 1]);
        let flat = pixel.reshaped(&[64]).expect("a single pixel is contiguous");
        assert!(flat.is_row_major());
    }

    #[test]
    fn reshape_splits_and_joins_contiguous_axes() {
        let v = View::dense(B, &[2, 3, 20], &[0, 1, 2]);
        let w = v
            .reshaped(&[6, 1, 4, 5])
            .expect("row-major reshapes freely");
        assert!(w.is_row_major());
        let permuted = v.permuted(&[1, 0, 2]);
        assert_eq!(permuted.reshaped(&[6, 20]), None);
        let cut = permuted
            .reshaped(&[3, 2, 4, 5])
            .expect("only the last axis is cut");
        assert_eq!(cut.axes[2].stride, 5);
    }

    #[test]
    fn broadcast_repeats_missing_and_unit_axes() {
        let v = View::dense(B, &[3, 1], &[0, 1]).broadcast_to(&[2, 3, 4]);
        let strides: Vec<isize> = v.axes.iter().map(|a| a.stride).collect();
        assert_eq!(strides, [0, 1, 0]);
    }

    #[test]
    fn slices_move_the_origin_and_scale_the_stride() {
        let v = View::dense(B, &[10], &[0]).sliced(0, 9, -3, 4);
        assert_eq!((v.offset, v.axes[0].stride, v.axes[0].extent), (9, -3, 4));
    }

    #[test]
    fn a_step_behind_the_only_element_may_have_any_length() {
        for step in [1 << 62, -(1 << 62), isize::MAX, isize::MIN] {
            let v = View::dense(B, &[4, 8], &[0, 1]).sliced(0, 3, step, 1);
            assert_eq!((v.offset, v.len()), (24, 8));
        }
    }
}
