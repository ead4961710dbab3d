//! Inputs in the order the kernels read them.
//!
//! ```text
//! four-bit weights, exact   [input, group, s, l]      value 128 group + 8 l + s,  s < 8, l < 16
//! four-bit weights, bytes   [input, group, parity, 4 l + t]   value 128 group + 8 l + 2 t + parity
//! other weights, exact      [input, k]     padded to whole vectors
//! INT8 weights, bytes       [input, k]     padded to 64
//! ```

use half::slice::HalfFloatSliceExt;

use super::input::{Input, InputMode};
use crate::block::{Granularity, Quantizer, Recipe, Rotation};
use crate::error::QuantError;
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::MiniFormat;
use crate::simd::{E2M1_TIMES_2_PLUS_12, ExecutionPolicy};

/// Values per group of the four-bit kernels.
pub(super) const GROUP: usize = 128;

/// Inputs arranged for one kind of packed format.
#[derive(Debug, Clone)]
pub struct PreparedInput {
    n_inputs: usize,
    depth: usize,
    rotation: Option<Rotation>,
    pub(super) layout: Layout,
}

#[derive(Debug, Clone)]
pub(super) enum Layout {
    /// f32 in the lane order of four-bit weights.
    Lanes(Vec<f32>),
    /// Bytes in the lane order of four-bit weights.
    LaneBytes(LaneBytes),
    /// f32 in order, each input padded to this many values.
    Plain { values: Vec<f32>, padded: usize },
    /// Bytes in order, each input padded to this many, with a factor per input.
    Bytes {
        values: Vec<u8>,
        padded: usize,
        factors: Vec<f32>,
    },
}

/// Quantized inputs for four-bit weights.
#[derive(Debug, Clone)]
pub(super) struct LaneBytes {
    /// Signed bytes, `[input, group, 128]`.
    pub(super) values: Vec<u8>,
    /// What the offset 12 of the weights adds to each lane, negated, `[input, group, 16]`.
    pub(super) corrections: Vec<u32>,
    /// Scale of each lane's values, `[input, group, 16]`.
    pub(super) scales: Vec<f32>,
    /// Factor of every sum.
    pub(super) factor: f32,
    /// Consecutive values along the depth that share a scale.
    pub(super) block: usize,
}

/// One of the inputs of [`LaneBytes`], by group.
pub(super) struct LaneInput<'a> {
    /// Even values, then odd ones, of each group.
    pub(super) values: &'a [[u8; 64]],
    pub(super) corrections: &'a [[u32; 16]],
    pub(super) scales: &'a [[f32; 16]],
}

impl LaneBytes {
    pub(super) fn input(&self, input: usize, n_groups: usize) -> LaneInput<'_> {
        let groups = input * n_groups..(input + 1) * n_groups;
        LaneInput {
            values: &self.values.as_chunks().0[2 * groups.start..2 * groups.end],
            corrections: &self.corrections.as_chunks().0[groups.clone()],
            scales: &self.scales.as_chunks().0[groups],
        }
    }
}

fn is_four_bit(format: PackedFormat) -> bool {
    format.code_bits() == 4
}

impl PreparedInput {
    pub(super) fn new(
        policy: ExecutionPolicy,
        weights: &PackedTensor,
        x: Input<'_>,
        n_inputs: usize,
        mode: InputMode,
    ) -> Result<Self, QuantError> {
        let depth = weights.depth();
        let n_values = n_inputs.saturating_mul(depth);
        let mut values = match x {
            Input::F32(x) => {
                QuantError::check_length("x", x.len(), n_values)?;
                std::borrow::Cow::Borrowed(x)
            }
            Input::Bf16(x) => {
                QuantError::check_length("x", x.len(), n_values)?;
                std::borrow::Cow::Owned(x.to_f32_vec())
            }
        };
        if let Some(rotation) = weights.rotation() {
            rotation.apply(policy, values.to_mut());
        }
        let shape = [n_inputs, depth];
        let four_bit = is_four_bit(weights.format());
        let layout = match mode {
            InputMode::Exact if four_bit => Layout::Lanes(lanes(&values, depth)),
            InputMode::Exact => plain(&values, depth),
            InputMode::Int8 if four_bit => {
                let block = weights.format().block();
                let granularity = Granularity::Block {
                    rows: 1,
                    depth: block,
                };
                let packed = Quantizer::new(Recipe::Int8 { granularity })
                    .quantize(policy, &values, &shape, 1)?;
                lane_bytes(&packed, block)
            }
            InputMode::WeightFormat if four_bit => {
                let recipe = if weights.format() == PackedFormat::Nvfp4 {
                    Recipe::NVFP4
                } else {
                    Recipe::MXFP4
                };
                let packed = Quantizer::new(recipe).quantize(policy, &values, &shape, 1)?;
                lane_bytes(&packed, weights.format().block())
            }
            InputMode::Int8 | InputMode::WeightFormat if weights.format() == PackedFormat::Int8 => {
                if let Scales::F32 { block, .. } = weights.scales()
                    && block[1] < depth
                {
                    let format = format!("INT8 weights with a scale per {} values", block[1]);
                    return Err(QuantError::Unsupported {
                        operation: "byte inputs",
                        format,
                    });
                }
                let packed = Quantizer::new(Recipe::INT8).quantize(policy, &values, &shape, 1)?;
                bytes(&packed, depth)
            }
            InputMode::Int8 => {
                return Err(QuantError::Unsupported {
                    operation: "byte inputs",
                    format: weights.format().to_string(),
                });
            }
            InputMode::WeightFormat => {
                let recipe = match weights.format() {
                    PackedFormat::Mx(format) => Recipe::Mx {
                        format,
                        scale: crate::block::MxScale::RoundUp,
                    },
                    PackedFormat::Fp8(format) => Recipe::Fp8 {
                        format,
                        granularity: Granularity::Row,
                    },
                    PackedFormat::Nvfp4 | PackedFormat::Int8 => unreachable!("handled above"),
                };
                plain(
                    &Quantizer::new(recipe).round_trip(policy, &values, &shape, 1)?,
                    depth,
                )
            }
        };
        Ok(Self {
            n_inputs,
            depth,
            rotation: weights.rotation(),
            layout,
        })
    }

