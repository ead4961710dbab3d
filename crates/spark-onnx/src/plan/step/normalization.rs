//! Softmax and normalisations.

use super::lowered_step::LoweredStep;
use crate::plan::view::View;

/// Softmax over the last axis of rows `[rows, width]` with unit stride along it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SoftmaxStep {
    pub(crate) x: View,
    /// Result; may be the very view of the operand.
    pub(crate) y: View,
    /// The logarithm of it.
    pub(crate) log: bool,
    /// Rows of nothing but minus infinity give zeros; else NaN, as the formula does.
    pub(crate) masked: bool,
}

impl LoweredStep for SoftmaxStep {
    fn kind(&self) -> &'static str {
        "softmax"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.x, &mut self.y]
    }
}

/// Which statistics a normalisation uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormKind {
    /// Mean and variance: layer normalisation.
    MeanVariance,
    /// Mean square alone: root-mean-square normalisation.
    MeanSquare,
}

/// Normalisation of every row of `[rows, width]`, then `* scale + bias` along the width.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NormStep {
    /// Operand, unit stride along the width.
    pub(crate) x: View,
    /// Result, unit stride along the width.
    pub(crate) y: View,
    /// Factor of every element of a row, `[width]`, row-major.
    pub(crate) scale: Option<View>,
    /// Added to every element of a row, `[width]`, row-major.
    pub(crate) bias: Option<View>,
    pub(crate) kind: NormKind,
    /// Added to the variance or mean square.
    pub(crate) epsilon: f32,
}

impl LoweredStep for NormStep {
    fn kind(&self) -> &'static str {
        "norm"
    }

    fn views_read(&self) -> Vec<&View> {
        std::iter::once(&self.x)
            .chain(&self.scale)
            .chain(&self.bias)
            .collect()
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        let views = [&mut self.x, &mut self.y].into_iter();
        views.chain(&mut self.scale).chain(&mut self.bias).collect()
    }
}

/// Normalisation of `[n, c, positions]` per sample and group of channels, then per channel
/// `* scale + bias`. `x` and `y` have any strides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupNormStep {
    pub(crate) x: View,
    pub(crate) y: View,
    /// Factor of every channel, `[c]`.
    pub(crate) scale: View,
    /// Added to every channel, `[c]`.
    pub(crate) bias: View,
    /// Groups; as many as channels for instance normalisation.
    pub(crate) groups: usize,
    /// Added to the variance.
    pub(crate) epsilon: f32,
}

impl LoweredStep for GroupNormStep {
    fn kind(&self) -> &'static str {
        "group_norm"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x, &self.scale, &self.bias]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.x, &mut self.y, &mut self.scale, &mut self.bias]
    }
}
