//! The arithmetic: forward and backward passes of one adapted layer, on slices.
//!
//! ```text
//! weights as rows     [W; A] is [out + r, K];   K = inputs, or inputs x taps of a convolution
//! inputs as columns   X is [K, P];              P = tokens, or pixels of all pictures
//!
//! forward    H = s A X          Y = g (W X + B H) + b
//! backward   G = g dY           Q = s B^T G
//!            dX = W^T G + A^T Q     dA = Q X^T     dB = G H^T     dm = sum(dY (Y - b)) / m
//! ```
//!
//! `g = m / |V|` per row (DoRA, the norm held constant) or 1 (LoRA). Columns are processed in panels
//! as wide as the micro-kernel's block, so that no unfolded picture and no `B A` alone is ever stored;
//! `g` is applied while data are copied anyway. Convolutions whose pictures outweigh their weight are
//! computed with `g (W + s B A)`, formed for the pass (`effective`); only those with groups form the
//! gradient of a weight.
//!
//! Formulas: S. Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation", ICML 2024, section 4.3.
//!
//! Deliberately absent: candle's types, half precision.

pub(crate) mod block;
pub(crate) mod conv;
pub(crate) mod decompose;
pub(crate) mod effective;
pub(crate) mod linear;
pub(crate) mod magnitude;
pub(crate) mod norm;
pub(crate) mod real;
pub(crate) mod symmetric;
pub(crate) mod threads;
mod window;

pub(crate) use real::Real;

/// A low-rank update `s B A` of a weight `[out, K]`; rank 0 is none.
#[derive(Clone, Copy)]
pub(crate) struct LowRank<'a, T> {
    /// A, `[rank, K]` row-major.
    pub(crate) a: &'a [T],
    /// B, `[out, rank]` row-major.
    pub(crate) b: &'a [T],
    /// Rows of A, columns of B.
    pub(crate) rank: usize,
    /// Factor `s` of the update.
    pub(crate) scaling: T,
}

/// Epilogue of the matmul, per row of the weight.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    /// DoRA scale `g`, `[out]`; absent where it is 1.
    pub(crate) dora_scale: Option<&'a [T]>,
    /// Bias `b`, `[out]`; absent where it is 0.
    pub(crate) bias: Option<&'a [T]>,
}

impl<T: Real> Rows<'_, T> {
    /// `(g, b)` of one row.
    pub(crate) fn at(&self, row: usize) -> (T, T) {
        (
            self.dora_scale.map_or(T::one(), |g| g[row]),
            self.bias.map_or(T::zero(), |b| b[row]),
        )
    }
}

/// Gradients of a layer's variables.
pub(crate) struct Gradients<T> {
    /// With respect to the input; absent if it is not wanted.
    pub(crate) x: Option<Vec<T>>,
    /// With respect to A, `[rank, K]`.
    pub(crate) a: Vec<T>,
    /// With respect to B, `[out, rank]`.
    pub(crate) b: Vec<T>,
}

/// Rows of the weight multiplied before their results move on: their tile stays near.
pub(crate) const ROWS_AT_ONCE: usize = 96;
