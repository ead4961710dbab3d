//! Four lanes.

#![allow(
    unsafe_code,
    reason = "intrinsics, which need the instruction set that the token stands for"
)]

use std::arch::aarch64::*;

use spark_simd::Neon;

use super::IntegerLanes;

// SAFETY: for the implementation and every block in it: NEON is part of the base architecture, and callers
// pass pointers valid for the lanes touched.
unsafe impl IntegerLanes for Neon {
    type I = int32x4_t;

    #[inline(always)]
    unsafe fn splat_i(x: i32) -> int32x4_t {
        // SAFETY: see above.
        unsafe { vdupq_n_s32(x) }
    }
    #[inline(always)]
    unsafe fn load_i(p: *const i32) -> int32x4_t {
        // SAFETY: see above.
        unsafe { vld1q_s32(p) }
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, v: int32x4_t) {
        // SAFETY: see above.
        unsafe { vst1q_s32(p, v) }
    }
    #[inline(always)]
    unsafe fn add_i(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // SAFETY: see above.
        unsafe { vaddq_s32(a, b) }
    }
    #[inline(always)]
    unsafe fn sub_product(a: int32x4_t, b: int32x4_t, c: int32x4_t) -> int32x4_t {
        // SAFETY: see above.
        unsafe { vmlsq_s32(a, b, c) }
    }
    #[inline(always)]
    unsafe fn to_floats(v: int32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vcvtq_f32_s32(v) }
    }
    #[inline(always)]
    unsafe fn round(v: float32x4_t) -> int32x4_t {
        // SAFETY: see above.
        unsafe { vcvtnq_s32_f32(v) }
    }
    #[inline(always)]
    unsafe fn store_bytes(p: *mut u8, v: int32x4_t) {
        // SAFETY: see above.
        unsafe {
            let halves = vmovn_s32(v);
            let bytes = vmovn_s16(vcombine_s16(halves, halves));
            let word = vget_lane_u32::<0>(vreinterpret_u32_s8(bytes));
            p.cast::<u32>().write_unaligned(word);
        }
    }
}
