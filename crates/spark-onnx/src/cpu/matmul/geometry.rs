//! Which values of an operand make up a row of the GEMM: a pixel, or the patch under a window.
//!
//! ```text
//! operand  [sample][y][x][channels]        channels have unit stride
//! row      of result (b, y, x):  [tap][channels], a tap outside the image is zeros
//! ```
//!
//! Deliberately absent: groups and transposed convolutions.

use crate::plan::{ConvStep, LinearStep, View, Window};

/// Shapes of one GEMM; that of a linear step is a convolution over `[1, rows, 1]`.
pub(super) struct Geometry {
    /// Samples, height and width read.
    pub(super) input: [usize; 3],
    /// Samples, height and width written.
    pub(super) output: [usize; 3],
    /// Channels read.
    pub(super) channels: usize,
    pub(super) window: Window,
    /// Whether pixels of the operand lie evenly spaced.
    pub(super) is_even: bool,
}

impl Geometry {
    pub(super) fn of_linear(step: &LinearStep) -> Self {
        Self {
            input: [1, step.x.axes[0].extent, 1],
            output: [1, step.y.axes[0].extent, 1],
            channels: step.x.axes[1].extent,
            window: Window {
                kernel: [1, 1],
                stride: [1, 1],
                dilation: [1, 1],
                pad: [0, 0],
            },
            is_even: true,
        }
    }

    pub(super) fn of_conv(step: &ConvStep) -> Self {
        let extents = |view: &View| [0, 2, 3].map(|axis| view.axes[axis].extent);
        let strides = [0, 2, 3].map(|axis| step.x.axes[axis].stride);
        Self {
            input: extents(&step.x),
            output: extents(&step.y),
            channels: step.x.axes[1].extent,
            window: step.window,
            is_even: even_stride(extents(&step.x), strides).is_some(),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.output.iter().product()
    }

    pub(super) fn pixels(&self) -> usize {
        self.input.iter().product()
    }

    /// Whether a row of the GEMM is a pixel, and pixels are `copied` or evenly spaced anyway.
    pub(super) fn is_rows_as_they_are(&self, copied: bool) -> bool {
        let window = &self.window;
        window.kernel == [1, 1]
            && window.stride == [1, 1]
            && window.pad == [0, 0]
            && self.input == self.output
            && (copied || self.is_even)
    }

    /// The patch under result `row`, `[tap][channels]`; taps outside are zeros.
    ///
    /// # Safety
    ///
    /// `x` must be where the operand is.
    pub(super) unsafe fn gather(&self, x: &Place, row: usize, patch: &mut [f32]) {
        let [_, h, w] = self.input;
        let [b, oy, ox] = index_of(row, self.output);
        for (tap, to) in patch.chunks_exact_mut(self.channels).enumerate() {
            let (ky, kx) = (tap / self.window.kernel[1], tap % self.window.kernel[1]);
            let source = |out: usize, tap: usize, axis: usize, extent: usize| {
                let reach = out * self.window.stride[axis] + tap * self.window.dilation[axis];
                let at = reach.checked_sub(self.window.pad[axis])?;
                (at < extent).then_some(at)
            };
            match (source(oy, ky, 0, h), source(ox, kx, 1, w)) {
                (Some(y), Some(x_at)) => {
                    let from = x.at([b, y, x_at]).cast_const();
                    // SAFETY: a pixel of the operand, whose channels have unit stride.
                    to.copy_from_slice(unsafe { std::slice::from_raw_parts(from, self.channels) });
                }
                _ => to.fill(0.0),
            }
        }
    }
}

/// Position in `extents` of element `index`.
pub(super) fn index_of(index: usize, [_, height, width]: [usize; 3]) -> [usize; 3] {
    [
        index / (height * width),
        index / width % height,
        index % width,
    ]
}

/// From one element to the next, if they are as far apart everywhere.
pub(super) fn even_stride(extents: [usize; 3], strides: [isize; 3]) -> Option<isize> {
    let (mut stride, mut inner) = (None, 1);
    for (extent, step) in extents.into_iter().zip(strides).rev() {
        if extent > 1 {
            match stride {
                None => stride = Some(step),
                Some(stride) if step == stride * inner => {}
                Some(_) => return None,
            }
        }
        inner *= extent as isize;
    }
    Some(stride.unwrap_or(0))
}

/// Where an operand or result is; strides over samples, rows and columns.
pub(super) struct Place {
    pub(super) start: *mut f32,
    pub(super) strides: [isize; 3],
}

// SAFETY: the pointers go into buffers that outlive the run; tasks write disjoint parts.
unsafe impl Sync for Place {}

impl Place {
    pub(super) fn at(&self, index: [usize; 3]) -> *mut f32 {
        let offsets = self.strides.iter().zip(index);
        let offset = offsets.map(|(stride, i)| stride * i as isize).sum();
        self.start.wrapping_offset(offset)
    }
}
