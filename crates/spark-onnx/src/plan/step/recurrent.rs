//! Recurrent networks, one direction.

use std::sync::Arc;

use super::lowered_step::LoweredStep;
use crate::graph::{Cell, Direction, Unary};
use crate::plan::view::View;
use crate::plan::weights::Weights;

/// A recurrent network over `[time, batch, in]`, one direction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecurrentStep {
    /// Sequence `[time, batch, in]`.
    pub(crate) x: View,
    /// Input weights, one tap: `[in][gates * hidden]`.
    pub(crate) w: Weights,
    /// Recurrent weights, one tap: `[hidden][gates * hidden]`.
    pub(crate) r: Weights,
    /// Input bias `[gates * hidden]`.
    pub(crate) w_bias: Arc<Vec<f32>>,
    /// Recurrent bias `[gates * hidden]`.
    pub(crate) r_bias: Arc<Vec<f32>>,
    /// Peephole weights `[3 * hidden]` of an LSTM.
    pub(crate) peephole: Option<Arc<Vec<f32>>>,
    /// First state `[batch, hidden]`; zeros where left out.
    pub(crate) h0: Option<View>,
    /// First cell `[batch, hidden]`; zeros where left out.
    pub(crate) c0: Option<View>,
    /// All states `[time, batch, hidden]`, if wanted.
    pub(crate) y: Option<View>,
    /// Last state `[batch, hidden]`, dense.
    pub(crate) h: View,
    /// Last cell `[batch, hidden]`, dense.
    pub(crate) c: Option<View>,
    /// Gates of every time step, `[time * batch, gates * hidden]`, scratch.
    pub(crate) gates: View,
    /// `h R` of one time step, `[batch, gates * hidden]`, scratch.
    pub(crate) recurrent: View,
    pub(crate) cell: Cell,
    /// Forward or reverse; two steps make a bidirectional network.
    pub(crate) direction: Direction,
    /// Activations of this direction in ONNX's order.
    pub(crate) activations: [Unary; 3],
}

impl LoweredStep for RecurrentStep {
    fn kind(&self) -> &'static str {
        "recurrent"
    }

    fn views_read(&self) -> Vec<&View> {
        std::iter::once(&self.x)
            .chain(&self.h0)
            .chain(&self.c0)
            .collect()
    }

    fn views_written(&self) -> Vec<&View> {
        let always = [&self.h, &self.gates, &self.recurrent].into_iter();
        always.chain(&self.y).chain(&self.c).collect()
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        let always = [
            &mut self.x,
            &mut self.h,
            &mut self.gates,
            &mut self.recurrent,
        ];
        let optional = [&mut self.h0, &mut self.c0, &mut self.y, &mut self.c];
        let optional = optional.into_iter().flatten();
        always.into_iter().chain(optional).collect()
    }

    fn macs(&self) -> u64 {
        let (rows, columns) = (self.gates.axes[0].extent, self.gates.axes[1].extent);
        (rows * columns * (self.w.in_per_group + self.r.in_per_group)) as u64
    }

    fn weight_bytes(&self) -> usize {
        let peephole = self.peephole.as_ref().map_or(0, |p| p.len());
        let biases = self.w_bias.len() + self.r_bias.len();
        4 * (self.w.len() + self.r.len() + biases + peephole)
    }

    fn forget_weights(&mut self) {
        self.w.forget();
        self.r.forget();
    }
}
