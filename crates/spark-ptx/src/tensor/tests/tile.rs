//! The manual's fragment figures typed out once more, shape by shape, and tiles packed by them.
//!
//! ```text
//! groupID = %laneid >> 2, threadID_in_group = %laneid % 4, a_i and b_i as the manual numbers them
//! ```
//!
//! Source: PTX ISA 9.1, 9.7.14.5.1 to 9.7.14.5.13. Shares no code with `fragment`.

use crate::lanes::Lanes;
use crate::oracle::Random;

/// Row and column of `a_i`.
pub(super) fn a_place(depth: usize, bits: u32, lane: usize, i: usize) -> (usize, usize) {
    let group = lane >> 2;
    let thread = lane % 4;
    let row_if = |first: bool| if first { group } else { group + 8 };
    match (depth, bits) {
        (4, 32) => (row_if(i == 0), thread),
        (8, 32) => (
            row_if(i == 0 || i == 2),
            if i < 2 { thread } else { thread + 4 },
        ),
        (8, 16) => (row_if(i < 2), thread * 2 + (i & 1)),
        (16, 16) => (
            row_if(i < 2 || (4..6).contains(&i)),
            thread * 2 + (i & 1) + if i >= 4 { 8 } else { 0 },
        ),
        (16, 8) => (row_if(i < 4), thread * 4 + (i & 3)),
        (32, 8) => (
            row_if(i < 4 || (8..12).contains(&i)),
            thread * 4 + (i & 3) + if i >= 8 { 16 } else { 0 },
        ),
        (32, 4) => (row_if(i < 8), thread * 8 + (i & 7)),
        (64, 4) => (
            row_if(i < 8 || (16..24).contains(&i)),
            thread * 8 + (i & 7) + if i >= 16 { 32 } else { 0 },
        ),
        _ => panic!("no figure for k = {depth} and {bits} bits"),
    }
}

/// Row and column of `b_i`.
pub(super) fn b_place(depth: usize, bits: u32, lane: usize, i: usize) -> (usize, usize) {
    let group = lane >> 2;
    let thread = lane % 4;
    let row = match (depth, bits) {
        (4, 32) => thread,
        (8, 32) => {
            if i == 0 {
                thread
            } else {
                thread + 4
            }
        }
        (8, 16) => thread * 2 + i,
        (16, 16) => thread * 2 + (i & 1) + if i >= 2 { 8 } else { 0 },
        (16, 8) => thread * 4 + i,
        (32, 8) => thread * 4 + (i & 3) + if i >= 4 { 16 } else { 0 },
        (32, 4) => thread * 8 + i,
        (64, 4) => thread * 8 + (i & 7) + if i >= 8 { 32 } else { 0 },
        _ => panic!("no figure for k = {depth} and {bits} bits"),
    };
    (row, group)
}

/// Row and column of `c_i`, the same for every shape.
pub(super) fn c_place(lane: usize, i: usize) -> (usize, usize) {
    let row = if i < 2 { lane >> 2 } else { (lane >> 2) + 8 };
    (row, lane % 4 * 2 + (i & 1))
}

/// Registers of a tile whose element at `place(lane, i)` has the code `code(row, column)`.
pub(super) fn pack(
    n_registers: usize,
    bits: u32,
    place: impl Fn(usize, usize) -> (usize, usize),
    code: impl Fn(usize, usize) -> u32,
) -> Vec<Lanes> {
    let per_register = (32 / bits) as usize;
    let mut registers = vec![[0; 32]; n_registers];
    for (register, lanes) in registers.iter_mut().enumerate() {
        for (lane, word) in lanes.iter_mut().enumerate() {
            for j in 0..per_register {
                let (row, column) = place(lane, register * per_register + j);
                *word |= code(row, column) << (bits * j as u32);
            }
        }
    }
    registers
}

pub(super) fn pack_a(depth: usize, bits: u32, code: impl Fn(usize, usize) -> u32) -> Vec<Lanes> {
    let n_registers = 16 * depth * bits as usize / 1024;
    pack(
        n_registers,
        bits,
        |lane, i| a_place(depth, bits, lane, i),
        code,
    )
}

