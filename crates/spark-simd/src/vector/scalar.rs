//! Four lanes in an array: runs everywhere.

#![allow(
    unsafe_code,
    reason = "reads and writes where its callers point, as the other vectors do"
)]

use super::sealed::Sealed;
use super::simd::Simd;

/// Plain code: vectors of four lanes that every processor has, as it needs no proof.
#[derive(Debug, Clone, Copy)]
pub struct Scalar;

/// One value per lane. Written out: closures of `array::from_fn` and `map` may stay functions of their own,
/// called lane by lane.
#[inline(always)]
fn lanes<T>(value: impl Fn(usize) -> T) -> [T; 4] {
    [value(0), value(1), value(2), value(3)]
}

impl Sealed for Scalar {}

// SAFETY: for the implementation and every block in it: callers pass pointers valid for the lanes touched.
unsafe impl Simd for Scalar {
    type V = [f32; 4];
    type Mask = [bool; 4];
    const LANES: usize = 4;
    const REGISTERS: usize = 16;

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
    unsafe fn load_columns(p: *const f32, stride: isize) -> [[f32; 4]; 4] {
        let mut columns = [[0.0; 4]; 4];
        for (i, offset) in (0..4).map(|row| row * stride).enumerate() {
            for (j, column) in columns.iter_mut().enumerate() {
                // SAFETY: see above.
                column[i] = unsafe { *p.offset(offset).add(j) };
            }
        }
        columns
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> [f32; 4] {
        // SAFETY: only the first `n` elements are read.
        lanes(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 })
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
        lanes(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        lanes(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        lanes(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        lanes(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        lanes(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn sqrt(v: [f32; 4]) -> [f32; 4] {
        lanes(|i| v[i].sqrt())
    }
    #[inline(always)]
    unsafe fn abs(v: [f32; 4]) -> [f32; 4] {
        lanes(|i| v[i].abs())
    }
    #[inline(always)]
    unsafe fn neg(v: [f32; 4]) -> [f32; 4] {
        lanes(|i| -v[i])
    }
    #[inline(always)]
    unsafe fn less(a: [f32; 4], b: [f32; 4]) -> [bool; 4] {
        lanes(|i| a[i] < b[i])
    }
    #[inline(always)]
    unsafe fn less_or_equal(a: [f32; 4], b: [f32; 4]) -> [bool; 4] {
        lanes(|i| a[i] <= b[i])
    }
    #[inline(always)]
    unsafe fn select(mask: [bool; 4], x: [f32; 4], y: [f32; 4]) -> [f32; 4] {
        lanes(|i| if mask[i] { x[i] } else { y[i] })
    }
    #[inline(always)]
    unsafe fn and(a: [bool; 4], b: [bool; 4]) -> [bool; 4] {
        lanes(|i| a[i] & b[i])
    }
    #[inline(always)]
    unsafe fn or(a: [bool; 4], b: [bool; 4]) -> [bool; 4] {
        lanes(|i| a[i] | b[i])
    }
    #[inline(always)]
    unsafe fn not(mask: [bool; 4]) -> [bool; 4] {
        lanes(|i| !mask[i])
    }
    #[inline(always)]
    unsafe fn any(mask: [bool; 4]) -> bool {
        mask.contains(&true)
    }
    #[inline(always)]
    unsafe fn max(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        lanes(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn min(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        lanes(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn reciprocal(v: [f32; 4]) -> [f32; 4] {
        lanes(|i| 1.0 / v[i])
    }
    #[inline(always)]
    unsafe fn scale(v: [f32; 4], n: [f32; 4]) -> [f32; 4] {
        // Two factors, so that results below the normal range round once, at the end.
        lanes(|i| {
            let whole = n[i] as i32;
            let half = whole >> 1;
            let power = |e: i32| f32::from_bits((e.wrapping_add(127) as u32) << 23);
            if n[i].is_nan() {
                n[i]
            } else {
                v[i] * power(half) * power(whole.wrapping_sub(half))
            }
        })
    }
    #[inline(always)]
    unsafe fn zero_below(v: [f32; 4], bound: [f32; 4], x: [f32; 4]) -> [f32; 4] {
        lanes(|i| if v[i] < bound[i] { 0.0 } else { x[i] })
    }
    #[inline(always)]
    unsafe fn power_of_two(n: [f32; 4]) -> [f32; 4] {
        lanes(|i| f32::from_bits(((n[i] as i32).wrapping_add(127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn rotate_quarter_turns(
        q: [f32; 4],
        sin: [f32; 4],
        cos: [f32; 4],
    ) -> ([f32; 4], [f32; 4]) {
        let signed = |v: f32, q: u32| f32::from_bits(v.to_bits() ^ ((q & 2) << 30));
        let odd = lanes(|i| q[i].to_bits() & 1 != 0);
        (
            lanes(|i| signed(if odd[i] { cos[i] } else { sin[i] }, q[i].to_bits())),
            lanes(|i| {
                let next = q[i].to_bits().wrapping_add(1);
                signed(if odd[i] { sin[i] } else { cos[i] }, next)
            }),
        )
    }
    #[inline(always)]
    fn prefetch(_: *const f32) {}
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> [f32; 4] {
        // SAFETY: see above.
        lanes(|i| half::f16::from_bits(unsafe { *p.add(i) }).to_f32())
    }
    #[inline(always)]
    unsafe fn load_low_bf16(p: *const f32) -> [f32; 4] {
        // SAFETY: see above.
        lanes(|i| f32::from_bits(unsafe { *p.add(i) }.to_bits() << 16))
    }
    #[inline(always)]
    unsafe fn load_high_bf16(p: *const f32) -> [f32; 4] {
        // SAFETY: see above.
        lanes(|i| f32::from_bits(unsafe { *p.add(i) }.to_bits() & 0xffff_0000))
    }
    #[inline(always)]
    unsafe fn round_bf16(v: [f32; 4]) -> [f32; 4] {
        lanes(|i| half::bf16::from_f32(v[i]).to_f32())
    }
    #[inline(always)]
    fn fma_one(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}
