//! GEMM in the documented order of additions, one output at a time.

use crate::block::{Granularity, MxScale, Recipe};
use crate::gemm::InputMode;
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::{MiniFormat, e8m0};

/// `[n_inputs, n_rows]` products of f32 inputs `[n_inputs, depth]` with weights that are not rotated,
/// without an epilogue. Inputs must be finite, and `mode` must exist for the format.
pub fn gemm(weights: &PackedTensor, x: &[f32], n_inputs: usize, mode: InputMode) -> Vec<f32> {
    let depth = weights.depth();
    let four_bit = weights.format().code_bits() == 4;
    let mut out = Vec::new();
    let tensor_amax = x.iter().fold(0f32, |largest, x| largest.max(x.abs()));
    for input in 0..n_inputs {
        let x = &x[input * depth..(input + 1) * depth];
        for row in 0..weights.n_rows() {
            let codes = weights.row_codes(row);
            out.push(match mode {
                InputMode::Exact if four_bit => four_bit_exact(weights, row, &codes, x),
                InputMode::Exact => runs(weights, row, &codes, x),
                _ if four_bit => four_bit_bytes(
                    weights,
                    row,
                    &codes,
                    &lane_inputs(weights.format(), x, tensor_amax, mode),
                ),
                _ if weights.format() == PackedFormat::Int8 => int8_bytes(weights, row, &codes, x),
                _ => runs(weights, row, &codes, &round_trip(weights.format(), x)),
            });
        }
    }
    out
}

/// Lane `i` takes lane `i + width` for widths 8, 4, 2, 1.
fn tree(mut lanes: [f32; 16]) -> f32 {
    for width in [8, 4, 2, 1] {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
    }
    lanes[0]
}

/// Scale of value `k` of a four-bit row, and what all sums are still multiplied with.
fn lane_scale(weights: &PackedTensor, row: usize, k: usize) -> (f32, f32) {
    let padded = weights.depth().next_multiple_of(weights.format().block());
    let position = (k < padded).then_some(row * padded + k);
    match weights.scales() {
        Scales::Nvfp4 { block, tensor } => {
            let scale = position.map_or(0.0, |at| MiniFormat::E4m3.decode(block[at / 16]));
            (scale / 256.0, 256.0 * tensor)
        }
        Scales::Mx(scales) => (
            position.map_or(e8m0::decode(0), |at| e8m0::decode(scales[at / 32])),
            1.0,
        ),
        Scales::F32 { .. } => (f32::NAN, f32::NAN),
    }
}

fn four_bit_exact(weights: &PackedTensor, row: usize, codes: &[u8], x: &[f32]) -> f32 {
    let mut lanes = [0f32; 16];
    for group in 0..x.len().div_ceil(128) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            let first = 128 * group + 8 * lane;
            let mut part = 0f32;
            for k in first..first + 8 {
                let (code, x) = (
                    codes.get(k).copied().unwrap_or(0),
                    x.get(k).copied().unwrap_or(0.0),
                );
                part = MiniFormat::E2m1.decode(code).mul_add(x, part);
            }
            *sum = part.mul_add(lane_scale(weights, row, first).0, *sum);
        }
    }
    tree(lanes) * lane_scale(weights, row, 0).1
}

/// Integer inputs with a scale per value, and the factor of all sums.
struct LaneInputs {
    values: Vec<i32>,
    scales: Vec<f32>,
    factor: f32,
}

fn lane_inputs(format: PackedFormat, x: &[f32], tensor_amax: f32, mode: InputMode) -> LaneInputs {
    if x.is_empty() {
        return LaneInputs {
            values: Vec::new(),
            scales: Vec::new(),
            factor: 1.0,
        };
    }
    let block = format.block();
    let mut padded = x.to_vec();
    padded.resize(x.len().next_multiple_of(block), 0.0);
    let n = padded.len();
    let recipe = match (mode, format) {
        (InputMode::Int8, _) => Recipe::Int8 {
            granularity: Granularity::Block {
                rows: 1,
                depth: block,
            },
        },
        (_, PackedFormat::Nvfp4) => {
            // The tensor scale comes from all inputs; a row of its own carries their largest value.
            padded.extend(
                [tensor_amax]
                    .into_iter()
                    .chain(std::iter::repeat_n(0.0, n - 1)),
            );
            Recipe::NVFP4
        }
        _ => Recipe::MXFP4,
    };
    let (codes, scales) = super::quantize(recipe, &padded, padded.len() / n, n);
    let doubled = |code: u8| (2.0 * MiniFormat::E2m1.decode(code)) as i32;
    let scale_of = |k: usize| match &scales {
        Scales::Nvfp4 { block, .. } => MiniFormat::E4m3.decode(block[k / 16]),
        Scales::Mx(scales) => e8m0::decode(scales[k / 32]),
        Scales::F32 { values, .. } => values[k / block],
    };
    let factor = match &scales {
        Scales::Nvfp4 { tensor, .. } => 0.5 * tensor,
        Scales::Mx(_) => 0.5,
        Scales::F32 { .. } => 1.0,
    };
    let is_int8 = mode == InputMode::Int8;
    LaneInputs {
        values: codes[..x.len()]
            .iter()
            .map(|&c| {
                if is_int8 {
                    i32::from(c as i8)
                } else {
                    doubled(c)
                }
            })
            .collect(),
        scales: (0..x.len()).map(scale_of).collect(),
        factor,
    }
}

