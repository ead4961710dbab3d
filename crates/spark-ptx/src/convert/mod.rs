//! `cvt`: one number format into another, bit by bit as PTX states it.
//!
//! ```text
//! Conversion::parse(["rn", "satfinite", "e4m3x2", "f32"])?.apply(&[a, b]) -> a's code | b's code
//!
//! to float   NaN -> all bits below the sign set; e2m1, e2m3, e3m2: the largest number;
//!            kept by moves (f32 from f32) and by .rna to tf32, which drops its low 13 bits
//!            beyond the largest -> infinity, or by the rounding, or the largest with .satfinite
//!            subnormal results are kept; zero keeps its sign
//! to integer NaN -> 0; from f64 or to 64 bits: the top bit alone; else clamped to the range
//! to ue8m0   sign dropped; .rz the power of two below, .rp above; NaN -> FF; infinity -> FF,
//!            with .satfinite FE; 2^-127 is the smallest
//! .ftz       f32 operands and results that are subnormal become zeros of their sign
//! .sat       floats into [0, 1], NaN +0; integers into their range
//! .relu      negative numbers give +0
//! ```
//!
//! Sources: PTX ISA 9.1, 9.7.9.21; where it leaves NaN and `ue8m0` open, the software versions in
//! CUDA 13.0's headers and what ptxas 13.0 folds constants to. Deliberately absent: stochastic
//! rounding (`.rs`), formats of four (`e4m3x4`), `s2f6x2`.

mod form;
mod number;

pub use form::Conversion;

#[cfg(test)]
mod tests;
