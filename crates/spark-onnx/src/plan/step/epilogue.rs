//! What happens to the results of a GEMM or convolution before they are stored.
//!
//! ```text
//! y = activation(sum + bias + residual)     or     activation(sum + bias) + residual
//! ```

use std::sync::Arc;

use crate::graph::Unary;
use crate::plan::view::View;

/// A function applied to every result of a GEMM or convolution before it is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Activation {
    /// Results stay as they are.
    None,
    /// `min(max(x, low), high)`; ReLU is `(0, inf)`.
    Clamp {
        /// What smaller results become; may be negative infinity.
        low: f32,
        /// What greater results become; may be infinity.
        high: f32,
    },
    /// Any other element-wise function.
    Function(Unary),
}

/// What happens to the results of a GEMM or convolution before they are stored:
/// `activation(sum + bias + residual)` or `activation(sum + bias) + residual`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Epilogue {
    /// One value per output channel.
    pub(crate) bias: Option<Arc<Vec<f32>>>,
    /// A tensor of the result's shape with unit stride along its channels.
    pub(crate) residual: Option<View>,
    /// Whether the activation comes after the residual.
    pub(crate) residual_first: bool,
    /// Function applied to every result.
    pub(crate) activation: Activation,
}

impl Default for Epilogue {
    fn default() -> Self {
        Self {
            bias: None,
            residual: None,
            residual_first: true,
            activation: Activation::None,
        }
    }
}

impl Epilogue {
    /// Bytes of the bias.
    pub(super) fn bias_bytes(&self) -> usize {
        4 * self.bias.as_ref().map_or(0, |bias| bias.len())
    }

    /// What is fused, for people: `, +bias +residual Relu`; nothing if nothing is.
    pub(super) fn describe(&self) -> String {
        let bias = if self.bias.is_some() { " +bias" } else { "" };
        let residual = match self.residual {
            Some(_) => " +residual",
            None => "",
        };
        let activation = match self.activation {
            Activation::None => String::new(),
            Activation::Clamp { low, high } => format!(" clamp({low}, {high})"),
            Activation::Function(function) => format!(" {function:?}"),
        };
        let parts = match self.residual_first {
            true => [bias, residual, &activation],
            false => [bias, &activation, residual],
        };
        let text = parts.concat();
        if text.is_empty() {
            text
        } else {
            format!(",{text}")
        }
    }
}
