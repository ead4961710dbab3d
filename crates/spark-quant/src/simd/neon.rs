//! The sixteen lanes as four 128-bit NEON registers, low quarter first.
//!
//! The f16 conversions and the dot product are written as instructions, because the standard
//! library does not offer them on the stable compiler for every release this crate supports.

use std::arch::aarch64::*;
use std::arch::asm;

use spark_simd::NeonDot;

use super::lanes::{E2M1_TIMES_2_PLUS_12, Simd};

/// Instructions of this level, inside a method of a value that proves they exist.
macro_rules! simd {
    ($($body:tt)*) => {
        // SAFETY: `self` is a token of detection that proves every feature these instructions need; every
        // pointer comes from a reference to an array of at least the width that is read or written.
        unsafe { $($body)* }
    };
}

/// The four registers of a value, from an expression over their index.
macro_rules! quarters {
    ($i:ident => $value:expr) => {
        [
            {
                let $i = 0;
                $value
            },
            {
                let $i = 1;
                $value
            },
            {
                let $i = 2;
                $value
            },
            {
                let $i = 3;
                $value
            },
        ]
    };
}

#[inline(always)]
fn widen_f16(_proof: NeonDot, halves: uint16x4_t) -> float32x4_t {
    let wide: float32x4_t;
    // SAFETY: FCVTL is base ARMv8; it reads one register and writes another.
    unsafe {
        asm!("fcvtl {0:v}.4s, {1:v}.4h", out(vreg) wide, in(vreg) halves, options(pure, nomem, nostack))
    };
    wide
}

#[inline(always)]
fn narrow_f16(_proof: NeonDot, wide: float32x4_t) -> uint16x4_t {
    let halves: uint16x4_t;
    // SAFETY: FCVTN is base ARMv8; it reads one register and writes another.
    unsafe {
        asm!("fcvtn {0:v}.4h, {1:v}.4s", out(vreg) halves, in(vreg) wide, options(pure, nomem, nostack))
    };
    halves
}

#[inline(always)]
fn sdot(_proof: NeonDot, acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sum = acc;
    // SAFETY: `NeonDot` proves the dot product extension; SDOT reads and writes registers only.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sum, in(vreg) a, in(vreg) b,
            options(pure, nomem, nostack)
        );
    };
    sum
}