pub(super) fn pack_b(depth: usize, bits: u32, code: impl Fn(usize, usize) -> u32) -> Vec<Lanes> {
    let n_registers = 8 * depth * bits as usize / 1024;
    pack(
        n_registers,
        bits,
        |lane, i| b_place(depth, bits, lane, i),
        code,
    )
}

pub(super) fn pack_c(bits: u32, code: impl Fn(usize, usize) -> u32) -> Vec<Lanes> {
    pack(4 * bits as usize / 32, bits, c_place, code)
}

/// The tile in registers of D.
pub(super) fn unpack_d(registers: &[Lanes], bits: u32) -> [[u32; 8]; 16] {
    let per_register = (32 / bits) as usize;
    let mut tile = [[0; 8]; 16];
    for (register, lanes) in registers.iter().enumerate() {
        for (lane, word) in lanes.iter().enumerate() {
            for part in 0..per_register {
                let (row, column) = c_place(lane, register * per_register + part);
                tile[row][column] = word >> (bits * part as u32) & (u32::MAX >> (32 - bits));
            }
        }
    }
    tile
}

/// A type of A or B as tests see it: bits in a register, and codes of small whole numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TestElement {
    pub(super) name: &'static str,
    pub(super) bits: u32,
    /// Exponent and mantissa bits of floats.
    pub(super) float: Option<(u32, u32)>,
    /// How far the code is above the lowest bit of its container.
    pub(super) shift: u32,
}

const fn float(name: &'static str, bits: u32, fields: (u32, u32), shift: u32) -> TestElement {
    TestElement {
        name,
        bits,
        float: Some(fields),
        shift,
    }
}

const fn integer(name: &'static str, bits: u32) -> TestElement {
    TestElement {
        name,
        bits,
        float: None,
        shift: 0,
    }
}

pub(super) const F16: TestElement = float("f16", 16, (5, 10), 0);
pub(super) const BF16: TestElement = float("bf16", 16, (8, 7), 0);
pub(super) const TF32: TestElement = float("tf32", 32, (8, 10), 13);
pub(super) const E4M3: TestElement = float("e4m3", 8, (4, 3), 0);
pub(super) const E5M2: TestElement = float("e5m2", 8, (5, 2), 0);
pub(super) const E3M2: TestElement = float("e3m2", 8, (3, 2), 0);
pub(super) const E2M3: TestElement = float("e2m3", 8, (2, 3), 0);
pub(super) const E2M1: TestElement = float("e2m1", 8, (2, 1), 2);
pub(super) const E2M1_PACKED: TestElement = float("e2m1", 4, (2, 1), 0);
pub(super) const S8: TestElement = integer("s8", 8);
pub(super) const U8: TestElement = integer("u8", 8);
pub(super) const S4: TestElement = integer("s4", 4);
pub(super) const U4: TestElement = integer("u4", 4);

impl TestElement {
    /// Container bits of a whole number from -4 to 4 (floats), or of the type's range.
    pub(super) fn code(self, value: i32) -> u32 {
        match self.float {
            None => value as u32 & (u32::MAX >> (32 - self.bits)),
            Some(_) if value == 0 => 0,
            Some((exponent_bits, mantissa_bits)) => {
                let bits = (value as f32).to_bits();
                let field = (bits >> 23 & 0xFF) + (1 << (exponent_bits - 1)) - 128;
                let mantissa = (bits & 0x7F_FFFF) >> (23 - mantissa_bits);
                let sign = (bits >> 31) << (exponent_bits + mantissa_bits);
                (sign | field << mantissa_bits | mantissa) << self.shift
            }
        }
    }

    /// Smallest and largest whole number that tests use.
    pub(super) fn range(self) -> (i32, i32) {
        match self.name {
            "s8" => (-128, 127),
            "u8" => (0, 255),
            "s4" => (-8, 7),
            "u4" => (0, 15),
            _ => (-4, 4),
        }
    }

    pub(super) fn draw(self, random: &mut Random) -> i32 {
        let (low, high) = self.range();
        low + random.below((high - low + 1) as u64) as i32
    }
}
