//! `ldmatrix`, `stmatrix`, `movmatrix`: 8x8 matrices between rows of memory and lanes.
//!
//! ```text
//! row r of matrix j comes from the address in lane 8 j + r; lane l: g = l / 4, t = l % 4
//!
//! m8n8 .b16           register j: elements (g, 2t) low and (g, 2t + 1) high of matrix j
//! m8n8 .trans.b16     register j: elements (2t, g) low and (2t + 1, g) high
//! m8n16 b4x16_p64     row: 16 nibbles, 8 bytes unused;   register j: elements (g, 4t + 0..4),
//! m8n16 b6x16_p32     row: 16 times 6 bits, 4 bytes unused;          one a byte, zeros above
//! ```
//!
//! Source: PTX ISA 9.1, 9.7.14.5.15 to 9.7.14.5.17, 9.7.16.4 for the packed rows. Deliberately
//! refused: `ldmatrix` of `m16n16` and `stmatrix` of `m16n8`, whose order the text of the manual
//! and the layouts of CUTLASS state differently and no hardware has printed for us.

use crate::form::{FormError, Modifiers};
use crate::lanes::Lanes;
use crate::target::Target;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Layout {
    /// 16-bit elements, as they stand or transposed.
    Halves { transposed: bool },
    /// Elements of so many bits, each into a byte.
    Unpacked { bits: u32 },
}

/// One `ldmatrix` or `stmatrix` with all its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatrixForm {
    layout: Layout,
    n_matrices: usize,
    is_store: bool,
}

/// Bytes of a row, wherever it comes from.
const ROW_BYTES: usize = 16;

impl MatrixForm {
    /// Reads the modifiers behind `ldmatrix`, `stmatrix`: `["sync", "aligned", "m8n8", "x4",
    /// "trans", "shared", "b16"]`.
    ///
    /// # Errors
    ///
    /// [`FormError`] names what is missing, unknown, out of place, or not settled.
    pub fn parse(opcode: &str, modifiers: &[&str]) -> Result<MatrixForm, FormError> {
        let mut left = Modifiers::new(opcode, modifiers);
        let is_store = match opcode {
            "ldmatrix" => false,
            "stmatrix" => true,
            _ => return Err(left.combination("neither `ldmatrix` nor `stmatrix`")),
        };
        for (name, what) in [("sync", "`.sync`"), ("aligned", "`.aligned`")] {
            if !left.take(name) {
                return Err(left.missing(what));
            }
        }
        let Some(shape) = left.take_first(shape_of) else {
            return Err(left.missing("a shape"));
        };
        let Some(n_matrices) = left.take_first(count_of) else {
            return Err(left.missing("the number of matrices"));
        };
        let transposed = left.take("trans");
        let _space = left.take("shared") || left.take("shared::cta");
        if matches!(shape, Shape::M16n16 | Shape::M16n8) {
            return Err(left.not_interpreted(
                "the order of its elements in the registers is not settled: the manual and CUTLASS differ",
            ));
        }
        let layout = if shape == Shape::M8n8 {
            if !left.take("b16") {
                return Err(left.missing("`.b16`"));
            }
            Layout::Halves { transposed }
        } else {
            if is_store || transposed {
                return Err(left.combination("m8n16 is loaded as it stands"));
            }
            if !left.take("b8x16") {
                return Err(left.missing("`.b8x16`"));
            }
            let Some(bits) = left.take_first(packed_bits_of) else {
                return Err(left.missing("`.b4x16_p64` or `.b6x16_p32`"));
            };
            Layout::Unpacked { bits }
        };
        left.finish()?;
        Ok(MatrixForm {
            layout,
            n_matrices,
            is_store,
        })
    }

    /// Whether the target has the instruction.
    ///
    /// # Errors
    ///
    /// [`FormError::Target`] names the targets that have it.
    pub fn check_target(&self, target: Target) -> Result<(), FormError> {
        let (form, has, needs) = match self.layout {
            Layout::Unpacked { .. } => (
                "ldmatrix.m8n16",
                target.has_family_12_features(),
                "sm_120a, sm_120f, sm_121a or sm_121f",
            ),
            Layout::Halves { .. } if self.is_store => {
                ("stmatrix", target.capability() >= 90, "sm_90")
            }
            Layout::Halves { .. } => ("ldmatrix", true, "sm_75"),
        };
        if has {
            return Ok(());
        }
        Err(FormError::Target {
            form: form.to_owned(),
            needs,
            target,
        })
    }

