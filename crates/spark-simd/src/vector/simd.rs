//! The trait that kernels are written over.
//!
//! ```text
//! kernel<S: Simd>(..)        written once, #[inline(always)]
//!   Avx512  16 lanes, 32 registers
//!   Avx2     8 lanes, 16 registers
//!   Neon     4 lanes, 32 registers
//!   Scalar   4 lanes in an array      every other machine, and the tests
//! ```
//!
//! Deliberately absent: integer and half-precision lanes.

#![allow(unsafe_code, reason = "a trait whose methods are single instructions")]

use super::sealed::Sealed;

/// Lanes of the widest vectors.
const MOST_LANES: usize = 16;

/// One vector of f32 lanes: the tokens of instruction sets and [`Scalar`](crate::Scalar) have them.
///
/// Kernels are written once, as `#[inline(always)] unsafe fn kernel<S: Simd>(..)`, and called through
/// [`dispatch!`](crate::dispatch). Methods of sixteen-bit values convert to f32 while they load.
///
/// # Safety
///
/// Methods may only run on a processor that has the instruction set; callers hold an
/// [`Isa`](crate::Isa) as proof and reach them through [`dispatch!`](crate::dispatch). Pointers must be valid for
/// the lanes read or written; no alignment is needed.
#[allow(
    clippy::missing_safety_doc,
    reason = "the contract of all methods stands at the trait"
)]
pub unsafe trait Simd: Copy + Sealed {
    /// A register of [`Simd::LANES`] f32.
    type V: Copy + std::fmt::Debug + 'static;
    /// The answer of a comparison for each lane.
    type Mask: Copy + 'static;
    /// f32 elements in one register.
    const LANES: usize;
    /// Vector registers there are for a kernel's accumulators and operands.
    const REGISTERS: usize;

    /// A register with `x` in all lanes.
    unsafe fn splat(x: f32) -> Self::V;
    /// Reads [`Simd::LANES`] elements from `p` on.
    unsafe fn load(p: *const f32) -> Self::V;
    /// Four columns of `LANES` rows of four elements, `stride` apart: lane `i` of column `j` is
    /// `p[i * stride + j]`.
    unsafe fn load_columns(p: *const f32, stride: isize) -> [Self::V; 4];
    /// The first `n < LANES` elements, zero in the other lanes, whose memory is not touched.
    unsafe fn load_first(p: *const f32, n: usize) -> Self::V;
    /// Writes [`Simd::LANES`] elements from `p` on.
    unsafe fn store(p: *mut f32, v: Self::V);
    /// The first `n < LANES` elements; the memory of the others is not touched.
    unsafe fn store_first(p: *mut f32, v: Self::V, n: usize);
    /// `a * b + c`, rounded once where the processor can.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a + b`, lane by lane.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`, lane by lane.
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`, lane by lane.
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`, lane by lane, correctly rounded.
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// The square root, correctly rounded.
    unsafe fn sqrt(v: Self::V) -> Self::V;
    /// The absolute value.
    unsafe fn abs(v: Self::V) -> Self::V;
    /// The other sign, of zeros and NaN too.
    unsafe fn neg(v: Self::V) -> Self::V;
    /// The greater; `b` where either is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// The smaller; `b` where either is NaN.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `1 / v`, within 1 ulp, for `v` whose reciprocal is a normal number.
    unsafe fn reciprocal(v: Self::V) -> Self::V;
    /// `v * 2^n` for whole `n` in -253..=254; NaN where `n` is.
    unsafe fn scale(v: Self::V, n: Self::V) -> Self::V;
    /// `a < b`; false where either is NaN.
    unsafe fn less(a: Self::V, b: Self::V) -> Self::Mask;
    /// `a <= b`; false where either is NaN.
    unsafe fn less_or_equal(a: Self::V, b: Self::V) -> Self::Mask;
    /// `x` in the lanes of the mask, `y` in the others.
    unsafe fn select(mask: Self::Mask, x: Self::V, y: Self::V) -> Self::V;
    /// Lanes of both masks.
    unsafe fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Lanes of either mask.
    unsafe fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// The lanes that the mask has not.
    unsafe fn not(mask: Self::Mask) -> Self::Mask;
    /// Whether the mask has any lane.
    unsafe fn any(mask: Self::Mask) -> bool;
    /// `a < b ? x : y`, lane by lane; `y` where either is NaN.
    #[inline(always)]
    unsafe fn select_less(a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V {
        // SAFETY: as for this method.
        unsafe { Self::select(Self::less(a, b), x, y) }
    }
    /// `v < bound ? 0 : x`, lane by lane; `x` where either is NaN.
    unsafe fn zero_below(v: Self::V, bound: Self::V, x: Self::V) -> Self::V;
    /// `2^n` for whole `n` in -126..=127; any value for others.
    unsafe fn power_of_two(n: Self::V) -> Self::V;
    /// Sine and cosine of `r + q pi/2` from those of `r`. `q` is given as `q + 1.5 * 2^23`, a float whose
    /// lowest bits are those of `q`.
    unsafe fn rotate_quarter_turns(q: Self::V, sin: Self::V, cos: Self::V) -> (Self::V, Self::V);
    /// Prefetches the cache line at `p`, which need not be readable, into L2; does nothing where there
    /// is no such instruction.
    fn prefetch(p: *const f32);
    /// `LANES` halves of IEEE 754 binary16, converted to f32 exactly.
    unsafe fn load_f16(p: *const u16) -> Self::V;
    /// The low halves of `LANES` words, which are bf16, as f32.
    unsafe fn load_low_bf16(p: *const f32) -> Self::V;
    /// The high halves of `LANES` words, which are bf16, as f32.
    unsafe fn load_high_bf16(p: *const f32) -> Self::V;
    /// The nearest bf16, ties to even, as f32; NaN stays NaN.
    unsafe fn round_bf16(v: Self::V) -> Self::V;
    /// Reads [`Simd::LANES`] bf16 from `p` on, as f32.
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::V {
        // SAFETY: as for this method.
        unsafe { Self::load_first_bf16(p, Self::LANES) }
    }
    /// The first `n <= LANES` bf16 as f32, zero in the other lanes, whose memory is not touched.
    #[inline(always)]
    unsafe fn load_first_bf16(p: *const u16, n: usize) -> Self::V {
        let mut values = [0.0; MOST_LANES];
        // SAFETY: the caller vouches for `n` elements; there are as many values as any set has lanes.
        unsafe {
            for (i, value) in values[..n].iter_mut().enumerate() {
                *value = f32::from_bits(u32::from(p.add(i).read_unaligned()) << 16);
            }
            Self::load(values.as_ptr())
        }
    }
    /// Writes [`Simd::LANES`] elements from `p` on as the nearest bf16, ties to even; NaN stays NaN.
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: Self::V) {
        // SAFETY: as for this method.
        unsafe { Self::store_first_bf16(p, v, Self::LANES) }
    }
    /// The same for the first `n <= LANES` elements; the memory of the others is not touched.
    #[inline(always)]
    unsafe fn store_first_bf16(p: *mut u16, v: Self::V, n: usize) {
        let mut values = [0.0f32; MOST_LANES];
        // SAFETY: the caller vouches for `n` elements; there are as many values as any set has lanes.
        unsafe {
            Self::store(values.as_mut_ptr(), Self::round_bf16(v));
            for (i, value) in values[..n].iter().enumerate() {
                p.add(i).write_unaligned((value.to_bits() >> 16) as u16);
            }
        }
    }
    /// [`Simd::fma`] of one lane, for loops the compiler vectorises.
    fn fma_one(a: f32, b: f32, c: f32) -> f32;
}
