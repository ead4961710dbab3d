//! Advanced SIMD of 64-bit ARM: 4 lanes, partial loads and stores lane by lane.

#![allow(
    unsafe_code,
    reason = "intrinsics, which need the instruction set that the token stands for"
)]

use std::arch::aarch64::*;

use super::sealed::Sealed;
use super::simd::Simd;
use crate::token::Neon;

impl Sealed for Neon {}

// SAFETY: for the implementation and every block in it: NEON is part of the base architecture, and the trait's
// callers pass pointers valid for the lanes touched.
unsafe impl Simd for Neon {
    type V = float32x4_t;
    type Mask = uint32x4_t;
    const LANES: usize = 4;
    const REGISTERS: usize = 32;

    #[inline(always)]
    unsafe fn splat(x: f32) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vdupq_n_f32(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vld1q_f32(p) }
    }
    #[inline(always)]
    unsafe fn load_columns(p: *const f32, stride: isize) -> [float32x4_t; 4] {
        // SAFETY: see above.
        unsafe {
            let mut rows = [vdupq_n_f32(0.0); 4];
            for (i, row) in (0isize..4).zip(&mut rows) {
                *row = vld1q_f32(p.offset(i * stride));
            }
            let (a, b) = (vzip1q_f32(rows[0], rows[1]), vzip1q_f32(rows[2], rows[3]));
            let (c, d) = (vzip2q_f32(rows[0], rows[1]), vzip2q_f32(rows[2], rows[3]));
            [
                vcombine_f32(vget_low_f32(a), vget_low_f32(b)),
                vcombine_f32(vget_high_f32(a), vget_high_f32(b)),
                vcombine_f32(vget_low_f32(c), vget_low_f32(d)),
                vcombine_f32(vget_high_f32(c), vget_high_f32(d)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> float32x4_t {
        let mut lanes = [0.0; 4];
        // SAFETY: `n < 4` elements are readable at `p`; `lanes` has four.
        unsafe {
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
            vld1q_f32(lanes.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: float32x4_t) {
        // SAFETY: see above.
        unsafe { vst1q_f32(p, v) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: float32x4_t, n: usize) {
        let mut lanes = [0.0; 4];
        // SAFETY: `n < 4` elements are writable at `p`; `lanes` has four.
        unsafe {
            vst1q_f32(lanes.as_mut_ptr(), v);
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, n);
        }
    }
    #[inline(always)]
    unsafe fn fma(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vfmaq_f32(c, a, b) }
    }
    #[inline(always)]
    unsafe fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vaddq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vsubq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vmulq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vdivq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn sqrt(v: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vsqrtq_f32(v) }
    }
    #[inline(always)]
    unsafe fn abs(v: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vabsq_f32(v) }
    }
    #[inline(always)]
    unsafe fn neg(v: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vnegq_f32(v) }
    }
    #[inline(always)]
    unsafe fn less(a: float32x4_t, b: float32x4_t) -> uint32x4_t {
        // SAFETY: see above.
        unsafe { vcltq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn less_or_equal(a: float32x4_t, b: float32x4_t) -> uint32x4_t {
        // SAFETY: see above.
        unsafe { vcleq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn select(mask: uint32x4_t, x: float32x4_t, y: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vbslq_f32(mask, x, y) }
    }
    #[inline(always)]
    unsafe fn and(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: see above.
        unsafe { vandq_u32(a, b) }
    }
    #[inline(always)]
    unsafe fn or(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: see above.
        unsafe { vorrq_u32(a, b) }
    }
    #[inline(always)]
    unsafe fn not(mask: uint32x4_t) -> uint32x4_t {
        // SAFETY: see above.
        unsafe { vmvnq_u32(mask) }
    }
    #[inline(always)]
    unsafe fn any(mask: uint32x4_t) -> bool {
        // SAFETY: see above.
        unsafe { vmaxvq_u32(mask) != 0 }
    }
    #[inline(always)]
    unsafe fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // A compare and select, because FMAX returns NaN where this trait promises `b`.
        // SAFETY: see above.
        unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vbslq_f32(vcltq_f32(a, b), a, b) }
    }
    #[inline(always)]
    unsafe fn reciprocal(v: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vdivq_f32(vdupq_n_f32(1.0), v) }
    }
    #[inline(always)]
    unsafe fn scale(v: float32x4_t, n: float32x4_t) -> float32x4_t {
        // Two factors, so that results below the normal range round once, at the end. NaN
        // converts to 0, so it is put back.
        // SAFETY: see above.
        unsafe {
            let bias = vdupq_n_s32(127);
            let whole = vcvtq_s32_f32(n);
            let half = vshrq_n_s32::<1>(whole);
            let rest = vsubq_s32(whole, half);
            let power = |e| vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(e, bias)));
            let scaled = vmulq_f32(vmulq_f32(v, power(half)), power(rest));
            vbslq_f32(vceqq_f32(n, n), scaled, n)
        }
    }
    #[inline(always)]
    unsafe fn zero_below(v: float32x4_t, bound: float32x4_t, x: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe {
            let kept = vbicq_u32(vreinterpretq_u32_f32(x), vcltq_f32(v, bound));
            vreinterpretq_f32_u32(kept)
        }
    }
    #[inline(always)]
    unsafe fn power_of_two(n: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe {
            let biased = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
        }
    }
    #[inline(always)]
    unsafe fn rotate_quarter_turns(
        q: float32x4_t,
        sin: float32x4_t,
        cos: float32x4_t,
    ) -> (float32x4_t, float32x4_t) {
        // Odd quarters exchange the two; bit 1 of `q` is the sign of one, of `q + 1` that of the other.
        // SAFETY: see above.
        unsafe {
            let (one, two) = (vdupq_n_u32(1), vdupq_n_u32(2));
            let q = vreinterpretq_u32_f32(q);
            let odd = vtstq_u32(q, one);
            let signed = |v, q| {
                let sign = vshlq_n_u32::<30>(vandq_u32(q, two));
                vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(v), sign))
            };
            (
                signed(vbslq_f32(odd, cos, sin), q),
                signed(vbslq_f32(odd, sin, cos), vaddq_u32(q, one)),
            )
        }
    }
    #[inline(always)]
    fn prefetch(p: *const f32) {
        // SAFETY: a hint, which never faults and changes nothing a program can see.
        unsafe {
            std::arch::asm!(
                "prfm pldl2keep, [{p}]",
                p = in(reg) p,
                options(nostack, readonly, preserves_flags)
            );
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> float32x4_t {
        let v: float32x4_t;
        // SAFETY: see above; the instruction is part of the base architecture and touches only
        // its two registers.
        unsafe {
            let halves = vld1_u16(p);
            std::arch::asm!(
                "fcvtl {wide:v}.4s, {narrow:v}.4h",
                wide = lateout(vreg) v,
                narrow = in(vreg) halves,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        v
    }
    #[inline(always)]
    unsafe fn load_low_bf16(p: *const f32) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vreinterpretq_f32_u32(vshlq_n_u32::<16>(vld1q_u32(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn load_high_bf16(p: *const f32) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vreinterpretq_f32_u32(vandq_u32(vld1q_u32(p.cast()), vdupq_n_u32(0xffff_0000))) }
    }
    #[inline(always)]
    unsafe fn round_bf16(v: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe {
            let bits = vreinterpretq_u32_f32(v);
            let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
            let up = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
            let rounded = vreinterpretq_f32_u32(vandq_u32(up, vdupq_n_u32(0xffff_0000)));
            // A sum makes NaN quiet, which shows in the high half.
            vbslq_f32(vceqq_f32(v, v), rounded, vaddq_f32(v, v))
        }
    }
    #[inline(always)]
    fn fma_one(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}