fn four_bit_bytes(weights: &PackedTensor, row: usize, codes: &[u8], x: &LaneInputs) -> f32 {
    let mut lanes = [0f32; 16];
    for group in 0..codes.len().div_ceil(128) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            let first = 128 * group + 8 * lane;
            let part: i32 = (first..(first + 8).min(codes.len()))
                .map(|k| (2.0 * MiniFormat::E2m1.decode(codes[k])) as i32 * x.values[k])
                .sum();
            let x_scale = x.scales.get(first).copied().unwrap_or(0.0);
            *sum = (part as f32).mul_add(lane_scale(weights, row, first).0 * x_scale, *sum);
        }
    }
    let (_, factor) = lane_scale(weights, row, 0);
    // Powers of two commute; the tensor scales multiply in this order.
    let (powers, tensor) = match weights.scales() {
        Scales::Nvfp4 { tensor, .. } => (0.5 * 256.0, *tensor),
        _ => (0.5 * factor, 1.0),
    };
    tree(lanes) * (powers * tensor * x.factor)
}

fn round_trip(format: PackedFormat, x: &[f32]) -> Vec<f32> {
    let recipe = match format {
        PackedFormat::Mx(format) => Recipe::Mx {
            format,
            scale: MxScale::RoundUp,
        },
        PackedFormat::Fp8(format) => Recipe::Fp8 {
            format,
            granularity: Granularity::Row,
        },
        PackedFormat::Nvfp4 | PackedFormat::Int8 => return x.to_vec(),
    };
    let mut padded = x.to_vec();
    padded.resize(x.len().next_multiple_of(format.block()), 0.0);
    let (codes, scales) = super::quantize(recipe, &padded, 1, padded.len());
    let value = |k: usize| match (&scales, format) {
        (Scales::Mx(scales), PackedFormat::Mx(format)) => {
            format.decode(codes[k]) * e8m0::decode(scales[k / 32])
        }
        (Scales::F32 { values, .. }, PackedFormat::Fp8(format)) => {
            format.decode(codes[k]) * values[0]
        }
        _ => f32::NAN,
    };
    (0..x.len()).map(value).collect()
}

fn runs(weights: &PackedTensor, row: usize, codes: &[u8], x: &[f32]) -> f32 {
    let depth = codes.len();
    let run = match weights.scales() {
        Scales::F32 { block, .. } => block[1],
        _ => 32,
    };
    // E4M3 weights count in units of 256 until the end, which only matters to f32 subnormals.
    let unit = match weights.format() {
        PackedFormat::Mx(MiniFormat::E4m3) | PackedFormat::Fp8(MiniFormat::E4m3) => 256.0,
        _ => 1.0,
    };
    let mut lanes = [0f32; 16];
    for (index, start) in (0..depth).step_by(run).enumerate() {
        let end = (start + run).min(depth);
        let mut parts = [0f32; 16];
        for k in start..end {
            let weight = match weights.format() {
                PackedFormat::Int8 => f32::from(codes[k] as i8),
                PackedFormat::Mx(format) | PackedFormat::Fp8(format) => format.decode(codes[k]),
                PackedFormat::Nvfp4 => f32::NAN,
            };
            parts[(k - start) % 16] = (weight / unit).mul_add(x[k], parts[(k - start) % 16]);
        }
        let n_runs = depth.div_ceil(run);
        let scale = match weights.scales() {
            Scales::F32 { values, block } => values[row / block[0] * n_runs + index],
            Scales::Mx(scales) => e8m0::decode(scales[row * n_runs + index]),
            Scales::Nvfp4 { .. } => f32::NAN,
        };
        for (sum, part) in lanes.iter_mut().zip(parts) {
            *sum = part.mul_add(scale, *sum);
        }
    }
    tree(lanes) * unit
}

fn int8_bytes(weights: &PackedTensor, row: usize, codes: &[u8], x: &[f32]) -> f32 {
    // Rows of no values have no scales.
    if x.is_empty() {
        return 0.0;
    }
    let (x_codes, x_scales) = super::quantize(Recipe::INT8, x, 1, x.len());
    let (
        Scales::F32 {
            values: x_scale, ..
        },
        Scales::F32 {
            values: scales,
            block,
        },
    ) = (&x_scales, weights.scales())
    else {
        return f32::NAN;
    };
    let mut lanes = [0f32; 16];
    for start in (0..codes.len()).step_by(65536) {
        let mut parts = [0i32; 16];
        for k in start..(start + 65536).min(codes.len()) {
            parts[(k - start) % 64 / 4] += i32::from(codes[k] as i8) * i32::from(x_codes[k] as i8);
        }
        for (sum, part) in lanes.iter_mut().zip(parts) {
            *sum += part as f32;
        }
    }
    tree(lanes) * (scales[row / block[0]] * x_scale[0])
}
