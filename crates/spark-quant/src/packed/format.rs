//! What the codes of a packed tensor mean, and its scales.

use crate::error::QuantError;
use crate::scalar::{MiniFormat, e8m0};

/// Values that share an E4M3 scale in NVFP4.
pub(crate) const NVFP4_BLOCK: usize = 16;
/// Values that share an E8M0 scale in MX formats.
pub(crate) const MX_BLOCK: usize = 32;

/// What the bytes of a packed tensor mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PackedFormat {
    /// E2M1 in blocks of 16 with E4M3 scales and one f32 scale.
    Nvfp4,
    /// A small float in blocks of 32 with E8M0 scales.
    Mx(MiniFormat),
    /// Signed bytes with f32 scales.
    Int8,
    /// E4M3 or E5M2 with f32 scales.
    Fp8(MiniFormat),
}

impl PackedFormat {
    /// Values per block; rows of codes are whole blocks.
    pub const fn block(self) -> usize {
        match self {
            Self::Nvfp4 => NVFP4_BLOCK,
            Self::Mx(_) => MX_BLOCK,
            Self::Int8 | Self::Fp8(_) => 1,
        }
    }

    /// Bits of one code.
    pub const fn code_bits(self) -> usize {
        match self {
            Self::Nvfp4 => 4,
            Self::Mx(format) | Self::Fp8(format) => format.spec().bits() as usize,
            Self::Int8 => 8,
        }
    }

    /// Short name: `nvfp4`, `mxfp4`, `mxfp6_e2m3`, `int8`, `fp8_e4m3`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvfp4 => "nvfp4",
            Self::Mx(MiniFormat::E4m3) => "mxfp8_e4m3",
            Self::Mx(MiniFormat::E5m2) => "mxfp8_e5m2",
            Self::Mx(MiniFormat::E2m3) => "mxfp6_e2m3",
            Self::Mx(MiniFormat::E3m2) => "mxfp6_e3m2",
            Self::Mx(MiniFormat::E2m1) => "mxfp4",
            Self::Int8 => "int8",
            Self::Fp8(MiniFormat::E5m2) => "fp8_e5m2",
            Self::Fp8(_) => "fp8_e4m3",
        }
    }
}

impl std::fmt::Display for PackedFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The scales of a packed tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Scales {
    /// One E4M3 code per block of 16 and a factor for all of them.
    Nvfp4 {
        /// E4M3 codes, `[rows, blocks per row]`.
        block: Vec<u8>,
        /// The tensor scale, a multiplier.
        tensor: f32,
    },
    /// One E8M0 code per block of 32, `[rows, blocks per row]`.
    Mx(Vec<u8>),
    /// One f32 per rectangle of values, a multiplier.
    F32 {
        /// `[bands of rows, rectangles per band]`.
        values: Vec<f32>,
        /// Rows and values along the axis that share a factor; the last ones may be cut short.
        block: [usize; 2],
    },
}

impl Scales {
    /// Bytes of all scales, the tensor scale of NVFP4 included.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Nvfp4 { block, .. } => block.len() + 4,
            Self::Mx(scales) => scales.len(),
            Self::F32 { values, .. } => 4 * values.len(),
        }
    }

    /// Makes the scale of value `k` of row `row` NaN.
    pub(crate) fn poison(&mut self, row: usize, k: usize, depth: usize) {
        let i = row * depth + k;
        match self {
            Self::Nvfp4 { block, .. } => block[i / NVFP4_BLOCK] = 0x7F,
            Self::Mx(scales) => scales[i / MX_BLOCK] = e8m0::NAN,
            Self::F32 { values, block } => {
                values[row / block[0] * depth.div_ceil(block[1]) + k / block[1]] = f32::NAN;
            }
        }
    }

    /// The first scale that a dot product cannot use.
    pub(super) fn find_unusable(&self) -> Option<QuantError> {
        let scale = |index, value, want| Some(QuantError::Scale { index, value, want });
        match self {
            Self::Nvfp4 { block, tensor } => {
                if !(tensor.is_finite() && *tensor > 0.0) {
                    return scale(0, *tensor, "finite tensor scale above zero");
                }
                // The sign bit and the NaN code; a zero scale makes its block zero and is allowed.
                let bad = first_of(block, |code| code >= 0x7F)?;
                scale(
                    bad,
                    MiniFormat::E4m3.decode(block[bad]),
                    "finite E4M3 scale without a sign",
                )
            }
            Self::Mx(scales) => {
                let bad = first_of(scales, |code| code == e8m0::NAN)?;
                scale(bad, f32::NAN, "power of two")
            }
            Self::F32 { values, .. } => {
                let bad = values.iter().position(|x| !(x.is_finite() && *x > 0.0))?;
                scale(bad, values[bad], "finite scale above zero")
            }
        }
    }
}

/// The first code like that. Whole chunks are looked at together, which compilers do in vectors;
/// a search that may end at any code goes one by one.
fn first_of(codes: &[u8], is_bad: impl Fn(u8) -> bool) -> Option<usize> {
    const CHUNK: usize = 4096;
    let has_bad = |chunk: &[u8]| chunk.iter().fold(false, |bad, code| bad | is_bad(*code));
    let chunk = codes.chunks(CHUNK).position(has_bad)?;
    let inside = codes[chunk * CHUNK..].iter().position(|code| is_bad(*code));
    inside.map(|inside| chunk * CHUNK + inside)
}
