//! Convolutions in which a channel of y sees its own channel of x, as `kernels/plan_depthwise.cu` computes them.
//!
//! Windows of other widths, strides and dilations along columns, operands that are stored unlike, and weights that are not
//! finite are the plain kernel's.

use half::f16;

use super::{Launch, Launching, Work, check};
use crate::cuda::blocks::Stored;
use crate::cuda::refused::Refused;
use crate::cuda::structures;
use crate::cuda::variants::DepthwiseKernel;
use crate::cuda::walk::{self, count, product};
use crate::plan::ConvStep;

/// Columns of a thread.
const COLUMNS: usize = 4;

impl DepthwiseKernel {
    fn of(step: &ConvStep) -> Option<Self> {
        let window = &step.window;
        if !step.is_depthwise() || window.dilation[1] != 1 {
            return None;
        }
        match (window.kernel[1], window.stride[1]) {
            (3, 1) => Some(Self::Of3),
            (5, 1) => Some(Self::Of5),
            (7, 1) => Some(Self::Of7),
            (3, 2) => Some(Self::Of3By2),
            (5, 2) => Some(Self::Of5By2),
            (7, 2) => Some(Self::Of7By2),
            _ => None,
        }
    }
}

impl Launching<'_> {
    /// The launch of a convolution whose extents have been found to fit; nothing where it is the plain kernel's.
    pub(super) fn depthwise(
        &mut self,
        index: usize,
        step: &ConvStep,
    ) -> Result<Option<Launch>, Refused> {
        let Some(kernel) = DepthwiseKernel::of(step) else {
            return Ok(None);
        };
        let (x, y, w, window) = (&step.x, &step.y, &step.weights, &step.window);
        let stored = self.weights;
        let is_finite = |value: &f32| match stored {
            Stored::F16 => f16::from_f32(*value).is_finite(),
            _ => value.is_finite(),
        };
        // What is outside is multiplied: zero by an infinity would be NaN.
        if self.blocks.held(x.buffer)?.stored != stored || !w.all(is_finite) {
            return Ok(None);
        }
        let [n, channels, height, width] = [0, 1, 2, 3].map(|axis| y.axes[axis].extent);
        check(w.len() == w.taps * channels, "weights that were given up")?;
        let column_groups = width.div_ceil(COLUMNS);
        let n_threads = product([n, height, column_groups, channels])?;
        let epilogue =
            self.epilogue(&step.epilogue, y, channels, |view| Ok(walk::strides(view)))?;
        let weights = self.constants.add_taps(self.blocks, index, w, stored)?;
        let work = structures::Depthwise {
            x: self.blocks.view(x)?,
            y: self.blocks.view(y)?,
            epilogue,
            weights: weights.place(),
            count: n_threads,
            channels: count(channels)?,
            height: count(height)?,
            width: count(width)?,
            column_groups: count(column_groups)?,
            in_height: count(x.axes[2].extent)?,
            in_width: count(x.axes[3].extent)?,
            kernel_height: count(window.kernel[0])?,
            stride: count(window.stride[0])?,
            dilation: count(window.dilation[0])?,
            pad: [count(window.pad[0])?, count(window.pad[1])?],
        };
        let work = Work::Depthwise(kernel, work);
        Ok(Launch::of_elements(n_threads, work))
    }
}
