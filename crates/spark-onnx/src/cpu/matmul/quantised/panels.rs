//! Weights of eight and four bits in the order a GEMM reads them, converted to f32 panel by panel.
//!
//! ```text
//! a panel of L columns, tap after tap
//!   E4M3    [depth][L] codes                          one scale per column of the matrix
//!   NVFP4   [blocks of 16][L scales, 8 x L pairs]     value 2i in the low bits, 2i + 1 in the high
//!
//! converted [taps][depth][L] f32 = code * scale, for the micro-kernel of `spark-gemm`
//! ```
//!
//! A code becomes a half of IEEE 754 by shifting its bits, as its exponent fits, and a half
//! becomes f32 in one instruction; powers of two then make up for the exponents' biases, exactly.
//! So a value is the one that `spark-quant` decodes, to the last bit.
//!
//! Deliberately absent: which scales and codes (`spark_quant`).

use spark_gemm::{Panel, max_panel_of, panels};
use spark_quant::packed::Scales;
use spark_quant::{PackedTensor, QuantError};

use crate::cpu::simd::{Isa, Simd, dispatch};
use crate::cpu::weight_store::PackedBytes;

/// Values that share a scale in NVFP4.
pub(super) const BLOCK: usize = 16;
/// A half of the bits of an E4M3 code is that much smaller.
const E4M3_BIAS: f32 = 256.0;
/// The same of an E2M1 code.
const E2M1_BIAS: f32 = 16384.0;
/// Most lanes of a vector.
const MOST_LANES: usize = 16;

/// Codes and scales of a matrix.
pub(super) struct CodedPanels {
    taps: usize,
    /// Values per tap and column.
    depth: usize,
    /// Columns.
    n: usize,
    codes: Vec<u8>,
    scales: ColumnScales,
}

/// What is not in the panels themselves.
enum ColumnScales {
    /// Of E4M3: by column, zeros up to whole vectors.
    Columns(Vec<f32>),
    /// Of NVFP4: the tensor's.
    Tensor(f32),
}

impl PackedBytes for CodedPanels {
    fn packed_bytes(&self) -> usize {
        self.size_bytes()
    }
}

impl CodedPanels {
    /// Values per tap that a row of a packed tensor must have for `depth` of them: NVFP4 keeps a
    /// block inside one tap.
    pub(super) fn padded(bits: u32, depth: usize) -> usize {
        match bits {
            4 => depth.next_multiple_of(BLOCK),
            _ => depth,
        }
    }

    /// The codes of `packed`, `[n][taps * padded]`, in the order of panels for `isa`.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] unless it is NVFP4 or FP8 with a scale per row.
    pub(super) fn new(
        isa: Isa,
        packed: &PackedTensor,
        [taps, depth]: [usize; 2],
    ) -> Result<Self, QuantError> {
        let n = packed.n_rows();
        let columns = n.next_multiple_of(isa.lanes());
        let unsupported = || QuantError::Unsupported {
            operation: "a product",
            format: packed.format().to_string(),
        };
        let mut coded = match packed.scales() {
            Scales::F32 { values, .. } if values.len() == n => Self {
                taps,
                depth,
                n,
                codes: vec![0; taps * depth * columns],
                scales: ColumnScales::Columns(
                    values
                        .iter()
                        .copied()
                        .chain(std::iter::repeat_n(0.0, columns - n))
                        .collect(),
                ),
            },
            Scales::Nvfp4 { tensor, .. } => Self {
                taps,
                depth,
                n,
                codes: vec![0; taps * depth.div_ceil(BLOCK) * (BLOCK / 2 + 1) * columns],
                scales: ColumnScales::Tensor(*tensor),
            },
            _ => return Err(unsupported()),
        };
        let mut rest = coded.codes.as_mut_slice();
        for panel in panels(isa, n) {
            let width = panel.vectors * isa.lanes();
            let len = rest.len() * width / (columns - panel.column).max(1);
            let (part, after) = rest.split_at_mut(len);
            for row in panel.column..n.min(panel.column + width) {
                let column = row - panel.column;
                let codes = packed.row_codes(row);
                match packed.scales() {
                    Scales::Nvfp4 { block, .. } => {
                        let blocks = taps * depth.div_ceil(BLOCK);
                        let scales = &block[row * blocks..][..blocks];
                        let to = part.chunks_exact_mut((BLOCK / 2 + 1) * width);
                        for ((to, codes), &scale) in to.zip(codes.chunks_exact(BLOCK)).zip(scales) {
                            to[column] = scale;
                            for (pair, codes) in codes.chunks_exact(2).enumerate() {
                                to[(pair + 1) * width + column] = codes[0] | codes[1] << 4;
                            }
                        }
                    }
                    _ => {
                        for (to, &code) in part.chunks_exact_mut(width).zip(codes.iter()) {
                            to[column] = code;
                        }
                    }
                }
            }
            rest = after;
        }
        Ok(coded)
    }

