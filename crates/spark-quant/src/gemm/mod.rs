//! GEMM straight from packed weights.
//!
//! ```text
//! out[m, n] = activation( factor * sum_k x[m, k] * w[n, k]  +  bias[n] )
//!
//! M inputs   N rows of weights   K depth (the packed axis)
//! ```
//!
//! The order of additions is part of the definition, so the bits do not depend on the processor or on
//! threads. Sixteen partial sums run side by side and are added as one fixed tree at the end:
//!
//! ```text
//! four-bit weights  lane l of group g sums values 128g + 8l .. 128g + 8l + 8, times their block scale
//! other weights     lane l sums values 16j + l over the j of a block, times the block scale
//! ```
//!
//! Inputs are used exactly ([`InputMode::Exact`]), or quantized on the fly: to bytes with a scale per
//! block, or to the format of the weights, as tensor cores take them. FP4 products and INT8 products
//! are then exact integers inside a block; everything across blocks accumulates in f32.
//!
//! [`reference::gemm`](crate::reference::gemm) is the definition. Deliberately absent: matrix tiling
//! beyond four inputs at a time; large batches of convolutions belong to `spark-onnx`'s executor.

#[allow(
    clippy::needless_range_loop,
    reason = "rows and inputs are the indices of the definition"
)]
mod bytes;
#[allow(
    clippy::needless_range_loop,
    reason = "rows and inputs are the indices of the definition"
)]
mod fp4;
mod input;
mod prepare;

#[cfg(test)]
mod tests;

use crate::error::QuantError;
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::simd::ExecutionPolicy;
use crate::threads::for_parts;

pub use input::{Input, InputMode};
pub use prepare::PreparedInput;

/// Function applied to every output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// The sum itself, `x`; the default.
    #[default]
    None,
    /// ReLU: `x` above zero, else zero.
    Relu,
    /// `x / (1 + exp(-x))`
    Silu,
    /// `x` above zero, `exp(x) - 1` below.
    Elu,
    /// `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`
    GeluTanh,
}

impl Activation {
    /// The function in f32, with the standard library's elementary functions.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::None => x,
            Self::Relu => x.max(0.0),
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Elu => {
                if x > 0.0 {
                    x
                } else {
                    x.exp_m1()
                }
            }
            Self::GeluTanh => {
                let inner = 0.797_884_6 * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
        }
    }
}

/// What follows the sum.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// Added to every output, one per row of weights.
    pub bias: Option<&'a [f32]>,
    /// Applied to the sum after the bias was added.
    pub activation: Activation,
}

impl PackedTensor {
    /// `out = activation(x w^T + bias)`.
    ///
    /// # Shapes
    ///
    /// `x` is `[n_inputs, depth]`, `out` is `[n_inputs, n_rows]`, the bias `[n_rows]`; rows and depth are
    /// those of the packed tensor, whose axis is the depth.
    ///
    /// # Conversion
    ///
    /// See the module: f32 accumulation in a fixed order; `mode` says what happens to `x`. A rotation of
    /// the weights is applied to `x` first.
    ///
    /// # Errors
    ///
    /// [`QuantError::LengthMismatch`] for inconsistent lengths; [`QuantError::Scale`] if a weight scale is
    /// NaN; [`QuantError::NotFinite`] if an input to be quantized is not finite;
    /// [`QuantError::Unsupported`] if `mode` does not exist for the format. `out` is then untouched.
    ///
    /// # Examples
    ///
    /// ```
    /// use spark_quant::gemm::{Epilogue, Input, InputMode};
    /// use spark_quant::{ExecutionPolicy, Quantizer, Recipe};
    /// let policy = ExecutionPolicy::detect();
    /// let weights = Quantizer::new(Recipe::NVFP4).quantize(policy, &[0.5; 2 * 32], &[2, 32], 1)?;
    /// let mut out = [0.0; 2];
    /// weights.gemm(policy, Input::F32(&[2.0; 32]), 1, InputMode::Exact, Epilogue::default(), &mut out)?;
    /// assert!((out[0] - 32.0).abs() < 1e-4);
    /// # Ok::<(), spark_quant::QuantError>(())
    /// ```
    pub fn gemm(
        &self,
        policy: ExecutionPolicy,
        x: Input<'_>,
        n_inputs: usize,
        mode: InputMode,
        epilogue: Epilogue<'_>,
        out: &mut [f32],
    ) -> Result<(), QuantError> {
        QuantError::check_length("out", out.len(), n_inputs.saturating_mul(self.n_rows()))?;
        let prepared = self.prepare(policy, x, n_inputs, mode)?;
        self.gemm_prepared(policy, &prepared, epilogue, out)
    }