    /// Whether it stores.
    pub fn is_store(&self) -> bool {
        self.is_store
    }

    /// Lanes, from lane 0 on, whose addresses count.
    pub fn n_addresses(&self) -> usize {
        8 * self.n_matrices
    }

    /// Bytes at each address, and what the address is a multiple of.
    pub fn row_bytes(&self) -> usize {
        ROW_BYTES
    }

    /// Registers that are loaded or stored.
    pub fn n_registers(&self) -> usize {
        self.n_matrices
    }

    /// The registers of a load, from the bytes at the first [`MatrixForm::n_addresses`] addresses.
    ///
    /// # Panics
    ///
    /// If there are fewer rows.
    pub fn load(&self, rows: &[[u8; ROW_BYTES]]) -> Vec<Lanes> {
        let register = |matrix: usize| -> Lanes {
            let rows = &rows[8 * matrix..8 * (matrix + 1)];
            std::array::from_fn(|lane| self.word(rows, lane / 4, lane % 4))
        };
        (0..self.n_matrices).map(register).collect()
    }

    fn word(&self, rows: &[[u8; ROW_BYTES]], g: usize, t: usize) -> u32 {
        let half = |row: usize, column: usize| {
            let bytes = [rows[row][2 * column], rows[row][2 * column + 1]];
            u32::from(u16::from_le_bytes(bytes))
        };
        match self.layout {
            Layout::Halves { transposed: false } => half(g, 2 * t) | half(g, 2 * t + 1) << 16,
            Layout::Halves { transposed: true } => half(2 * t, g) | half(2 * t + 1, g) << 16,
            Layout::Unpacked { bits } => {
                let row = u128::from_le_bytes(rows[g]);
                let mut word = 0;
                for byte in 0..4 {
                    let column = (4 * t + byte) as u32;
                    let element = (row >> (bits * column)) as u32 & ((1 << bits) - 1);
                    word |= element << (8 * byte);
                }
                word
            }
        }
    }

    /// The rows of a store, for the first [`MatrixForm::n_addresses`] addresses.
    ///
    /// # Panics
    ///
    /// If there are fewer registers than [`MatrixForm::n_registers`] says.
    pub fn store(&self, registers: &[Lanes]) -> Vec<[u8; ROW_BYTES]> {
        let transposed = self.layout == Layout::Halves { transposed: true };
        let mut rows = vec![[0; ROW_BYTES]; self.n_addresses()];
        for (matrix, register) in registers[..self.n_matrices].iter().enumerate() {
            for (lane, word) in register.iter().enumerate() {
                let (g, t) = (lane / 4, lane % 4);
                for (idx, part) in [*word as u16, (*word >> 16) as u16].into_iter().enumerate() {
                    let (row, column) = if transposed {
                        (2 * t + idx, g)
                    } else {
                        (g, 2 * t + idx)
                    };
                    let bytes = &mut rows[8 * matrix + row][2 * column..2 * column + 2];
                    bytes.copy_from_slice(&part.to_le_bytes());
                }
            }
        }
        rows
    }
}

/// `movmatrix.sync.aligned.m8n8.trans.b16`: the transpose of one 8x8 matrix, lane by lane.
pub fn movmatrix(a: &Lanes) -> Lanes {
    let element =
        |row: usize, column: usize| a[4 * row + column / 2] >> (16 * (column % 2)) & 0xFFFF;
    std::array::from_fn(|lane| {
        let (g, t) = (lane / 4, lane % 4);
        element(2 * t, g) | element(2 * t + 1, g) << 16
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    M8n8,
    M8n16,
    M16n16,
    M16n8,
}

fn shape_of(name: &str) -> Option<Shape> {
    Some(match name {
        "m8n8" => Shape::M8n8,
        "m8n16" => Shape::M8n16,
        "m16n16" => Shape::M16n16,
        "m16n8" => Shape::M16n8,
        _ => return None,
    })
}

fn count_of(name: &str) -> Option<usize> {
    Some(match name {
        "x1" => 1,
        "x2" => 2,
        "x4" => 4,
        _ => return None,
    })
}

fn packed_bits_of(name: &str) -> Option<u32> {
    Some(match name {
        "b4x16_p64" => 4,
        "b6x16_p32" => 6,
        _ => return None,
    })
}
