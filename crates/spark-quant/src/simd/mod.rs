//! Sixteen lanes on every processor: one set of operations, four implementations.
//!
//! ```text
//!               F: 16 x f32      U: 16 x u32      B: 64 bytes
//! Avx512Bytes   1 zmm            1 zmm            1 zmm
//! Avx2          2 ymm            2 ymm            2 ymm
//! NeonDot       4 q registers    4 q registers    4 q registers
//! Scalar        [f32; 16]        [u32; 16]        [u8; 64]
//! ```
//!
//! A kernel is written once against `Simd` and compiled for each level. Because all levels have the
//! same sixteen lanes and every operation is defined lane by lane (or as one fixed tree), a kernel
//! gives the same bits on all of them. The values that implement `Simd` are tokens of `spark-simd`,
//! proofs that the processor has the instructions, which can only be made by detection, and `Scalar`, which
//! needs no proof.
//!
//! AVX-512 here is `Avx512Bytes`: F, BW, DQ, VL, VBMI, VBMI2 and VNNI (Ice Lake, Zen 4 and later).
//! Older AVX-512 processors use the AVX2 level, and Arm processors without dot products the scalar one. The BF16 extension is not used: its conversions flush subnormals,
//! so they cannot equal the definition bit for bit. SVE2 is not used: on the Cortex-X925 its
//! registers are as wide as NEON's.

#![allow(
    unsafe_code,
    reason = "vector instructions; confined to this module's per-architecture files"
)]

/// An array filled in a loop: `array!([zero; N], i => value)`.
///
/// Where `std::array::from_fn` takes a closure, this is code in place. A closure is a function of its
/// own without the level's instructions, and vector operations inside it become calls.
macro_rules! array {
    ([$zero:expr; $n:expr], $i:ident => $value:expr) => {{
        let mut values = [$zero; $n];
        for $i in 0..$n {
            values[$i] = $value;
        }
        values
    }};
}
pub(crate) use array;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
mod page_interleave;
mod policy;
mod scalar;
mod stream;

pub(crate) use lanes::{Code, E2M1_TIMES_2_PLUS_12, Kernel, Simd};
pub(crate) use page_interleave::{PAGES_AHEAD_BYTES, PIECE, PIECES, WINDOW, page_interleaved};
pub use policy::{ExecutionPolicy, Level};
pub(crate) use stream::{LINE_BYTES, Sink, values_before_line};

#[cfg(test)]
mod tests;
