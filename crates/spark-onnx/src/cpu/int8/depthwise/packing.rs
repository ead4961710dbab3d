//! The numbers of a depthwise convolution of bytes, in the order in which blocks of a row need them.
//!
//! ```text
//! a row of the result is one run of bytes: pixel after pixel, `pitch` channels each
//! block  |0       |1       |2       |3 ...          64, 32 or 16 bytes; the channels of block b are those of
//!                                                   block b + period, period = lcm(pitch, block) / block
//! weights        [period][step][slot][tap of step]  a step multiplies 4, 2 or 1 taps
//! initial        [period][slot]                     bias - zero point of x times the sum of the weights
//! multipliers    [period][slot]
//! ```
//!
//! A slot is where the vectors of a kernel hold a channel of a block: interleaving bytes or words moves them about
//! within 128 bits, and narrowing moves them back.

use super::instructions::DepthwiseKernel;
use crate::DType;
use crate::plan::{Int8Step, KnownQuantisation};

/// Packed numbers of one step.
pub(super) struct Numbers {
    /// Blocks with channels of their own.
    pub(super) period: usize,
    /// Steps of a block.
    pub(super) steps: usize,
    pub(super) weights: PackedTaps,
    pub(super) initial: Vec<i32>,
    pub(super) multipliers: Vec<f32>,
    /// Bounds of what is rounded, before `zero` is added.
    pub(super) low: f32,
    pub(super) high: f32,
    /// Added to what is rounded, which then lies within u8.
    pub(super) zero: i16,
    /// Turns such a byte into one of the result's type.
    pub(super) flip: u8,
}

/// What a kernel computes: blocks `first..last` of a row.
pub(super) struct Row<'a> {
    pub(super) numbers: &'a Numbers,
    /// Where every tap begins, padded to whole steps with ones whose weights are zero.
    pub(super) taps: &'a [*const u8],
    pub(super) first: usize,
    pub(super) last: usize,
    /// Where block `first` of the result goes.
    pub(super) y: *mut u8,
}

/// Weights of as many bits as the kernel's instructions take.
pub(super) enum PackedTaps {
    Bytes(Vec<i8>),
    Words(Vec<i16>),
}

impl PackedTaps {
    fn size_bytes(&self) -> usize {
        match self {
            Self::Bytes(weights) => weights.len(),
            Self::Words(weights) => 2 * weights.len(),
        }
    }
}

/// The one value of a list, or that of a channel; nothing is 0.
fn pick(list: &[i32], channel: usize) -> i32 {
    match list {
        [] => 0,
        [one] => *one,
        all => all[channel],
    }
}

/// Weights without their zero points: `[channel][tap]`.
pub(super) fn centred_weights(
    step: &Int8Step,
    known: &KnownQuantisation,
    values: &[f32],
) -> Vec<i16> {
    let taps = step.taps();
    let weights = values.iter().enumerate();
    weights
        .map(|(at, &w)| (w as i32 - pick(&known.w_zero, at / taps)) as i16)
        .collect()
}

/// The smallest number that both divide.
fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

impl Numbers {
    /// Blocks with channels of their own, where a pixel has `pitch`.
    pub(super) fn period(kernel: DepthwiseKernel, pitch: usize) -> usize {
        least_common_multiple(pitch, kernel.block()) / kernel.block()
    }

    /// Packs `weights`, `[channel][tap]`, for `kernel`.
    pub(super) fn new(
        kernel: DepthwiseKernel,
        step: &Int8Step,
        known: &KnownQuantisation,
        weights: &[i16],
        pitch: usize,
    ) -> Self {
        let (channels, taps) = (step.groups(), step.taps());
        let (block, of_step) = (kernel.block(), kernel.taps_of_step());
        let period = Self::period(kernel, pitch);
        let steps = taps.div_ceil(of_step);
        // Every slot of every block, with its channel if there is one.
        let slots = || {
            (0..period).flat_map(move |part| {
                (0..block).map(move |slot| {
                    let channel = (part * block + kernel.channel_of(slot)) % pitch;
                    (part, slot, Some(channel).filter(|&c| c < channels))
                })
            })
        };
        let mut packed = vec![0; period * steps * block * of_step];
        let mut initial = vec![0i32; period * block];
        let mut multipliers = vec![0.0; period * block];
        // Activations are unsigned here.
        let shift = if step.x_type == DType::I8 { 128 } else { 0 };
        let x_zero = known.x_zero + shift;
        for (part, slot, channel) in slots() {
            let Some(channel) = channel else {
                continue;
            };
            let mut sum = 0;
            for tap in 0..taps {
                let weight = weights[channel * taps + tap];
                let at = (part * steps + tap / of_step) * block + slot;
                packed[at * of_step + tap % of_step] = weight;
                sum += i32::from(weight);
            }
            let bias = pick(&known.bias, channel);
            initial[part * block + slot] = bias.wrapping_sub(x_zero.wrapping_mul(sum));
            multipliers[part * block + slot] = match &known.multipliers[..] {
                [one] => *one,
                all => all[channel],
            };
        }
        let weights = match kernel.multiplies_bytes() {
            true => PackedTaps::Bytes(packed.into_iter().map(|w| w as i8).collect()),
            false => PackedTaps::Words(packed),
        };
        let (flip, shift) = match step.y_type {
            DType::I8 => (0x80, 128),
            _ => (0, 0),
        };
        Self {
            period,
            steps,
            weights,
            initial,
            multipliers,
            low: (known.bounds.0 - known.y_zero) as f32,
            high: (known.bounds.1 - known.y_zero) as f32,
            zero: (known.y_zero + shift) as i16,
            flip,
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.weights.size_bytes() + 4 * (self.initial.len() + self.multipliers.len())
    }
}