    /// [`PackedTensor::gemm`] for one input.
    ///
    /// # Errors
    ///
    /// As [`PackedTensor::gemm`].
    pub fn gemv(
        &self,
        policy: ExecutionPolicy,
        x: &[f32],
        mode: InputMode,
        epilogue: Epilogue<'_>,
        out: &mut [f32],
    ) -> Result<(), QuantError> {
        self.gemm(policy, Input::F32(x), 1, mode, epilogue, out)
    }

    /// Arranges (and under some modes quantizes) inputs once, for this tensor or for any other of the
    /// same format, depth and rotation.
    ///
    /// # Errors
    ///
    /// As [`PackedTensor::gemm`].
    pub fn prepare(
        &self,
        policy: ExecutionPolicy,
        x: Input<'_>,
        n_inputs: usize,
        mode: InputMode,
    ) -> Result<PreparedInput, QuantError> {
        PreparedInput::new(policy, self, x, n_inputs, mode)
    }

    /// [`PackedTensor::gemm`] with inputs already prepared.
    ///
    /// # Errors
    ///
    /// [`QuantError::LengthMismatch`] if `out`, the bias or the depth of the inputs does not fit,
    /// [`QuantError::Unsupported`] if the inputs were prepared for another kind of format,
    /// [`QuantError::Scale`] if a weight scale is NaN.
    pub fn gemm_prepared(
        &self,
        policy: ExecutionPolicy,
        x: &PreparedInput,
        epilogue: Epilogue<'_>,
        out: &mut [f32],
    ) -> Result<(), QuantError> {
        let (n_rows, n_inputs) = (self.n_rows(), x.n_inputs());
        QuantError::check_length("out", out.len(), n_rows.saturating_mul(n_inputs))?;
        if n_inputs == 1 {
            return self.gemm_rows(policy, x, 0, epilogue, out);
        }
        let mut by_row = vec![0.0; out.len()];
        self.gemm_rows(policy, x, 0, epilogue, &mut by_row)?;
        for (row, values) in by_row.chunks_exact(n_inputs.max(1)).enumerate() {
            for (input, &value) in values.iter().enumerate() {
                out[input * n_rows + row] = value;
            }
        }
        Ok(())
    }

    /// Rows `first_row..` only, for callers that spread rows over their own threads. `out` is
    /// `[wanted rows, n_inputs]` and its length says how many.
    ///
    /// # Errors
    ///
    /// As [`PackedTensor::gemm_prepared`].
    pub fn gemm_rows(
        &self,
        policy: ExecutionPolicy,
        x: &PreparedInput,
        first_row: usize,
        epilogue: Epilogue<'_>,
        out: &mut [f32],
    ) -> Result<(), QuantError> {
        x.check_fits(self)?;
        self.check_usable()?;
        let n_inputs = x.n_inputs();
        if let Some(bias) = epilogue.bias {
            QuantError::check_length("bias", bias.len(), self.n_rows())?;
        }
        if n_inputs == 0 || out.is_empty() {
            return QuantError::check_length("out", out.len(), 0);
        }
        QuantError::check_multiple("out", out.len(), n_inputs)?;
        let n_rows = out.len() / n_inputs;
        if first_row
            .checked_add(n_rows)
            .is_none_or(|end| end > self.n_rows())
        {
            let want = self.n_rows().saturating_sub(first_row);
            return Err(QuantError::LengthMismatch {
                what: "rows",
                got: n_rows,
                want,
            });
        }
        let bytes = n_rows * (self.row_bytes() + 4) * n_inputs.min(4);
        for_parts(policy, out, n_inputs, bytes, |first, out| {
            let first = first_row + first;
            self.dot_rows(policy, x, first, out);
            for (row, values) in out.chunks_exact_mut(n_inputs).enumerate() {
                let bias = epilogue.bias.map_or(0.0, |bias| bias[first + row]);
                if epilogue.bias.is_some() || epilogue.activation != Activation::None {
                    values
                        .iter_mut()
                        .for_each(|x| *x = epilogue.activation.apply(*x + bias));
                }
            }
        });
        Ok(())
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.padded_depth() * self.format().code_bits() / 8
    }

    /// Sums of rows `first..`, `[rows, n_inputs]`, without the epilogue.
    fn dot_rows(&self, policy: ExecutionPolicy, x: &PreparedInput, first: usize, out: &mut [f32]) {
        match (self.format(), self.scales()) {
            (PackedFormat::Nvfp4 | PackedFormat::Mx(crate::scalar::MiniFormat::E2m1), _) => {
                fp4::dot_rows(policy, self, x, first, out);
            }
            (_, Scales::Mx(_) | Scales::F32 { .. }) => bytes::dot_rows(policy, self, x, first, out),
            (_, Scales::Nvfp4 { .. }) => unreachable!("NVFP4 scales belong to NVFP4"),
        }
    }
}
