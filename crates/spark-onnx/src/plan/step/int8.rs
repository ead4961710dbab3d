//! Products of 8-bit integers.
//!
//! ```text
//! s = sum of (x - x_zero) (w - w_zero) + bias                    bytes, exactly
//! y = s,  saturate(round(s * multiplier) + y_zero),  activation(s * multiplier + bias)    i64, bytes, f32
//! ```

use std::sync::Arc;

use super::conv::Window;
use super::epilogue::Activation;
use super::lowered_step::{LoweredStep, shape};
use crate::plan::storage::Storage;
use crate::plan::view::View;
use crate::plan::weights::Weights;
use crate::tensor::DType;

/// The right operand of a product.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Int8Weights {
    /// Elements of a constant, which are whole and within bytes.
    Known(Weights),
    /// Computed, held as f32 or bytes: `[n, m, c, kh, kw]` with `n` 1 or that of the picture, which sees
    /// only its own; of one group where there is more than one.
    Computed {
        /// Where they are.
        view: View,
        /// Groups of channels that do not see each other.
        groups: usize,
    },
}

/// Zero points, scales and bounds of a product.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Quantisation {
    /// Known at load.
    Known(KnownQuantisation),
    /// Views of one value or one per output channel.
    Computed(ComputedQuantisation),
}

/// Numbers of a product known at load; lists are of one value, or one per output channel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownQuantisation {
    /// What stands for zero in `x`.
    pub(crate) x_zero: i32,
    /// The same of the weights.
    pub(crate) w_zero: Arc<Vec<i32>>,
    /// Added to the sums; empty for nothing.
    pub(crate) bias: Arc<Vec<i32>>,
    /// What sums are multiplied by, where results are not the sums.
    pub(crate) multipliers: Arc<Vec<f32>>,
    /// What stands for zero in a result of bytes.
    pub(crate) y_zero: i32,
    /// Least and greatest result of bytes.
    pub(crate) bounds: (i32, i32),
    /// Added to floats; empty for nothing.
    pub(crate) float_bias: Arc<Vec<f32>>,
    /// Applied to floats.
    pub(crate) activation: Activation,
}

/// Numbers of a product that are computed: f32, but for the bias, which is i64.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ComputedQuantisation {
    /// What stands for zero in `x`, one value.
    pub(crate) x_zero: Option<View>,
    /// What stands for zero in the weights.
    pub(crate) w_zero: Option<View>,
    /// Added to the sums.
    pub(crate) bias: Option<View>,
    /// Scales of `x`, of the weights and of a result of bytes; none where results are sums.
    pub(crate) scales: Vec<View>,
    /// What stands for zero in a result of bytes, one value.
    pub(crate) y_zero: Option<View>,
}

impl ComputedQuantisation {
    fn views(&self) -> impl Iterator<Item = &View> {
        let lists = [&self.x_zero, &self.w_zero, &self.bias, &self.y_zero];
        lists.into_iter().flatten().chain(&self.scales)
    }

    fn views_mut(&mut self) -> impl Iterator<Item = &mut View> {
        let lists = [
            &mut self.x_zero,
            &mut self.w_zero,
            &mut self.bias,
            &mut self.y_zero,
        ];
        lists.into_iter().flatten().chain(&mut self.scales)
    }
}

/// A convolution of bytes, of which a GEMM is one of a window of one tap. `x` and `y` are `[n, c, h, w]` with
/// unit channel stride.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Int8Step {
    pub(crate) x: View,
    pub(crate) y: View,
    /// I8 or U8.
    pub(crate) x_type: DType,
    pub(crate) weights: Int8Weights,
    /// I8 or U8.
    pub(crate) w_type: DType,
    pub(crate) window: Window,
    pub(crate) quantisation: Quantisation,
    /// I32 for the sums, I8 or U8 for bytes, F32 for floats.
    pub(crate) y_type: DType,
}

impl Int8Step {
    /// Groups of channels that do not see each other.
    pub(crate) fn groups(&self) -> usize {
        match &self.weights {
            Int8Weights::Known(weights) => weights.groups,
            Int8Weights::Computed { groups, .. } => *groups,
        }
    }

    /// Taps of the window.
    pub(crate) fn taps(&self) -> usize {
        self.window.kernel[0] * self.window.kernel[1]
    }

    /// Input channels of one group.
    pub(crate) fn in_per_group(&self) -> usize {
        self.x.axes[1].extent / self.groups().max(1)
    }

    /// Output channels of one group.
    pub(crate) fn out_per_group(&self) -> usize {
        self.y.axes[1].extent / self.groups().max(1)
    }
}

/// How elements of a type are held where a product of bytes reads or writes them.
pub(crate) fn int8_storage(dtype: DType) -> Storage {
    match dtype {
        DType::I8 => Storage::I8,
        DType::U8 => Storage::U8,
        other => Storage::of(other),
    }
}

impl LoweredStep for Int8Step {
    fn kind(&self) -> &'static str {
        match self.taps() {
            1 => "int8_linear",
            _ => "int8_conv",
        }
    }

    fn views_read(&self) -> Vec<&View> {
        let mut views = vec![&self.x];
        if let Int8Weights::Computed { view, .. } = &self.weights {
            views.push(view);
        }
        if let Quantisation::Computed(computed) = &self.quantisation {
            views.extend(computed.views());
        }
        views
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        let mut views = vec![&mut self.x, &mut self.y];
        if let Int8Weights::Computed { view, .. } = &mut self.weights {
            views.push(view);
        }
        if let Quantisation::Computed(computed) = &mut self.quantisation {
            views.extend(computed.views_mut());
        }
        views
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        let lists = match &self.quantisation {
            Quantisation::Known(_) => true,
            Quantisation::Computed(computed) => {
                let mut views = computed.views();
                let wanted = |view: &View| match computed.bias.as_ref() == Some(view) {
                    true => Storage::I64,
                    false => Storage::F32,
                };
                views.all(|view| storage(view) == wanted(view))
            }
        };
        let weights = match &self.weights {
            Int8Weights::Known(_) => true,
            Int8Weights::Computed { view, .. } => {
                [Storage::F32, int8_storage(self.w_type)].contains(&storage(view))
            }
        };
        lists
            && weights
            && storage(&self.x) == int8_storage(self.x_type)
            && storage(&self.y) == int8_storage(self.y_type)
    }

    fn macs(&self) -> u64 {
        (self.y.len() * self.taps() * self.in_per_group()) as u64
    }

    fn weight_bytes(&self) -> usize {
        let lists = match &self.quantisation {
            Quantisation::Known(known) => {
                let values = known.w_zero.len() + known.bias.len();
                values + known.multipliers.len() + known.float_bias.len()
            }
            Quantisation::Computed(_) => 0,
        };
        match &self.weights {
            Int8Weights::Known(weights) => 4 * (weights.len() + lists),
            Int8Weights::Computed { .. } => 4 * lists,
        }
    }

    fn forget_weights(&mut self) {
        if let Int8Weights::Known(weights) = &mut self.weights {
            weights.forget();
        }
    }

    fn describe(&self) -> String {
        let [height, width] = self.window.kernel;
        format!(
            "{} {} -> {} {}, {height}x{width} {}",
            self.x_type,
            shape(&self.x),
            self.y_type,
            shape(&self.y),
            self.w_type,
        )
    }
}
