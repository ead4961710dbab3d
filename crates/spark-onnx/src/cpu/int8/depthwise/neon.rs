//! Blocks of a row with NEON.
//!
//! ```text
//! 16 bytes of a tap -> two vectors of words -> SMLAL into four vectors of sums
//! ```

use std::arch::aarch64::*;

use super::packing::{PackedTaps, Row};

/// Bytes of a block.
const BLOCK: usize = 16;

spark_simd::features! { compile Neon
    /// # Safety
    ///
    /// As [`super::run::run`]; the processor must have NEON.
    pub(super) unsafe fn run(row: &Row<'_>) {
        let numbers = row.numbers;
        let PackedTaps::Words(weights) = &numbers.weights else {
            unreachable!("weights are packed for the kernel that reads them")
        };
        // SAFETY: numbers have whole blocks for every part of the period; the rest is guaranteed by the caller.
        unsafe {
            let low = vdupq_n_f32(numbers.low);
            let high = vdupq_n_f32(numbers.high);
            let zero = vdupq_n_s16(numbers.zero);
            let flip = vdupq_n_u8(numbers.flip);
            for block in row.first..row.last {
                let part = block % numbers.period;
                let at = part * BLOCK;
                let initial = numbers.initial.as_ptr().add(at);
                let mut sums = [
                    vld1q_s32(initial),
                    vld1q_s32(initial.add(4)),
                    vld1q_s32(initial.add(8)),
                    vld1q_s32(initial.add(12)),
                ];
                let mut weights = weights.as_ptr().add(part * numbers.steps * BLOCK);
                for tap in row.taps {
                    let x = vld1q_u8(tap.add(block * BLOCK));
                    let near = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(x)));
                    let far = vreinterpretq_s16_u16(vmovl_high_u8(x));
                    let (w, v) = (vld1q_s16(weights), vld1q_s16(weights.add(8)));
                    sums[0] = vmlal_s16(sums[0], vget_low_s16(near), vget_low_s16(w));
                    sums[1] = vmlal_high_s16(sums[1], near, w);
                    sums[2] = vmlal_s16(sums[2], vget_low_s16(far), vget_low_s16(v));
                    sums[3] = vmlal_high_s16(sums[3], far, v);
                    weights = weights.add(BLOCK);
                }
                let multipliers = numbers.multipliers.as_ptr().add(at);
                let mut words = [vdupq_n_s32(0); 4];
                for i in 0..4 {
                    let value = vmulq_f32(vcvtq_f32_s32(sums[i]), vld1q_f32(multipliers.add(4 * i)));
                    // What is no number becomes the least.
                    let value = vbslq_f32(vcgtq_f32(value, low), value, low);
                    let value = vbslq_f32(vcltq_f32(value, high), value, high);
                    words[i] = vcvtnq_s32_f32(value);
                }
                let near = vcombine_s16(vmovn_s32(words[0]), vmovn_s32(words[1]));
                let far = vcombine_s16(vmovn_s32(words[2]), vmovn_s32(words[3]));
                let near = vqmovun_s16(vaddq_s16(near, zero));
                let far = vqmovun_s16(vaddq_s16(far, zero));
                let bytes = veorq_u8(vcombine_u8(near, far), flip);
                vst1q_u8(row.y.add((block - row.first) * BLOCK), bytes);
            }
        }
    }
}