    /// Bytes of codes and scales.
    pub(super) fn size_bytes(&self) -> usize {
        self.codes.len()
            + match &self.scales {
                ColumnScales::Columns(scales) => size_of_val(scales.as_slice()),
                ColumnScales::Tensor(tensor) => size_of_val(tensor),
            }
    }

    /// Whether codes have four bits.
    pub(super) fn is_nvfp4(&self) -> bool {
        matches!(self.scales, ColumnScales::Tensor(_))
    }

    /// Rows of the matrix: taps times values per tap.
    pub(super) fn k(&self) -> usize {
        self.taps * self.depth
    }

    /// Columns of the matrix: output channels.
    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// Values of the widest panel: as many as [`CodedPanels::convert`] writes at most.
    pub(super) fn max_panel_len(&self, isa: Isa) -> usize {
        let vectors = panels(isa, self.n).map(|panel| panel.vectors).max();
        self.k() * vectors.unwrap_or(0) * isa.lanes()
    }

    /// Decodes `panel` into the first `k * vectors * lanes` elements of `to`.
    ///
    /// # Panics
    ///
    /// If `to` is shorter.
    pub(super) fn convert(&self, isa: Isa, panel: Panel, to: &mut [f32]) {
        let width = panel.vectors * isa.lanes();
        let to = &mut to[..self.k() * width];
        let columns = self.n.next_multiple_of(isa.lanes());
        let start = self.codes.len() / columns.max(1) * panel.column;
        let codes = &self.codes[start..];
        let shape = [self.taps, self.depth];
        // SAFETY: `isa` names a set this processor has; the kernels index slices.
        unsafe {
            match &self.scales {
                ColumnScales::Columns(scales) => {
                    let scales = &scales[panel.column..][..width];
                    match panel.vectors {
                        1 => {
                            dispatch!(isa, e4m3::<1>(codes: &[u8], scales: &[f32], to: &mut [f32]) => (codes, scales, to))
                        }
                        2 => {
                            dispatch!(isa, e4m3::<2>(codes: &[u8], scales: &[f32], to: &mut [f32]) => (codes, scales, to))
                        }
                        3 => {
                            dispatch!(isa, e4m3::<3>(codes: &[u8], scales: &[f32], to: &mut [f32]) => (codes, scales, to))
                        }
                        _ => {
                            dispatch!(isa, e4m3::<4>(codes: &[u8], scales: &[f32], to: &mut [f32]) => (codes, scales, to))
                        }
                    }
                }
                &ColumnScales::Tensor(tensor) => match panel.vectors {
                    1 => {
                        dispatch!(isa, nvfp4::<1>(codes: &[u8], tensor: f32, shape: [usize; 2], to: &mut [f32]) => (codes, tensor, shape, to))
                    }
                    2 => {
                        dispatch!(isa, nvfp4::<2>(codes: &[u8], tensor: f32, shape: [usize; 2], to: &mut [f32]) => (codes, tensor, shape, to))
                    }
                    3 => {
                        dispatch!(isa, nvfp4::<3>(codes: &[u8], tensor: f32, shape: [usize; 2], to: &mut [f32]) => (codes, tensor, shape, to))
                    }
                    _ => {
                        dispatch!(isa, nvfp4::<4>(codes: &[u8], tensor: f32, shape: [usize; 2], to: &mut [f32]) => (codes, tensor, shape, to))
                    }
                },
            }
        }
    }
}

/// Halves that the first `LANES` bytes stand for, by `bits`, as f32.
#[inline(always)]
unsafe fn halves<S: Simd>(bytes: &[u8], bits: impl Fn(u16) -> u16) -> S::V {
    let mut halves = [0_u16; MOST_LANES];
    for (half, &byte) in halves[..S::LANES].iter_mut().zip(&bytes[..S::LANES]) {
        *half = bits(u16::from(byte));
    }
    // SAFETY: there are at least `LANES` halves; the processor has the instruction set.
    unsafe { S::load_f16(halves.as_ptr()) }
}

#[inline(always)]
fn bits_of_e4m3(code: u16) -> u16 {
    (code & 0x80) << 8 | (code & 0x7f) << 7
}

#[inline(always)]
fn bits_of_e2m1(code: u16) -> u16 {
    (code & 0x8) << 12 | (code & 0x7) << 9
}

#[inline(always)]
unsafe fn e4m3<S: Simd, const NV: usize>(codes: &[u8], scales: &[f32], to: &mut [f32]) {
    if NV > max_panel_of::<S>() {
        return;
    }
    let width = NV * S::LANES;
    let scales = &scales[..width];
    // SAFETY: rows of codes and results have `width` elements; the processor has the set.
    unsafe {
        // A scale is at most 2^128 / 448, so that the product does not overflow.
        let mut scale = [S::splat(E4M3_BIAS); NV];
        for (v, scale) in scale.iter_mut().enumerate() {
            *scale = S::mul(S::load(scales[v * S::LANES..].as_ptr()), *scale);
        }
        for (to, codes) in to.chunks_exact_mut(width).zip(codes.chunks_exact(width)) {
            for v in 0..NV {
                let value = halves::<S>(&codes[v * S::LANES..], bits_of_e4m3);
                S::store(to[v * S::LANES..].as_mut_ptr(), S::mul(value, scale[v]));
            }
        }
    }
}

