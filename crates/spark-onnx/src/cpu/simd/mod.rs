//! One vector of f32 lanes, whatever the processor calls it.
//!
//! ```text
//! kernel<S: Simd>(..)        written once, #[inline(always)]
//!   Avx512  16 lanes, 32 registers      tile 8 x 3 or 6 x 4 vectors
//!   Avx2     8 lanes, 16 registers      tile 6 x 2
//!   Neon     4 lanes, 32 registers      tile 8 x 3 or 6 x 4
//!   Scalar   4 lanes in an array        every other machine, and the tests
//! ```
//!
//! A kernel is instantiated inside a `#[target_feature]` function per instruction set
//! (the [`dispatch!`] macro), which is what lets the methods here become single
//! instructions. Which set is used is decided once, at load: the token is `spark-simd`'s [`Isa`].
//!
//! Sixteen-bit values are widened while they are loaded. Deliberately absent: integer and
//! half-precision lanes.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
pub(crate) use scalar::Scalar;

pub use spark_simd::Isa;

use spark_simd::InstructionSet;

/// Most vectors a tile of products is wide; more rows would not fit the registers.
pub(crate) const fn max_panel(isa: Isa) -> usize {
    match isa.set() {
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => Avx512::MAX_PANEL,
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => Avx2::MAX_PANEL,
        #[cfg(target_arch = "aarch64")]
        InstructionSet::Neon => Neon::MAX_PANEL,
        _ => Scalar::MAX_PANEL,
    }
}

/// One vector of f32 lanes.
///
/// # Safety
///
/// Methods may only run on a processor that has the instruction set; callers hold an
/// [`Isa`] as proof and reach them through [`dispatch!`]. Pointers must be valid for
/// the lanes read or written; no alignment is needed.
pub(crate) unsafe trait Simd: Copy {
    /// The register.
    type V: Copy;
    /// Its lanes.
    const LANES: usize;
    /// Most vectors a tile of products is wide.
    const MAX_PANEL: usize;

    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self::V;
    /// `LANES` elements.
    unsafe fn load(p: *const f32) -> Self::V;
    /// Four columns of `LANES` rows of four elements, `stride` apart: lane `i` of column `j` is
    /// `p[i * stride + j]`.
    unsafe fn load_columns(p: *const f32, stride: isize) -> [Self::V; 4];
    /// The first `n < LANES` elements, zero in the other lanes, whose memory is not touched.
    unsafe fn load_first(p: *const f32, n: usize) -> Self::V;
    /// `LANES` elements.
    unsafe fn store(p: *mut f32, v: Self::V);
    /// The first `n < LANES` elements; the memory of the others is not touched.
    unsafe fn store_first(p: *mut f32, v: Self::V, n: usize);
    /// `a * b + c`, rounded once where the processor can.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a + b`.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// The greater; `b` where either is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// The smaller; `b` where either is NaN.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `1 / v`, within 1 ulp, for `v` whose reciprocal is a normal number.
    unsafe fn reciprocal(v: Self::V) -> Self::V;
    /// `v * 2^n` for whole `n` in -253..=254; NaN where `n` is.
    unsafe fn scale(v: Self::V, n: Self::V) -> Self::V;
    /// `a < b ? x : y`, lane by lane; `y` where either is NaN.
    unsafe fn select_less(a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;
    /// `v < bound ? 0 : x`, lane by lane; `x` where either is NaN.
    unsafe fn zero_below(v: Self::V, bound: Self::V, x: Self::V) -> Self::V;
    /// Asks for the cache line at `p`, which need not be readable, to come as near as the second
    /// cache; does nothing where there is no such instruction.
    fn prefetch(p: *const f32);
    /// `LANES` halves of IEEE 754 binary16, widened exactly.
    unsafe fn load_f16(p: *const u16) -> Self::V;
    /// The low halves of `LANES` words, which are bf16, as f32.
    unsafe fn load_low_bf16(p: *const f32) -> Self::V;
    /// The high halves of `LANES` words, which are bf16, as f32.
    unsafe fn load_high_bf16(p: *const f32) -> Self::V;
    /// The nearest bf16, ties to even, as f32; NaN stays NaN.
    unsafe fn round_bf16(v: Self::V) -> Self::V;
    /// [`Simd::fma`] of one lane, for loops the compiler vectorises.
    fn fma_one(a: f32, b: f32, c: f32) -> f32;
}

/// `dispatch!(isa, kernel::<EXTRA>(arg: Type, ..) => (value, ..))` calls `kernel::<S, EXTRA>(value, ..)` for the instruction set `isa`, compiled with its features.
///
/// `kernel` must be an `#[inline(always)] unsafe fn` generic over `S: Simd`. The caller
/// shows by holding `isa` that the processor has it.
macro_rules! dispatch {
    ($isa:expr, $kernel:ident $(::<$($extra:tt),*>)? ($($arg:ident : $ty:ty),* $(,)?) => ($($value:expr),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        ::spark_simd::features! { compile Avx512
            #[allow(clippy::too_many_arguments, reason = "mirrors the kernel")]
            unsafe fn avx512($($arg: $ty),*) {
                // SAFETY: same contract as the kernel; this function has the features.
                unsafe { $kernel::<$crate::cpu::simd::Avx512 $($(, $extra)*)?>($($arg),*) }
            }
        }
        #[cfg(target_arch = "x86_64")]
        ::spark_simd::features! { compile Avx2
            #[allow(clippy::too_many_arguments, reason = "mirrors the kernel")]
            unsafe fn avx2($($arg: $ty),*) {
                // SAFETY: same contract as the kernel; this function has the features.
                unsafe { $kernel::<$crate::cpu::simd::Avx2 $($(, $extra)*)?>($($arg),*) }
            }
        }
        #[cfg(target_arch = "aarch64")]
        ::spark_simd::features! { compile Neon
            #[allow(clippy::too_many_arguments, reason = "mirrors the kernel")]
            unsafe fn neon($($arg: $ty),*) {
                // SAFETY: same contract as the kernel; this function has the features.
                unsafe { $kernel::<$crate::cpu::simd::Neon $($(, $extra)*)?>($($arg),*) }
            }
        }
        // A token of one set proves that the processor has the features of its function.
        match $isa.proof() {
            #[cfg(target_arch = "x86_64")]
            ::spark_simd::Proof::Avx512(_) => avx512($($value),*),
            #[cfg(target_arch = "x86_64")]
            ::spark_simd::Proof::Avx2(_) => avx2($($value),*),
            #[cfg(target_arch = "aarch64")]
            ::spark_simd::Proof::Neon(_) => neon($($value),*),
            ::spark_simd::Proof::Scalar => {
                $kernel::<$crate::cpu::simd::Scalar $($(, $extra)*)?>($($value),*)
            }
        }
    }};
}
pub(crate) use dispatch;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_the_lanes_that_their_token_says() {
        unsafe fn check<S: Simd>(isa: Isa) {
            assert_eq!(S::LANES, isa.lanes(), "{isa}");
            assert_eq!(S::MAX_PANEL, max_panel(isa), "{isa}");
        }
        for isa in Isa::available() {
            // SAFETY: nothing here runs an instruction.
            unsafe { dispatch!(isa, check(isa: Isa) => (isa)) }
        }
    }
}
