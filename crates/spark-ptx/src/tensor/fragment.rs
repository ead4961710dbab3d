//! Where the elements of a tile stand in the registers of a warp.
//!
//! ```text
//! lane l: g = l / 4, t = l % 4;   a register holds P = 32 / bits elements, the first lowest
//! A  register r, element j   row g + 8 (r & 1)        k = P t + j + 4 P (r >> 1)
//! B  register r, element j   k = P t + j + 4 P r      column g
//! C  element c_i, i < 4      row g + 8 (i >> 1)       column 2 t + (i & 1)
//!    f32, s32: one register each; f16: two registers of two
//! ```
//!
//! These two rules are all the figures of `m16n8k4` to `m16n8k64`: f16, bf16, tf32, bytes and
//! nibbles.
//!
//! Source: PTX ISA 9.1, 9.7.14.5.1 to 9.7.14.5.13.

use crate::lanes::Lanes;

pub(super) const N_ROWS: usize = 16;
pub(super) const N_COLUMNS: usize = 8;
/// Largest depth of an `mma`.
pub(super) const MAX_DEPTH: usize = 64;

/// Calls `each(row, k, code)` for every element of A.
#[inline(always)]
pub(super) fn for_each_a(registers: &[Lanes], bits: u32, mut each: impl FnMut(usize, usize, u32)) {
    let per_register = (32 / bits) as usize;
    let mask = u32::MAX >> (32 - bits);
    for (register, lanes) in registers.iter().enumerate() {
        for (lane, word) in lanes.iter().enumerate() {
            let (g, t) = (lane / 4, lane % 4);
            let row = g + 8 * (register & 1);
            let first_k = per_register * t + 4 * per_register * (register >> 1);
            for j in 0..per_register {
                each(row, first_k + j, word >> (bits * j as u32) & mask);
            }
        }
    }
}

/// Calls `each(k, column, code)` for every element of B.
#[inline(always)]
pub(super) fn for_each_b(registers: &[Lanes], bits: u32, mut each: impl FnMut(usize, usize, u32)) {
    let per_register = (32 / bits) as usize;
    let mask = u32::MAX >> (32 - bits);
    for (register, lanes) in registers.iter().enumerate() {
        for (lane, word) in lanes.iter().enumerate() {
            let (g, t) = (lane / 4, lane % 4);
            let first_k = per_register * t + 4 * per_register * register;
            for j in 0..per_register {
                each(first_k + j, g, word >> (bits * j as u32) & mask);
            }
        }
    }
}

/// Codes of C or D: 32 bits each, or 16 in the lower half.
pub(super) type Accumulators = [[u32; N_COLUMNS]; N_ROWS];

/// Reads C from its registers.
pub(super) fn read_c(registers: &[Lanes], bits: u32) -> Accumulators {
    let mut tile = [[0; N_COLUMNS]; N_ROWS];
    let per_register = (32 / bits) as usize;
    let mask = u32::MAX >> (32 - bits);
    for (register, lanes) in registers.iter().enumerate() {
        for (lane, word) in lanes.iter().enumerate() {
            for part in 0..per_register {
                let (row, column) = c_place(lane, per_register * register + part);
                tile[row][column] = word >> (bits * part as u32) & mask;
            }
        }
    }
    tile
}

/// Writes D to its registers.
pub(super) fn write_d(tile: &Accumulators, bits: u32, registers: &mut [Lanes]) {
    let per_register = (32 / bits) as usize;
    for (register, lanes) in registers.iter_mut().enumerate() {
        for (lane, word) in lanes.iter_mut().enumerate() {
            *word = 0;
            for part in 0..per_register {
                let (row, column) = c_place(lane, per_register * register + part);
                *word |= tile[row][column] << (bits * part as u32);
            }
        }
    }
}

const fn c_place(lane: usize, i: usize) -> (usize, usize) {
    (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2)
}