#[inline(always)]
unsafe fn nvfp4<S: Simd, const NV: usize>(
    codes: &[u8],
    tensor: f32,
    [taps, depth]: [usize; 2],
    to: &mut [f32],
) {
    if NV > max_panel_of::<S>() {
        return;
    }
    let width = NV * S::LANES;
    let blocks = depth.div_ceil(BLOCK);
    let coded = codes.chunks_exact((BLOCK / 2 + 1) * width);
    for (index, coded) in coded.take(taps * blocks).enumerate() {
        let (tap, first) = (index / blocks, index % blocks * BLOCK);
        let rows = BLOCK.min(depth - first);
        let to = &mut to[(tap * depth + first) * width..][..rows * width];
        let (scales, coded) = coded.split_at(width);
        // SAFETY: rows of codes and results have `width` elements; the processor has the set.
        unsafe {
            // A loop: a closure of `from_fn` may stay a function, compiled without the instruction set.
            let mut scale = [S::splat(tensor); NV];
            for (v, scale) in scale.iter_mut().enumerate() {
                let of_block = halves::<S>(&scales[v * S::LANES..], bits_of_e4m3);
                *scale = S::mul(S::mul(of_block, S::splat(E4M3_BIAS)), *scale);
            }
            let pairs = to.chunks_mut(2 * width).zip(coded.chunks_exact(width));
            for (to, coded) in pairs {
                for v in 0..NV {
                    let coded = &coded[v * S::LANES..];
                    let converted = |value| S::mul(S::mul(value, S::splat(E2M1_BIAS)), scale[v]);
                    let low = converted(halves::<S>(coded, bits_of_e2m1));
                    S::store(to[v * S::LANES..][..S::LANES].as_mut_ptr(), low);
                    if let Some(to) = to.get_mut(width + v * S::LANES..)
                        && !to.is_empty()
                    {
                        let high = converted(halves::<S>(coded, |pair| bits_of_e2m1(pair >> 4)));
                        S::store(to[..S::LANES].as_mut_ptr(), high);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use spark_quant::{ExecutionPolicy, Quantizer, Recipe};

    use super::*;

    #[test]
    fn converted_panels_hold_the_values_of_the_packed_tensor() {
        let cpu = ExecutionPolicy::one_thread();
        for recipe in [Recipe::FP8, Recipe::NVFP4_SWEEP] {
            for (taps, depth, n) in [(1, 16, 5), (9, 24, 37), (3, 19, 130), (1, 1, 1)] {
                let bits = if recipe == Recipe::FP8 { 8 } else { 4 };
                let padded = CodedPanels::padded(bits, depth);
                let mut rows = vec![0.0; n * taps * padded];
                for (i, value) in rows.iter_mut().enumerate() {
                    // Of many magnitudes, so that codes are subnormal as well.
                    if i % padded < depth {
                        *value = (i as f32 * 0.37).sin() * 2.0_f32.powi(i as i32 % 13 - 20);
                    }
                }
                let packed = Quantizer::new(recipe)
                    .quantize(cpu, &rows, &[n, taps * padded], 1)
                    .expect("finite");
                let want = packed.dequantize(cpu).expect("ours");
                for isa in Isa::available() {
                    let coded = CodedPanels::new(isa, &packed, [taps, depth]).expect("supported");
                    let mut converted = vec![f32::NAN; coded.max_panel_len(isa)];
                    for panel in panels(isa, n) {
                        coded.convert(isa, panel, &mut converted);
                        let width = panel.vectors * isa.lanes();
                        for column in 0..width.min(n - panel.column) {
                            for k in 0..taps * depth {
                                let row = panel.column + column;
                                let at = row * taps * padded + k / depth * padded + k % depth;
                                let got = converted[k * width + column];
                                assert_eq!(got.to_bits(), want[at].to_bits(), "{isa:?} {at}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_code_converts_to_its_value() {
        let codes: Vec<u8> = (0..=255).collect();
        let mut want = [0.0; 256];
        spark_quant::scalar::slice::decode(
            ExecutionPolicy::one_thread(),
            spark_quant::scalar::MiniFormat::E4m3,
            &codes,
            &mut want,
        )
        .expect("as many values as codes");
        for (&code, want) in codes.iter().zip(want) {
            let value = half::f16::from_bits(bits_of_e4m3(code.into())).to_f32() * E4M3_BIAS;
            // Finite weights have no code of NaN.
            assert!(value == want || code & 0x7f == 0x7f, "{code}: {value}");
        }
        let e2m1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        for (code, want) in e2m1.into_iter().enumerate() {
            let value = |code| half::f16::from_bits(bits_of_e2m1(code)).to_f32() * E2M1_BIAS;
            assert_eq!([value(code as u16), value(code as u16 | 8)], [want, -want]);
        }
    }
}
