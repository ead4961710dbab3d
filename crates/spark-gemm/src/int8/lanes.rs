//! Vectors of i32 beside those of f32: sums of products of bytes, and what becomes of them.
//!
//! ```text
//! i32 -> f32       nearest even
//! f32 -> i32       nearest even, of values that are in range
//! i32 -> byte      the low eight bits
//! ```

#![allow(unsafe_code, reason = "a trait whose methods are single instructions")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use spark_simd::{Scalar, Simd};

/// The i32 lanes of an instruction set.
///
/// # Safety
///
/// As for [`Simd`]: methods run only where the processor has the set, and pointers must be valid for what
/// is read or written; no alignment is needed. Arithmetic wraps.
pub(super) unsafe trait IntegerLanes: Simd {
    /// A register of [`Simd::LANES`] i32.
    type I: Copy;

    /// A register with `x` in all lanes.
    unsafe fn splat_i(x: i32) -> Self::I;
    /// Reads as many elements as there are lanes.
    unsafe fn load_i(p: *const i32) -> Self::I;
    /// Writes as many.
    unsafe fn store_i(p: *mut i32, v: Self::I);
    /// `a + b`.
    unsafe fn add_i(a: Self::I, b: Self::I) -> Self::I;
    /// `a - b * c`.
    unsafe fn sub_product(a: Self::I, b: Self::I, c: Self::I) -> Self::I;
    /// As f32, to nearest even.
    unsafe fn to_floats(v: Self::I) -> Self::V;
    /// To nearest even; values must be within i32.
    unsafe fn round(v: Self::V) -> Self::I;
    /// The low byte of every lane.
    unsafe fn store_bytes(p: *mut u8, v: Self::I);
}

// SAFETY: for the implementation and every block in it: callers pass pointers valid for the lanes touched.
unsafe impl IntegerLanes for Scalar {
    type I = [i32; 4];

    #[inline(always)]
    unsafe fn splat_i(x: i32) -> [i32; 4] {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load_i(p: *const i32) -> [i32; 4] {
        // SAFETY: see above.
        unsafe { p.cast::<[i32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, v: [i32; 4]) {
        // SAFETY: see above.
        unsafe { p.cast::<[i32; 4]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn add_i(a: [i32; 4], b: [i32; 4]) -> [i32; 4] {
        lanes(|i| a[i].wrapping_add(b[i]))
    }
    #[inline(always)]
    unsafe fn sub_product(a: [i32; 4], b: [i32; 4], c: [i32; 4]) -> [i32; 4] {
        lanes(|i| a[i].wrapping_sub(b[i].wrapping_mul(c[i])))
    }
    #[inline(always)]
    unsafe fn to_floats(v: [i32; 4]) -> [f32; 4] {
        lanes(|i| v[i] as f32)
    }
    #[inline(always)]
    unsafe fn round(v: [f32; 4]) -> [i32; 4] {
        lanes(|i| v[i].round_ties_even() as i32)
    }
    #[inline(always)]
    unsafe fn store_bytes(p: *mut u8, v: [i32; 4]) {
        // SAFETY: see above.
        unsafe { p.cast::<[u8; 4]>().write_unaligned(lanes(|i| v[i] as u8)) }
    }
}

/// One value per lane, written out as in `spark-simd`.
#[inline(always)]
fn lanes<T>(value: impl Fn(usize) -> T) -> [T; 4] {
    [value(0), value(1), value(2), value(3)]
}
