//! GEMM: by weights known at load, and of two computed operands.

use super::epilogue::Epilogue;
use super::lowered_step::{LoweredStep, shape};
use crate::plan::storage::Storage;
use crate::plan::view::View;
use crate::plan::weights::Weights;

/// `y[m, n] = x[m, k] w[k, n]`, one weight matrix known at load. `x` is `[m, k]` and
/// `y` `[m, n]`, both with unit stride along the last axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LinearStep {
    pub(crate) x: View,
    pub(crate) y: View,
    /// One tap, one group.
    pub(crate) weights: Weights,
    /// What happens to results before they are stored.
    pub(crate) epilogue: Epilogue,
}

impl LoweredStep for LinearStep {
    fn kind(&self) -> &'static str {
        "linear"
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

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        let mut views = self.views_read().into_iter().chain(self.views_written());
        views.all(|view| storage(view).is_float())
    }

    fn macs(&self) -> u64 {
        (self.y.len() * self.weights.in_per_group) as u64
    }

    fn weight_bytes(&self) -> usize {
        4 * self.weights.len() + self.epilogue.bias_bytes()
    }

    fn forget_weights(&mut self) {
        self.weights.forget();
    }

    fn describe(&self) -> String {
        let fused = self.epilogue.describe();
        format!("{} -> {}{fused}", shape(&self.x), shape(&self.y))
    }
}

/// `y[b, m, n] = scale * a[b, m, k] b[b, k, n]` for every batch index. `a` has unit stride
/// along `k`, `y` along `n`; `b` any strides. Operands have the same rank, and batch axes are
/// already broadcast.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MatMulStep {
    pub(crate) a: View,
    pub(crate) b: View,
    pub(crate) y: View,
    /// Factor of the product.
    pub(crate) scale: f32,
}

impl LoweredStep for MatMulStep {
    fn kind(&self) -> &'static str {
        "matmul"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.a, &self.b]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.a, &mut self.b, &mut self.y]
    }

    fn macs(&self) -> u64 {
        self.a.axes.last().map_or(0, |k| self.y.len() * k.extent) as u64
    }
}
