//! Tensors to block formats: which scale each block gets, and how its values round.
//!
//! ```text
//! tensor, axis --> rows of whole blocks (last block of a row padded with zeros)
//!
//! format  values per scale        scale           bits per value at whole blocks
//! NVFP4   16 along the axis       E4M3 * f32      4.5
//! MX      32 along the axis       E8M0            4.25, 6.25, 8.25
//! INT8    a row or the tensor     f32             8 + 32/row
//! FP8     row, tensor, rectangle  f32             8 + 32/block
//! ```
//!
//! [`Quantizer`] is the entry. Everything is defined in [`reference`](mod@crate::reference) and equal
//! to it bit for bit. Deliberately absent: four-bit integers and codebook formats.

pub(crate) mod buffers;
pub mod hadamard;
pub(crate) mod mx;
pub(crate) mod nvfp4;
pub(crate) mod plain;
mod policy;
mod quantizer;
mod recipe;
mod round_trip;
pub(crate) mod rows;
pub mod stochastic;

#[cfg(test)]
mod tests;

pub use hadamard::Rotation;
pub use policy::NonFinite;
pub use quantizer::Quantizer;
pub use recipe::{Granularity, MxScale, Nvfp4Formula, Recipe, Rounding, ScaleSearch};
pub use round_trip::RoundTrip;
