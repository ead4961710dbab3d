//! Four lanes in an array: runs everywhere.

use super::Simd;

/// Plain code.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

// SAFETY: for the implementation and every block in it: callers pass pointers valid for the lanes touched.
unsafe impl Simd for Scalar {
    type V = [f32; 4];
    const LANES: usize = 4;
    const MAX_PANEL: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; 4] {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> [f32; 4] {
        // SAFETY: see above; an array of f32 may be read unaligned.
        unsafe { p.cast::<[f32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> [f32; 4] {
        // SAFETY: only the first `n` elements are read.
        std::array::from_fn(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: [f32; 4]) {
        // SAFETY: see above.
        unsafe { p.cast::<[f32; 4]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: [f32; 4], n: usize) {
        for (i, x) in v.into_iter().enumerate().take(n) {
            // SAFETY: only the first `n` elements are written.
            unsafe { *p.add(i) = x }
        }
    }
    #[inline(always)]
    unsafe fn fma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        // Rounded twice: without hardware, a fused multiply-add is a library call.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn max(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn min(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn fma_one(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}
