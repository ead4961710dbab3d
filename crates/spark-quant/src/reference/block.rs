//! Block quantizers written out block by block.

use crate::block::{Granularity, MxScale, Nvfp4Formula, Recipe, ScaleSearch};
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::{MiniFormat, NanCode, Overflow, e8m0};

use super::scalar::encode;

fn nearest(format: MiniFormat, value: f32) -> u8 {
    encode(format, value, Overflow::Saturate, NanCode::default())
}

fn amax(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

/// One code per value and the scales of `n_rows` rows, each `depth` long and a whole number of blocks.
/// All values must be finite.
pub fn quantize(recipe: Recipe, rows: &[f32], n_rows: usize, depth: usize) -> (Vec<u8>, Scales) {
    match recipe {
        Recipe::Nvfp4 { formula, search } => nvfp4(rows, formula, search),
        Recipe::Mx { format, scale } => mx(rows, format, scale),
        Recipe::Int8 { granularity } => plain(rows, [n_rows, depth], granularity, 127.0, |x| {
            x.round_ties_even().clamp(-127.0, 127.0) as i8 as u8
        }),
        Recipe::Fp8 {
            format,
            granularity,
        } => plain(
            rows,
            [n_rows, depth],
            granularity,
            format.spec().max(),
            |x| nearest(format, x),
        ),
    }
}

fn nvfp4(rows: &[f32], formula: Nvfp4Formula, search: ScaleSearch) -> (Vec<u8>, Scales) {
    let largest_scale = if search == ScaleSearch::FourOverSix {
        256.0
    } else {
        448.0
    };
    let tensor = match amax(rows) {
        0.0 => 1.0,
        amax => (amax / (6.0 * largest_scale)).max(2f32.powi(-112)),
    };
    let (smallest, of_zeros) = match formula {
        Nvfp4Formula::ModelOpt => (2f32.powi(-9), 0x38),
        Nvfp4Formula::TorchAo => (2f32.powi(-6), 0x08),
    };
    let (mut codes, mut scales) = (Vec::new(), Vec::new());
    for block in rows.chunks_exact(16) {
        let raw = match formula {
            Nvfp4Formula::ModelOpt => amax(block) / (6.0 * tensor),
            Nvfp4Formula::TorchAo => (amax(block) / 6.0) / tensor,
        };
        let to_scale = |raw: f32| nearest(MiniFormat::E4m3, raw.clamp(smallest, 448.0));
        let base = to_scale(raw);
        let candidates: Vec<u8> = match search {
            ScaleSearch::Amax => vec![base],
            ScaleSearch::FourOverSix => vec![base, to_scale(raw * 1.5)],
            ScaleSearch::Sweep => (-4..=7)
                .map(|step| (i32::from(base) + step).clamp(1, 0x7E) as u8)
                .collect(),
        };
        let mut best = (f32::INFINITY, base);
        for &candidate in candidates.iter().filter(|_| candidates.len() > 1) {
            let scale = MiniFormat::E4m3.decode(candidate);
            let inverse = 1.0 / (scale * tensor);
            let mut sum = 0f32;
            for x in block {
                let scaled = x.abs() * inverse;
                let difference =
                    scaled - MiniFormat::E2m1.decode(nearest(MiniFormat::E2m1, scaled));
                sum = difference.mul_add(difference, sum);
            }
            let error = sum * scale * scale;
            if error < best.0 {
                best = (error, candidate);
            }
        }
        let code = if amax(block) == 0.0 { of_zeros } else { best.1 };
        let scale = MiniFormat::E4m3.decode(code);
        scales.push(code);
        for x in block {
            let scaled = match formula {
                Nvfp4Formula::ModelOpt => x / (scale * tensor),
                Nvfp4Formula::TorchAo => x * ((1.0 / tensor) / scale),
            };
            codes.push(nearest(MiniFormat::E2m1, scaled));
        }
    }
    (
        codes,
        Scales::Nvfp4 {
            block: scales,
            tensor,
        },
    )
}

fn mx(rows: &[f32], format: MiniFormat, rule: MxScale) -> (Vec<u8>, Scales) {
    let spec = format.spec();
    let emax = spec.max_exponent();
    let (mut codes, mut scales) = (Vec::new(), Vec::new());
    for block in rows.chunks_exact(32) {
        let amax = amax(block);
        // floor(log2) by the exponent field; f32 subnormals all count as 2^-127.
        let floor_log2 = |x: f32| (x.to_bits() >> 23) as i32 - 127;
        let is_power = |x: f32| x.to_bits() & 0x007F_FFFF == 0;
        let code = match rule {
            MxScale::Floor | MxScale::Mse => floor_log2(amax) - emax + 127,
            MxScale::Even => {
                let half_ulp = 1 << (22 - spec.mantissa_bits);
                floor_log2(f32::from_bits(amax.to_bits() + half_ulp)) - emax + 127
            }
            MxScale::Ceil => floor_log2(amax) + i32::from(!is_power(amax)) - emax + 127,
            MxScale::RoundUp => i32::from(e8m0::encode(amax / spec.max(), e8m0::Rounding::Up)),
        };
        let mut code = code.clamp(0, 254) as u8;
        if rule == MxScale::Mse {
            code = best_of_three(block, format, code);
        }
        scales.push(code);
        // 2^(127 - code) is exact, even where it is a subnormal.
        let factor = 2f64.powi(127 - i32::from(code)) as f32;
        codes.extend(block.iter().map(|x| nearest(format, x * factor)));
    }
    (codes, Scales::Mx(scales))
}

fn best_of_three(block: &[f32], format: MiniFormat, code: u8) -> u8 {
    let mut best = (f32::INFINITY, code);
    for (step, weight) in [(-1, 0.25), (0, 1.0), (1, 4.0)] {
        let candidate = i32::from(code) + step;
        if !(0..=254).contains(&candidate) {
            continue;
        }
        let factor = 2f64.powi(127 - candidate) as f32;
        // The two halves of the block are one after the other in the sum, as everywhere else.
        let sum = block.iter().fold(0f32, |sum, x| {
            let scaled = x.abs() * factor;
            let difference = scaled - format.decode(nearest(format, scaled));
            difference.mul_add(difference, sum)
        });
        if sum * weight < best.0 {
            best = (sum * weight, candidate as u8);
        }
    }
    best.1
}

fn plain(
    rows: &[f32],
    [n_rows, depth]: [usize; 2],
    granularity: Granularity,
    max: f32,
    code: impl Fn(f32) -> u8,
) -> (Vec<u8>, Scales) {
    let block = match granularity {
        Granularity::Tensor => [n_rows.max(1), depth.max(1)],
        Granularity::Row => [1, depth.max(1)],
        Granularity::Block { rows, depth: width } => {
            [rows.min(n_rows.max(1)), width.min(depth.max(1))]
        }
    };
    let n_across = depth.div_ceil(block[1]);
    let mut largest = vec![0f32; n_rows.div_ceil(block[0]) * n_across];
    let which = |i: usize| i / depth / block[0] * n_across + i % depth / block[1];
    for (i, x) in rows.iter().enumerate() {
        largest[which(i)] = largest[which(i)].max(x.abs());
    }
    let values: Vec<f32> = largest
        .iter()
        .map(|&amax| {
            if amax == 0.0 {
                1.0
            } else {
                (amax / max).max(f32::MIN_POSITIVE)
            }
        })
        .collect();
    let codes = rows
        .iter()
        .enumerate()
        .map(|(i, x)| code(x / values[which(i)]))
        .collect();
    (codes, Scales::F32 { values, block })
}

/// Values of a packed tensor without rotation, row after row, padding left out.
pub fn dequantize(tensor: &PackedTensor) -> Vec<f32> {
    let mut values = Vec::new();
    let (depth, padded) = (tensor.depth(), tensor.padded_depth());
    for row in 0..tensor.n_rows() {
        for (k, &code) in tensor.row_codes(row).iter().enumerate() {
            let code_value = match tensor.format() {
                PackedFormat::Nvfp4 => MiniFormat::E2m1.decode(code),
                PackedFormat::Mx(format) | PackedFormat::Fp8(format) => format.decode(code),
                PackedFormat::Int8 => f32::from(code as i8),
            };
            let scale = match tensor.scales() {
                Scales::Nvfp4 { block, tensor } => {
                    MiniFormat::E4m3.decode(block[(row * padded + k) / 16]) * tensor
                }
                Scales::Mx(scales) => e8m0::decode(scales[(row * padded + k) / 32]),
                Scales::F32 { values, block } => {
                    values[row / block[0] * depth.div_ceil(block[1]) + k / block[1]]
                }
            };
            values.push(code_value * scale);
        }
    }
    values
}
