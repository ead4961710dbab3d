//! Attention as one step: what it computes, and what hides scores.

use std::ops::Range;

use super::lowered_step::{LoweredStep, shape, shapes};
use crate::plan::view::View;

/// What hides scores from the softmax.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mask {
    /// Every query attends to every key.
    None,
    /// `[.., m, n]`, added to the scores; unit stride along `n`.
    Added(View),
    /// `[.., m, n]`, unit stride along `n`: where it is zero, the score is replaced.
    Seen {
        /// 0 or 1 per query and key.
        seen: View,
        /// What scores that are not seen become.
        hidden: f32,
    },
}

impl Mask {
    /// The view that hides scores, if there is one.
    pub(crate) fn view(&self) -> Option<&View> {
        match self {
            Self::None => None,
            Self::Added(view) | Self::Seen { seen: view, .. } => Some(view),
        }
    }

    /// The same, to be changed.
    fn view_mut(&mut self) -> Option<&mut View> {
        match self {
            Self::None => None,
            Self::Added(view) | Self::Seen { seen: view, .. } => Some(view),
        }
    }
}

/// `y[b, m, e] = sum over n of softmax over n (mask(scale * q[b, m, d] k[b, n, d])) v[b, n, e]`
/// for every batch index, of which heads are part.
///
/// Batch axes are already broadcast. Those of `q`, `k` and the mask may be cut otherwise than
/// those of `v` and `y`; batches correspond in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttentionStep {
    /// Queries `[.., m, d]` with unit stride along `d`.
    pub(crate) q: View,
    /// Keys `[.., n, d]`.
    pub(crate) k: View,
    /// Values `[.., n, e]`.
    pub(crate) v: View,
    pub(crate) mask: Mask,
    /// Result `[.., m, e]` with unit stride along `e`.
    pub(crate) y: View,
    /// Factor of the scores, within [`AttentionStep::SCALES`].
    pub(crate) scale: f32,
    /// Queries whose scores are all minus infinity give zeros; else NaN, as a softmax does.
    pub(crate) masked: bool,
}

impl AttentionStep {
    /// Factors of the scores: positive, so that the greatest score stays the greatest, and far
    /// from where f32 ends.
    pub(crate) const SCALES: Range<f32> = 1e-30..1e30;

    /// Extents `[m, n, d, e]`: queries, keys, and their and the values' width.
    pub(crate) fn extents(&self) -> [usize; 4] {
        let last = |view: &View, from_end: usize| view.axes[view.rank() - from_end].extent;
        [
            last(&self.q, 2),
            last(&self.k, 2),
            last(&self.q, 1),
            last(&self.y, 1),
        ]
    }

    /// Independent problems: batches times heads.
    pub(crate) fn batches(&self) -> usize {
        let batch = &self.y.axes[..self.y.rank() - 2];
        batch.iter().map(|axis| axis.extent).product()
    }
}

impl LoweredStep for AttentionStep {
    fn kind(&self) -> &'static str {
        "attention"
    }

    fn views_read(&self) -> Vec<&View> {
        let operands = [&self.q, &self.k, &self.v].into_iter();
        operands.chain(self.mask.view()).collect()
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        let views = [&mut self.q, &mut self.k, &mut self.v, &mut self.y];
        views.into_iter().chain(self.mask.view_mut()).collect()
    }

    fn macs(&self) -> u64 {
        let [m, n, d, e] = self.extents();
        (self.batches() * m * n * (d + e)) as u64
    }

    fn describe(&self) -> String {
        format!(
            "{} -> {}, scores *{}{}",
            shapes(&self.views_read()),
            shape(&self.y),
            self.scale,
            match self.mask {
                Mask::None => "",
                Mask::Added(_) => " +mask",
                Mask::Seen { .. } => " where seen",
            }
        )
    }
}
