//! Convolution, plain or transposed, grouped or depthwise.

use std::fmt::Write as _;

use super::epilogue::Epilogue;
use super::lowered_step::{LoweredStep, shape};
use crate::plan::storage::Storage;
use crate::plan::view::View;
use crate::plan::weights::Weights;

/// How a two-dimensional window moves over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Extent, height then width.
    pub(crate) kernel: [usize; 2],
    /// Step of the window, height then width.
    pub(crate) stride: [usize; 2],
    /// Step between taps, height then width.
    pub(crate) dilation: [usize; 2],
    /// Border before the first row and column.
    pub(crate) pad: [usize; 2],
}

/// Convolution, plain or transposed. `x` and `y` are `[n, c, h, w]` with unit channel stride.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConvStep {
    pub(crate) x: View,
    pub(crate) y: View,
    /// Weights, taps in row-major order of the window.
    pub(crate) weights: Weights,
    pub(crate) window: Window,
    /// Whether it is a transposed convolution.
    pub(crate) transposed: bool,
    /// What happens to results before they are stored.
    pub(crate) epilogue: Epilogue,
}

impl ConvStep {
    /// Whether every channel sees only itself.
    pub(crate) fn is_depthwise(&self) -> bool {
        !self.transposed
            && self.weights.groups > 1
            && self.weights.in_per_group == 1
            && self.weights.out_per_group == 1
    }

    /// Kernel, then stride, dilation and groups where they are not 1.
    fn describe_window(&self) -> String {
        let w = &self.window;
        let mut text = format!("{}x{}", w.kernel[0], w.kernel[1]);
        let pairs = [("/", w.stride), (" dilated ", w.dilation)];
        for (sign, [a, b]) in pairs.into_iter().filter(|(_, pair)| *pair != [1, 1]) {
            // Writing to a string cannot fail.
            let _ = match a == b {
                true => write!(text, "{sign}{a}"),
                false => write!(text, "{sign}{a}x{b}"),
            };
        }
        if self.weights.groups > 1 {
            let _ = write!(text, " in {} groups", self.weights.groups);
        }
        text
    }
}

impl LoweredStep for ConvStep {
    fn kind(&self) -> &'static str {
        match self.transposed {
            true => "conv_transpose",
            false if self.is_depthwise() => "depthwise",
            false => "conv",
        }
    }

    fn views_read(&self) -> Vec<&View> {
        std::iter::once(&self.x)
            .chain(&self.epilogue.residual)
            .collect()
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        let views = [&mut self.x, &mut self.y].into_iter();
        views.chain(&mut self.epilogue.residual).collect()
    }

    fn macs(&self) -> u64 {
        let w = &self.weights;
        let (served, each) = match self.transposed {
            true => (self.x.len(), w.out_per_group),
            false => (self.y.len(), w.in_per_group),
        };
        (served * w.taps * each) as u64
    }

    fn weight_bytes(&self) -> usize {
        4 * self.weights.len() + self.epilogue.bias_bytes()
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        let mut views = self.views_read().into_iter().chain(self.views_written());
        views.all(|view| storage(view).is_float())
    }

    fn forget_weights(&mut self) {
        self.weights.forget();
    }

    fn describe(&self) -> String {
        format!(
            "{} -> {}, {}{}",
            shape(&self.x),
            shape(&self.y),
            self.describe_window(),
            self.epilogue.describe()
        )
    }
}
