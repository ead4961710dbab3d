//! An interpreter of PTX with a sanitizer's checks, for the tests of this workspace.
//!
//! ```text
//! float    exact float arithmetic, rounded once; comparisons; approximations     bits -> bits
//! convert  cvt: integers, floats, packed floats of 4, 6, 8, 16 bits              bits -> bits
//! tensor   mma, ldmatrix, stmatrix, movmatrix over the registers of one warp     lanes -> lanes
//! target   which GPU's instructions and which GPU's tensor core
//! form     why an instruction with these modifiers does not exist
//! ```
//!
//! Source: NVIDIA, *PTX ISA* 9.1. Nothing here shares code with the crates it tests.

pub mod convert;
pub mod float;
pub mod form;
pub mod target;
pub mod tensor;

#[cfg(test)]
mod oracle;

pub use form::FormError;
pub use target::Target;

/// One 32-bit register of the 32 lanes of a warp.
pub type Lanes = [u32; 32];
