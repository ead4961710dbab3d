//! Scales of block-scaled `mma`: which byte of which lane scales which elements.
//!
//! ```text
//! D = sum over k of (A[m,k] SFA[m, k / V]) (B[k,n] SFB[k / V, n]) + C
//!
//! row m of A       lane 4 (m & 7) + 2 thread_a + (m >> 3)      thread_a in {0, 1}
//! column n of B    lane 4 n + thread_b                         thread_b in {0, 1, 2, 3}
//!
//! scale_vec::1X    V = 32 of k = 32    byte `byte` of {0, 1, 2, 3}
//! scale_vec::2X    V = 32 of k = 64    bytes `byte`, `byte + 1` of {0, 2}
//! scale_vec::4X    V = 16 of k = 64    bytes 0 to 3, `byte` is 0
//!
//! ue8m0 = 2^(code - 127), FF is NaN      ue4m3 = e4m3 without its sign bit
//! ```
//!
//! Source: PTX ISA 9.1, 9.7.14.3 with table 37. Measured by others on sm_120, with both selectors
//! 0: lanes, byte order of 4X, `ue4m3`. Nobody published a measurement of the byte order of 2X or
//! of other thread selectors, for which one program disagrees with the manual (`2 * thread_b`);
//! kernels keep to 0.

use super::element::{Number, ZERO_EXPONENT, number};
use super::error::TensorError;
use super::fragment::{N_COLUMNS, N_ROWS};
use crate::float::format::E4M3;
use crate::lanes::Lanes;

/// Registers and selectors of the scales of A and B.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockScales {
    /// `scale-a-data`.
    pub a: Lanes,
    /// `byte-id-a`.
    pub a_byte: u16,
    /// `thread-id-a`.
    pub a_thread: u16,
    /// `scale-b-data`.
    pub b: Lanes,
    /// `byte-id-b`.
    pub b_byte: u16,
    /// `thread-id-b`.
    pub b_thread: u16,
}

/// Type of a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ScaleType {
    Ue8m0,
    Ue4m3,
}

/// Scales of one row or column: 1, 2 or 4 of them.
pub(super) type Scales = [Scale; 4];

/// A scale as significand and exponent; the significand counts eighths.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scale {
    pub(super) eighths: i64,
    pub(super) exponent: i32,
    pub(super) is_nan: bool,
}

impl ScaleType {
    fn decode(self, code: u32) -> Scale {
        match self {
            ScaleType::Ue8m0 => Scale {
                eighths: 8,
                exponent: code as i32 - 127,
                is_nan: code == 0xFF,
            },
            ScaleType::Ue4m3 => {
                let magnitude = code & 0x7F;
                let Number { value, exponent } = number(E4M3, magnitude);
                let is_nan = value.is_nan();
                let mantissa = i64::from(magnitude & 7);
                let is_normal = i64::from(magnitude > 7);
                debug_assert!(magnitude != 0 || exponent == ZERO_EXPONENT);
                Scale {
                    eighths: mantissa + 8 * is_normal,
                    exponent: i32::from(exponent),
                    is_nan,
                }
            }
        }
    }
}

/// The scales of every row of A and every column of B.
pub(super) fn read(
    scales: &BlockScales,
    scale_type: ScaleType,
    n_per_row: usize,
) -> Result<([Scales; N_ROWS], [Scales; N_COLUMNS]), TensorError> {
    let check = |selector, value: u16, fits: bool| {
        if fits {
            Ok(())
        } else {
            Err(TensorError::Selector { selector, value })
        }
    };
    let byte_fits = |byte: u16| match n_per_row {
        1 => byte < 4,
        2 => byte == 0 || byte == 2,
        _ => byte == 0,
    };
    check("byte-id-a", scales.a_byte, byte_fits(scales.a_byte))?;
    check("byte-id-b", scales.b_byte, byte_fits(scales.b_byte))?;
    check("thread-id-a", scales.a_thread, scales.a_thread < 2)?;
    check("thread-id-b", scales.b_thread, scales.b_thread < 4)?;
    let decode = |word: u32, first_byte: u16| {
        let mut decoded = Scales::default();
        for (idx, scale) in decoded.iter_mut().enumerate().take(n_per_row) {
            let byte = u32::from(first_byte) + idx as u32;
            *scale = scale_type.decode(word >> (8 * byte) & 0xFF);
        }
        decoded
    };
    let of_row = |row: usize| {
        let lane = 4 * (row & 7) + 2 * usize::from(scales.a_thread) + (row >> 3);
        decode(scales.a[lane], scales.a_byte)
    };
    let of_column = |column: usize| {
        let lane = 4 * column + usize::from(scales.b_thread);
        decode(scales.b[lane], scales.b_byte)
    };
    Ok((std::array::from_fn(of_row), std::array::from_fn(of_column)))
}
