//! What a tensor core does with the registers of one warp: `mma`, `ldmatrix`, `stmatrix`,
//! `movmatrix`.
//!
//! ```text
//! registers of 32 lanes --fragment--> A[16][K]  B[K][8]  C[16][8]
//!                                      \-- fused_sum (floats), integer --> D --fragment--> lanes
//! ```
//!
//! Lane `l` is in group `g = l / 4` at place `t = l % 4`; every layout is a formula of the two.
//! Memory is the caller's: `ldmatrix` gets rows of 16 bytes, `stmatrix` gives them.
//!
//! Source: PTX ISA 9.1, 9.7.14. The arithmetic of `mma` is a model, see [`MmaForm::execute`].
//! Deliberately absent: `m8n8k4` and other old shapes, f64, single bits, sparse A, `wgmma`,
//! `tcgen05`.

mod element;
mod error;
mod fragment;
mod fused_sum;
mod integer;
mod matrix;
mod mma;
mod mma_form;
mod scale;

pub use error::TensorError;
pub use matrix::{MatrixForm, movmatrix};
pub use mma_form::{MmaForm, MmaRegisters};
pub use scale::BlockScales;

#[cfg(test)]
mod tests;