    /// Rows of the prepared `x`, which are the rows of `out`.
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Refuses weights that these inputs were not prepared for.
    pub(super) fn check_fits(&self, weights: &PackedTensor) -> Result<(), QuantError> {
        QuantError::check_length("depth of the inputs", self.depth, weights.depth())?;
        let block = weights.format().block();
        let kind_fits = match &self.layout {
            Layout::Lanes(_) => is_four_bit(weights.format()),
            // A scale of the inputs may not span two scales of the weights' lanes, nor be finer than one.
            Layout::LaneBytes(bytes) => is_four_bit(weights.format()) && bytes.block == block,
            Layout::Plain { .. } => !is_four_bit(weights.format()),
            Layout::Bytes { .. } => {
                let whole_rows =
                    matches!(weights.scales(), Scales::F32 { block, .. } if block[1] >= self.depth);
                weights.format() == PackedFormat::Int8 && whole_rows
            }
        };
        if kind_fits && self.rotation == weights.rotation() {
            Ok(())
        } else {
            let format = format!("{} weights", weights.format());
            Err(QuantError::Unsupported {
                operation: "inputs prepared for other weights",
                format,
            })
        }
    }
}

fn lanes(values: &[f32], depth: usize) -> Vec<f32> {
    let n_groups = depth.div_ceil(GROUP);
    let mut lanes = vec![0.0; values.len().checked_div(depth).unwrap_or(0) * n_groups * GROUP];
    let inputs = values
        .chunks_exact(depth.max(1))
        .zip(lanes.chunks_exact_mut((n_groups * GROUP).max(1)));
    for (input, lanes) in inputs {
        for (group, lanes) in input.chunks(GROUP).zip(lanes.chunks_exact_mut(GROUP)) {
            for (k, &value) in group.iter().enumerate() {
                lanes[k % 8 * 16 + k / 8] = value;
            }
        }
    }
    lanes
}

fn plain(values: &[f32], depth: usize) -> Layout {
    let padded = depth.next_multiple_of(32);
    let mut out = vec![0.0; values.len().checked_div(depth).unwrap_or(0) * padded];
    for (input, out) in values
        .chunks_exact(depth.max(1))
        .zip(out.chunks_exact_mut(padded.max(1)))
    {
        out[..depth].copy_from_slice(input);
    }
    Layout::Plain {
        values: out,
        padded,
    }
}

fn bytes(packed: &PackedTensor, depth: usize) -> Layout {
    let padded = depth.next_multiple_of(64);
    let mut values = vec![0; packed.n_rows() * padded];
    for (input, out) in packed
        .codes()
        .chunks_exact(depth.max(1))
        .zip(values.chunks_exact_mut(padded.max(1)))
    {
        out[..depth].copy_from_slice(input);
    }
    let factors = match packed.scales() {
        Scales::F32 { values, .. } => values.clone(),
        Scales::Nvfp4 { .. } | Scales::Mx(_) => unreachable!("INT8 has f32 scales"),
    };
    Layout::Bytes {
        values,
        padded,
        factors,
    }
}

/// From INT8, NVFP4 or MXFP4 inputs with a scale per `block` values.
fn lane_bytes(packed: &PackedTensor, block: usize) -> Layout {
    let depth = packed.depth();
    let n_groups = depth.div_ceil(GROUP);
    let blocks_per_row = depth.div_ceil(block);
    let n = packed.n_rows() * n_groups;
    let mut bytes = LaneBytes {
        values: vec![0; n * GROUP],
        corrections: vec![0; n * 16],
        scales: vec![0.0; n * 16],
        factor: 1.0,
        block,
    };
    let doubled = |code: u8| (E2M1_TIMES_2_PLUS_12[usize::from(code)] as i8).wrapping_sub(12);
    for row in 0..packed.n_rows() {
        for (k, &code) in packed.row_codes(row).iter().enumerate() {
            let (group, within) = (row * n_groups + k / GROUP, k % GROUP);
            let value = if packed.format() == PackedFormat::Int8 {
                code as i8
            } else {
                doubled(code)
            };
            bytes.values[group * GROUP + within % 2 * 64 + within / 2] = value as u8;
            let lane = group * 16 + within / 8;
            bytes.corrections[lane] =
                bytes.corrections[lane].wrapping_add_signed(-12 * i32::from(value));
            let scale = row * blocks_per_row + k / block;
            bytes.scales[lane] = match packed.scales() {
                Scales::Nvfp4 { block, .. } => MiniFormat::E4m3.decode(block[scale]),
                Scales::Mx(scales) => crate::scalar::e8m0::decode(scales[scale]),
                Scales::F32 { values, .. } => values[scale],
            };
        }
    }
    bytes.factor = match packed.scales() {
        Scales::Nvfp4 { tensor, .. } => 0.5 * tensor,
        Scales::Mx(_) => 0.5,
        Scales::F32 { .. } => 1.0,
    };
    Layout::LaneBytes(bytes)
}
