//! Matmul of bytes: exact sums in i32, by whatever instruction multiplies bytes here.
//!
//! ```text
//! s[m, n] = sum over t, k of (x[row(m, t) + k] - zx) (w[t, k, n] - zw[n]) + bias[n]
//!
//! x    i8 or u8, zero point zx
//! w    i8 or u8, zero point zw[n], packed once           Int8Layout::pack
//! s    exact: at most 33025 products                    DepthError beyond
//! y    s as i32; requantised to i8 or u8; or as f32       Int8Output
//!
//! matmul        slices, checked: for safe code                    Int8Matmul
//! gemm          rows evenly spaced: tile after tile over a panel    unsafe: Int8Gemm, int8_gemm_panel
//! tile          rows given by pointers, tap by tap               unsafe: Int8Tile::run
//! instructions  what this processor has for it                  Int8Instructions
//! ```
//!
//! Every instruction set gives the same bits. A row outside of an image is one of zero points.
//!
//! Deliberately absent: sums of more than 32 bits, scales in blocks (`spark-quant` has them), and residuals in
//! bytes.

mod dot;
mod gemm;
mod instructions;
mod kernel;
mod lanes;
mod matmul;
mod output;
mod packed;
mod tile;

pub use gemm::{Int8Gemm, Int8Result, int8_gemm_panel};
pub use instructions::{ByteKind, Int8Instructions};
pub use matmul::{Bytes, BytesMut, Int8Matmul};
pub use output::{Int8Output, Requantise};
pub use packed::{DepthError, Int8Layout, Int8Weights, MAX_DEPTH};
pub use tile::{ByteRows, Int8Panel, Int8Tile};

#[cfg(test)]
mod tests;
