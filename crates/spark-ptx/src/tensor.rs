//! Matrices of a warp: m16n8k16 of bf16 and f16 with f32 sums, ldmatrix and stmatrix of m8n8.

use crate::form::{FormError, Lanes};

/// Which card's arithmetic is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// As in 121 for `sm_121a`.
    pub sm: u32,
}

/// Registers of the operands of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MmaRegisters {
    /// Registers of A.
    pub a: usize,
    /// Registers of B.
    pub b: usize,
    /// Registers of C.
    pub c: usize,
    /// Registers of D.
    pub d: usize,
    /// Whether scales follow.
    pub is_block_scaled: bool,
}

/// Scales of a block-scaled form, and which bytes of which lanes hold them.
#[derive(Debug, Clone)]
pub struct BlockScales {
    /// Scales of A.
    pub a: Lanes,
    /// First byte.
    pub a_byte: u16,
    /// Which lanes of a group of four.
    pub a_thread: u16,
    /// Scales of B.
    pub b: Lanes,
    /// First byte.
    pub b_byte: u16,
    /// Which lane of a group of four.
    pub b_thread: u16,
}

/// Why a matrix instruction has no result.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("{what}")]
pub struct TensorError {
    /// What is wrong with its operands.
    pub what: String,
}

/// One form of `mma`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmaForm {
    is_bf16: bool,
}

impl MmaForm {
    /// Reads a form from the modifiers of `mma`.
    ///
    /// # Errors
    ///
    /// [`FormError`] if the form is not known.
    pub fn parse(modifiers: &[&str]) -> Result<MmaForm, FormError> {
        let known = |kind| {
            [
                "sync", "aligned", "m16n8k16", "row", "col", "f32", kind, kind, "f32",
            ] == *modifiers
        };
        match (known("bf16"), known("f16")) {
            (true, _) => Ok(MmaForm { is_bf16: true }),
            (_, true) => Ok(MmaForm { is_bf16: false }),
            _ => Err(FormError::new(modifiers)),
        }
    }

    /// Registers of the operands.
    #[must_use]
    pub fn registers(&self) -> MmaRegisters {
        MmaRegisters {
            a: 4,
            b: 2,
            c: 4,
            d: 4,
            is_block_scaled: false,
        }
    }

    /// D = A * B + C.
    ///
    /// # Errors
    ///
    /// None of these forms has operands that are wrong.
    pub fn execute(
        &self,
        a: &[Lanes],
        b: &[Lanes],
        c: &[Lanes],
        _scales: Option<&BlockScales>,
        _target: Target,
        d: &mut [Lanes],
    ) -> Result<(), TensorError> {
        let value = |word: u32, half: usize| self.value((word >> (16 * half)) as u16);
        let mut rows = [[0f32; 16]; 16];
        let mut columns = [[0f32; 16]; 8];
        for lane in 0..32 {
            let (g, t) = (lane / 4, lane % 4);
            for half in 0..2 {
                for r in 0..4 {
                    rows[g + 8 * (r & 1)][2 * t + half + 8 * (r >> 1)] = value(a[r][lane], half);
                }
                for r in 0..2 {
                    columns[g][2 * t + half + 8 * r] = value(b[r][lane], half);
                }
            }
        }
        for lane in 0..32 {
            for i in 0..4 {
                let row = &rows[lane / 4 + 8 * (i / 2)];
                let column = &columns[2 * (lane % 4) + i % 2];
                let sum: f32 = row.iter().zip(column).map(|(a, b)| a * b).sum();
                d[i][lane] = (f32::from_bits(c[i][lane]) + sum).to_bits();
            }
        }
        Ok(())
    }

    fn value(&self, bits: u16) -> f32 {
        if self.is_bf16 {
            return f32::from_bits(u32::from(bits) << 16);
        }
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
        let sign = if bits >> 15 != 0 { -1.0 } else { 1.0 };
        match exponent {
            0 => sign * fraction * 2f32.powi(-24),
            31 if fraction == 0.0 => sign * f32::INFINITY,
            31 => f32::NAN,
            _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
        }
    }
}

/// One form of `ldmatrix` or `stmatrix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixForm {
    n_matrices: usize,
    transposed: bool,
}

impl MatrixForm {
    /// Reads a form from its opcode and modifiers.
    ///
    /// # Errors
    ///
    /// [`FormError`] if the form is not known.
    pub fn parse(_opcode: &str, modifiers: &[&str]) -> Result<MatrixForm, FormError> {
        let mut form = MatrixForm {
            n_matrices: 0,
            transposed: false,
        };
        for part in modifiers {
            match *part {
                "x1" => form.n_matrices = 1,
                "x2" => form.n_matrices = 2,
                "x4" => form.n_matrices = 4,
                "trans" => form.transposed = true,
                "sync" | "aligned" | "m8n8" | "shared" | "shared::cta" | "b16" => {}
                _ => return Err(FormError::new(modifiers)),
            }
        }
        match form.n_matrices {
            0 => Err(FormError::new(modifiers)),
            _ => Ok(form),
        }
    }

    /// Registers of a lane.
    #[must_use]
    pub fn n_registers(&self) -> usize {
        self.n_matrices
    }

    /// Lanes that give the address of a row.
    #[must_use]
    pub fn n_addresses(&self) -> usize {
        8 * self.n_matrices
    }

    /// Bytes of a row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        16
    }

    /// Registers that the rows of the matrices become.
    #[must_use]
    pub fn load(&self, rows: &[[u8; 16]]) -> Vec<Lanes> {
        let element = |matrix: usize, row: usize, column: usize| {
            let bytes = &rows[8 * matrix + row][2 * column..2 * column + 2];
            u32::from(u16::from_le_bytes([bytes[0], bytes[1]]))
        };
        let register = |matrix: usize| {
            std::array::from_fn(|lane| {
                let (g, t) = (lane / 4, lane % 4);
                match self.transposed {
                    false => element(matrix, g, 2 * t) | element(matrix, g, 2 * t + 1) << 16,
                    true => element(matrix, 2 * t, g) | element(matrix, 2 * t + 1, g) << 16,
                }
            })
        };
        (0..self.n_matrices).map(register).collect()
    }

    /// Rows that registers become.
    #[must_use]
    pub fn store(&self, registers: &[Lanes]) -> Vec<[u8; 16]> {
        let mut rows = vec![[0u8; 16]; self.n_addresses()];
        for (matrix, register) in registers.iter().enumerate() {
            for (lane, word) in register.iter().enumerate() {
                for half in 0..2 {
                    let (row, column) = match self.transposed {
                        false => (lane / 4, 2 * (lane % 4) + half),
                        true => (2 * (lane % 4) + half, lane / 4),
                    };
                    let bytes = ((word >> (16 * half)) as u16).to_le_bytes();
                    rows[8 * matrix + row][2 * column..2 * column + 2].copy_from_slice(&bytes);
                }
            }
        }
        rows
    }
}

/// The transpose of an 8x8 matrix of 16-bit values, in the same fragment.
#[must_use]
pub fn movmatrix(a: &Lanes) -> Lanes {
    let form = MatrixForm {
        n_matrices: 1,
        transposed: false,
    };
    let transposed = MatrixForm {
        n_matrices: 1,
        transposed: true,
    };
    transposed.load(&form.store(&[*a]))[0]
}
