//! Blocks of a row in plain code.

use super::packing::{PackedTaps, Row};

/// Bytes of a block.
const BLOCK: usize = 16;

/// # Safety
///
/// As [`super::run::run`].
pub(super) unsafe fn run(row: &Row<'_>) {
    let numbers = row.numbers;
    let PackedTaps::Words(weights) = &numbers.weights else {
        unreachable!("weights are packed for the kernel that reads them")
    };
    for block in row.first..row.last {
        let part = block % numbers.period;
        let mut sums = [0i32; BLOCK];
        sums.copy_from_slice(&numbers.initial[part * BLOCK..][..BLOCK]);
        let weights = &weights[part * numbers.steps * BLOCK..];
        for (tap, weights) in row.taps.iter().zip(weights.chunks_exact(BLOCK)) {
            // SAFETY: guaranteed by the caller.
            let x = unsafe {
                tap.add(block * BLOCK)
                    .cast::<[u8; BLOCK]>()
                    .read_unaligned()
            };
            for ((sum, x), &w) in sums.iter_mut().zip(x).zip(weights) {
                *sum = sum.wrapping_add(i32::from(x) * i32::from(w));
            }
        }
        let mut bytes = [0; BLOCK];
        let multipliers = &numbers.multipliers[part * BLOCK..][..BLOCK];
        for ((byte, sum), &multiplier) in bytes.iter_mut().zip(sums).zip(multipliers) {
            let value = sum as f32 * multiplier;
            // What is no number becomes the least.
            let value = if value > numbers.low {
                value
            } else {
                numbers.low
            };
            let value = if value < numbers.high {
                value
            } else {
                numbers.high
            };
            let whole = value.round_ties_even() as i16 + numbers.zero;
            *byte = whole as u8 ^ numbers.flip;
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            let to = row.y.add((block - row.first) * BLOCK);
            to.cast::<[u8; BLOCK]>().write_unaligned(bytes);
        }
    }
}