impl Simd for NeonDot {
    type F = [float32x4_t; 4];
    type U = [uint32x4_t; 4];
    type M = [uint32x4_t; 4];
    type B = [uint8x16_t; 4];

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        simd!([vdupq_n_f32(value); 4])
    }
    #[inline(always)]
    fn load(self, src: &[f32; 16]) -> Self::F {
        quarters!(i => simd!(vld1q_f32(src.as_ptr().add(4 * i))))
    }
    #[inline(always)]
    fn store(self, value: Self::F, dst: &mut [f32; 16]) {
        for (i, quarter) in value.into_iter().enumerate() {
            simd!(vst1q_f32(dst.as_mut_ptr().add(4 * i), quarter));
        }
    }
    #[inline(always)]
    fn stream(self, value: Self::F, dst: &mut [f32; 16]) {
        // Ordinary stores: the core already detects full-line writes and skips the read.
        self.store(value, dst);
    }
    #[inline(always)]
    fn fence(self) {}
    #[inline(always)]
    fn prefetch<T>(self, from: &T, bytes: isize) {
        let there = std::ptr::from_ref(from).cast::<u8>().wrapping_offset(bytes);
        // SAFETY: PRFM is a hint; it never faults, whatever the address.
        unsafe { asm!("prfm pldl1keep, [{0}]", in(reg) there, options(nostack, readonly)) };
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        quarters!(i => simd!(vaddq_f32(a[i], b[i])))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        quarters!(i => simd!(vsubq_f32(a[i], b[i])))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        quarters!(i => simd!(vmulq_f32(a[i], b[i])))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        quarters!(i => simd!(vdivq_f32(a[i], b[i])))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        quarters!(i => simd!(vfmaq_f32(c[i], a[i], b[i])))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        quarters!(i => simd!(vmaxq_f32(a[i], b[i])))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        quarters!(i => simd!(vminq_f32(a[i], b[i])))
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        simd! {
            let four = vaddq_f32(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
            let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
            vpadds_f32(two)
        }
    }
    #[inline(always)]
    fn row_max_abs(self, rows: &[Self::F; 16]) -> Self::F {
        simd! {
            let row = |i: usize| {
                let [a, b, c, d] = rows[i];
                let (first, second) = (vmaxq_f32(vabsq_f32(a), vabsq_f32(b)), vmaxq_f32(vabsq_f32(c), vabsq_f32(d)));
                vmaxq_f32(first, second)
            };
            quarters!(i => {
                let first = vpmaxq_f32(row(4 * i), row(4 * i + 1));
                let second = vpmaxq_f32(row(4 * i + 2), row(4 * i + 3));
                vpmaxq_f32(first, second)
            })
        }
    }
    #[inline(always)]
    fn transpose(self, rows: &[Self::F; 16]) -> [Self::F; 16] {
        simd! {
            let mut out = [[vdupq_n_f32(0.0); 4]; 16];
            for row_group in 0..4 {
                for column_group in 0..4 {
                    let r: [float32x4_t; 4] = quarters!(i => rows[4 * row_group + i][column_group]);
                    let pair = |a, b| (vreinterpretq_f64_f32(vtrn1q_f32(a, b)), vreinterpretq_f64_f32(vtrn2q_f32(a, b)));
                    let (even_low, odd_low) = pair(r[0], r[1]);
                    let (even_high, odd_high) = pair(r[2], r[3]);
                    let columns = [
                        vtrn1q_f64(even_low, even_high),
                        vtrn1q_f64(odd_low, odd_high),
                        vtrn2q_f64(even_low, even_high),
                        vtrn2q_f64(odd_low, odd_high),
                    ];
                    for (i, column) in columns.into_iter().enumerate() {
                        out[4 * column_group + i][row_group] = vreinterpretq_f32_f64(column);
                    }
                }
            }
            out
        }
    }

    #[inline(always)]
    fn to_bits(self, a: Self::F) -> Self::U {
        quarters!(i => simd!(vreinterpretq_u32_f32(a[i])))
    }
    #[inline(always)]
    fn bits_to_f32(self, a: Self::U) -> Self::F {
        quarters!(i => simd!(vreinterpretq_f32_u32(a[i])))
    }
    #[inline(always)]
    fn splat_u(self, value: u32) -> Self::U {
        simd!([vdupq_n_u32(value); 4])
    }
    #[inline(always)]
    fn and(self, a: Self::U, b: Self::U) -> Self::U {
        quarters!(i => simd!(vandq_u32(a[i], b[i])))
    }
    #[inline(always)]
    fn or(self, a: Self::U, b: Self::U) -> Self::U {
        quarters!(i => simd!(vorrq_u32(a[i], b[i])))
    }
    #[inline(always)]
    fn add_u(self, a: Self::U, b: Self::U) -> Self::U {
        quarters!(i => simd!(vaddq_u32(a[i], b[i])))
    }
    #[inline(always)]
    fn sub_u(self, a: Self::U, b: Self::U) -> Self::U {
        quarters!(i => simd!(vsubq_u32(a[i], b[i])))
    }
    #[inline(always)]
    fn shl(self, a: Self::U, n: u32) -> Self::U {
        quarters!(i => simd!(vshlq_u32(a[i], vdupq_n_s32(n as i32))))
    }
    #[inline(always)]
    fn shr(self, a: Self::U, n: u32) -> Self::U {
        quarters!(i => simd!(vshlq_u32(a[i], vdupq_n_s32(-(n as i32)))))
    }
    #[inline(always)]
    fn min_i(self, a: Self::U, b: Self::U) -> Self::U {
        quarters!(i => {
            simd!(vreinterpretq_u32_s32(vminq_s32(
                vreinterpretq_s32_u32(a[i]),
                vreinterpretq_s32_u32(b[i])
            )))
        })
    }
    #[inline(always)]
    fn max_i(self, a: Self::U, b: Self::U) -> Self::U {
        quarters!(i => {
            simd!(vreinterpretq_u32_s32(vmaxq_s32(
                vreinterpretq_s32_u32(a[i]),
                vreinterpretq_s32_u32(b[i])
            )))
        })
    }
    #[inline(always)]
    fn gt_i(self, a: Self::U, b: Self::U) -> Self::M {
        quarters!(i => {
            simd!(vcgtq_s32(
                vreinterpretq_s32_u32(a[i]),
                vreinterpretq_s32_u32(b[i])
            ))
        })
    }
    #[inline(always)]
    fn lt_f(self, a: Self::F, b: Self::F) -> Self::M {
        quarters!(i => simd!(vcltq_f32(a[i], b[i])))
    }
    #[inline(always)]
    fn any(self, mask: Self::M) -> bool {
        simd!(
            vmaxvq_u32(vorrq_u32(
                vorrq_u32(mask[0], mask[1]),
                vorrq_u32(mask[2], mask[3])
            )) != 0
        )
    }
    #[inline(always)]
    fn select(self, mask: Self::M, a: Self::U, b: Self::U) -> Self::U {
        quarters!(i => simd!(vbslq_u32(mask[i], a[i], b[i])))
    }

    #[inline(always)]
    fn i32_to_f32(self, a: Self::U) -> Self::F {
        quarters!(i => simd!(vcvtq_f32_s32(vreinterpretq_s32_u32(a[i]))))
    }
    #[inline(always)]
    fn f32_to_i32(self, a: Self::F) -> Self::U {
        quarters!(i => simd!(vreinterpretq_u32_s32(vcvtnq_s32_f32(a[i]))))
    }
    #[inline(always)]
    fn f16_to_f32(self, a: Self::U) -> Self::F {
        quarters!(i => widen_f16(self, simd!(vmovn_u32(a[i]))))
    }
    #[inline(always)]
    fn f32_to_f16(self, a: Self::F) -> Self::U {
        quarters!(i => {
            let halves = narrow_f16(self, a[i]);
            simd!(vmovl_u16(halves))
        })
    }

    #[inline(always)]
    fn load_u8(self, src: &[u8; 16]) -> Self::U {
        simd! {
            let bytes = vld1q_u8(src.as_ptr());
            let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
            [vmovl_u16(vget_low_u16(low)), vmovl_high_u16(low), vmovl_u16(vget_low_u16(high)), vmovl_high_u16(high)]
        }
    }
    #[inline(always)]
    fn store_u8(self, a: Self::U, dst: &mut [u8; 16]) {
        simd! {
            let byte = |i: usize| vreinterpretq_u8_u32(a[i]);
            // The even bytes of the even halves: two unzips keep byte 0 of every lane.
            let (low, high) = (vuzp1q_u8(byte(0), byte(1)), vuzp1q_u8(byte(2), byte(3)));
            vst1q_u8(dst.as_mut_ptr(), vuzp1q_u8(low, high));
        }
    }
    #[inline(always)]
    fn load_u16(self, src: &[u16; 16]) -> Self::U {
        simd! {
            let (low, high) = (vld1q_u16(src.as_ptr()), vld1q_u16(src.as_ptr().add(8)));
            [vmovl_u16(vget_low_u16(low)), vmovl_high_u16(low), vmovl_u16(vget_low_u16(high)), vmovl_high_u16(high)]
        }
    }
    #[inline(always)]
    fn store_u16(self, a: Self::U, dst: &mut [u16; 16]) {
        simd! {
            let half = |i: usize| vreinterpretq_u16_u32(a[i]);
            vst1q_u16(dst.as_mut_ptr(), vuzp1q_u16(half(0), half(1)));
            vst1q_u16(dst.as_mut_ptr().add(8), vuzp1q_u16(half(2), half(3)));
        }
    }
    #[inline(always)]
    fn load_nibbles(self, src: &[u8; 8]) -> Self::U {
        simd! {
            let bytes = vld1_u8(src.as_ptr());
            let nibbles = vcombine_u8(vzip1_u8(bytes, vshr_n_u8::<4>(bytes)), vzip2_u8(bytes, vshr_n_u8::<4>(bytes)));
            let (low, high) = (vmovl_u8(vget_low_u8(nibbles)), vmovl_high_u8(nibbles));
            [vmovl_u16(vget_low_u16(low)), vmovl_high_u16(low), vmovl_u16(vget_low_u16(high)), vmovl_high_u16(high)]
        }
    }
    #[inline(always)]
    fn store_nibbles(self, a: Self::U, dst: &mut [u8; 8]) {
        simd! {
            let byte = |i: usize| vreinterpretq_u8_u32(a[i]);
            let bytes = vuzp1q_u8(vuzp1q_u8(byte(0), byte(1)), vuzp1q_u8(byte(2), byte(3)));
            let codes = vandq_u8(bytes, vdupq_n_u8(15));
            // Word = even | odd << 8; adding it shifted right by 4 puts odd above even.
            let words = vreinterpretq_u16_u8(codes);
            vst1_u8(dst.as_mut_ptr(), vmovn_u16(vorrq_u16(words, vshrq_n_u16::<4>(words))));
        }
    }
    #[inline(always)]
    fn load_u(self, src: &[u32; 16]) -> Self::U {
        quarters!(i => simd!(vld1q_u32(src.as_ptr().add(4 * i))))
    }
    #[inline(always)]
    fn load_u32_le(self, src: &[u8; 64]) -> Self::U {
        quarters!(i => simd!(vreinterpretq_u32_u8(vld1q_u8(src.as_ptr().add(16 * i)))))
    }
    #[inline(always)]
    fn spread_4(self, src: &[u8; 4]) -> Self::U {
        quarters!(i => simd!(vdupq_n_u32(u32::from(src[i]))))
    }
    #[inline(always)]
    fn e4m3_pairs(self, src: &[u8; 8]) -> Self::F {
        simd! {
            let words = vshll_n_u8::<7>(vld1_u8(src.as_ptr()));
            let (low, high) = (vzip1q_u16(words, words), vzip2q_u16(words, words));
            [
                widen_f16(self, vget_low_u16(low)),
                widen_f16(self, vget_high_u16(low)),
                widen_f16(self, vget_low_u16(high)),
                widen_f16(self, vget_high_u16(high)),
            ]
        }
    }
    #[inline(always)]
    fn lookup(self, table: &[f32; 16], index: Self::U) -> Self::F {
        simd! {
            let bytes = table.as_ptr().cast::<u8>();
            let table = uint8x16x4_t(
                vld1q_u8(bytes), vld1q_u8(bytes.add(16)), vld1q_u8(bytes.add(32)), vld1q_u8(bytes.add(48)),
            );
            quarters!(i => {
                // Byte k of a lane reads table byte 4 * index + k.
                let word = vandq_u32(index[i], vdupq_n_u32(15));
                let bytes = vmlaq_n_u32(vdupq_n_u32(0x0302_0100), word, 0x0404_0404);
                vreinterpretq_f32_u8(vqtbl4q_u8(table, vreinterpretq_u8_u32(bytes)))
            })
        }
    }

    #[inline(always)]
    fn load_b(self, src: &[u8; 64]) -> Self::B {
        quarters!(i => simd!(vld1q_u8(src.as_ptr().add(16 * i))))
    }
    #[inline(always)]
    fn e2m1_bytes(self, packed: Self::B) -> (Self::B, Self::B) {
        simd! {
            let table = vld1q_u8(E2M1_TIMES_2_PLUS_12.as_ptr());
            let low = quarters!(i => vqtbl1q_u8(table, vandq_u8(packed[i], vdupq_n_u8(15))));
            let high = quarters!(i => vqtbl1q_u8(table, vshrq_n_u8::<4>(packed[i])));
            (low, high)
        }
    }
    #[inline(always)]
    fn dot_u7(self, acc: Self::U, u: Self::B, s: Self::B) -> Self::U {
        // Below 128 an unsigned byte reads the same as a signed one.
        self.dot_i8(acc, u, s)
    }
    #[inline(always)]
    fn dot_i8(self, acc: Self::U, a: Self::B, b: Self::B) -> Self::U {
        quarters!(i => {
            let acc = simd!(vreinterpretq_s32_u32(acc[i]));
            let (a, b) = simd!((vreinterpretq_s8_u8(a[i]), vreinterpretq_s8_u8(b[i])));
            let sum = sdot(self, acc, a, b);
            simd!(vreinterpretq_u32_s32(sum))
        })
    }
}
