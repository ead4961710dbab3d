//! Stochastic rounding: codes that are right on average.
//!
//! ```text
//! t     = |w / scale| in units of the code step at its size      (exact)
//! n     = floor(t) + (u < t - floor(t))                           u uniform in [0, 1)
//! u     = word(i) of Philox4x32-10 keyed by the seed, i = position among the padded rows
//! ```
//!
//! The generator is a pure function of seed and position, so results do not depend on threads or on
//! the order of work, and one element can be recomputed alone. Scales are those of nearest rounding.
//! Magnitudes beyond the largest value saturate. Runs one value at a time.
//!
//! Source of the generator: Salmon, Moraes, Dror, Shaw, *Parallel random numbers: as easy as 1, 2, 3*
//! (SC 2011).

use crate::packed::Scales;
use crate::packed::bits::pack_sixes;
use crate::scalar::{MiniFormat, MiniSpec, e8m0};

use super::plain::{Element, RowShape};
use super::recipe::{Nvfp4Formula, Recipe};

/// Four random words for one counter: Philox4x32 with ten rounds, key = seed, counter in the low half.
pub const fn philox(seed: u64, counter: u64) -> [u32; 4] {
    philox_block(
        [counter as u32, (counter >> 32) as u32, 0, 0],
        [seed as u32, (seed >> 32) as u32],
    )
}

/// The generator on its full 128-bit counter.
const fn philox_block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let mut round = 0;
    while round < 10 {
        let first = 0xD251_1F53u64 * counter[0] as u64;
        let second = 0xCD9E_8D57u64 * counter[2] as u64;
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
        round += 1;
    }
    counter
}

/// Uniform in `[0, 1)` with 24 bits.
fn uniform(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Code of `value` rounded up or down at random; saturates.
pub(crate) fn encode(spec: MiniSpec, value: f32, word: u32) -> u8 {
    let magnitude = value.abs().min(spec.max());
    let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).max(spec.min_exponent());
    let step = f32::from_bits(((exponent - spec.mantissa_bits as i32 + 127) as u32) << 23);
    let in_steps = magnitude / step;
    let whole = in_steps.floor();
    let up = uniform(word) < in_steps - whole;
    let code = whole as u32
        + u32::from(up)
        + (((exponent - spec.min_exponent()) as u32) << spec.mantissa_bits);
    let sign = u32::from(value.is_sign_negative()) << (spec.bits() - 1);
    (code.min(u32::from(spec.max_code)) | sign) as u8
}

/// Signed byte of `value` rounded up or down at random; saturates at 127.
pub(crate) fn encode_int8(value: f32, word: u32) -> i8 {
    let magnitude = value.abs().min(127.0);
    let whole = magnitude.floor();
    let rounded = whole + f32::from(u8::from(uniform(word) < magnitude - whole));
    rounded.copysign(value) as i8
}

/// Replaces the codes of `rows` under scales already chosen.
pub(crate) fn recode(
    recipe: Recipe,
    rows: &[f32],
    shape: RowShape,
    scales: &Scales,
    seed: u64,
    codes: &mut [u8],
) {
    let word = |i: usize| philox(seed, i as u64 / 4)[i % 4];
    match (recipe, scales) {
        (Recipe::Nvfp4 { formula, .. }, Scales::Nvfp4 { block, tensor }) => {
            let spec = MiniFormat::E2m1.spec();
            for (i, pair) in rows.chunks_exact(2).enumerate() {
                let scale = MiniFormat::E4m3.decode(block[i / 8]);
                let scaled = |x: f32| match formula {
                    Nvfp4Formula::ModelOpt => x / (scale * tensor),
                    Nvfp4Formula::TorchAo => x * ((1.0 / tensor) / scale),
                };
                let low = encode(spec, scaled(pair[0]), word(2 * i));
                codes[i] = low | encode(spec, scaled(pair[1]), word(2 * i + 1)) << 4;
            }
        }
        (Recipe::Mx { format, .. }, Scales::Mx(scales)) => {
            let block_bytes = codes.len() / scales.len().max(1);
            let blocks = rows
                .chunks_exact(32)
                .zip(codes.chunks_exact_mut(block_bytes.max(1)));
            for (b, (values, codes)) in blocks.enumerate() {
                let scale = e8m0::decode(scales[b]);
                let block_codes: [u8; 32] = std::array::from_fn(|k| {
                    encode(format.spec(), values[k] / scale, word(32 * b + k))
                });
                match format.spec().bits() {
                    4 => codes.iter_mut().enumerate().for_each(|(i, byte)| {
                        *byte = block_codes[2 * i] | block_codes[2 * i + 1] << 4;
                    }),
                    8 => codes.copy_from_slice(&block_codes),
                    _ => pack_sixes(&block_codes, codes),
                }
            }
        }
        (
            Recipe::Int8 { .. } | Recipe::Fp8 { .. },
            Scales::F32 {
                values: scales,
                block,
            },
        ) => {
            let element = match recipe {
                Recipe::Fp8 { format, .. } => Element::Float(format),
                _ => Element::Int8,
            };
            let n_across = shape.depth.div_ceil(block[1]);
            for (i, (value, code)) in rows.iter().zip(codes).enumerate() {
                let (row, k) = (i / shape.depth, i % shape.depth);
                let scaled = value / scales[row / block[0] * n_across + k / block[1]];
                *code = match element {
                    Element::Int8 => encode_int8(scaled, word(i)) as u8,
                    Element::Float(format) => encode(format.spec(), scaled, word(i)),
                };
            }
        }
        _ => unreachable!("a recipe's own scales"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_words() {
        // Known answers distributed with Random123: zero, all ones, digits of pi.
        assert_eq!(
            philox_block([0; 4], [0; 2]),
            [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]
        );
        assert_eq!(
            philox_block([u32::MAX; 4], [u32::MAX; 2]),
            [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]
        );
        assert_eq!(
            philox_block(
                [0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344],
                [0xA409_3822, 0x299F_31D0]
            ),
            [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]
        );
    }

    #[test]
    fn the_average_of_many_roundings_is_the_value() {
        for format in MiniFormat::ALL {
            for value in [
                0.3f32,
                1.1,
                -2.7,
                0.02 * format.spec().max(),
                -0.9 * format.spec().max(),
            ] {
                let n = 40_000;
                let sum: f64 = (0..n)
                    .map(|i| {
                        f64::from(format.decode(encode(format.spec(), value, philox(7, i)[0])))
                    })
                    .sum();
                let step = format.spec().max() / 4.0;
                let error = (sum / n as f64 - f64::from(value)).abs();
                assert!(
                    error <= f64::from(step) / 100.0,
                    "{format} {value}: off by {error}"
                );
            }
        }
    }
}
