//! Packing a computed matrix into the pairs of bf16 that AVX-512's dot products read.
//!
//! ```text
//! element (k, n) is source[k * row_stride + n * column_stride], rounded to nearest, ties to even
//! packed  panel after panel: [k / 2][panel's columns, zero beyond the matrix]     k in the low half, k + 1 in the high
//!
//! column_stride 1   two rows become one
//! row_stride 1      the matrix lies transposed: blocks of 4 k by 16 n are transposed in registers
//! ```

#![allow(
    unsafe_code,
    reason = "reads a matrix of any strides that the caller vouches for, with the vectors of an instruction set"
)]

use std::arch::x86_64::{
    __m512, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_or_si512, _mm512_setzero_ps,
    _mm512_srli_epi32,
};

use spark_simd::{Avx512, Avx512Bf16, Isa, Simd};

use crate::layout::PackedLayout;
use crate::pack::{Columns, Source, columns};

const LANES: usize = Avx512::LANES;

/// Packs element `(k, n)` at `source[k * row_stride + n * column_stride]` as [`PackedLayout::Bf16Dot`] has it.
///
/// # Safety
///
/// `source` must be readable at all those positions.
///
/// # Panics
///
/// If the processor has no such products for `isa`, or `packed` does not hold [`PackedLayout::packed_len`].
pub unsafe fn pack_pairs(
    isa: Isa,
    source: *const f32,
    strides: (isize, isize),
    (depth, n): (usize, usize),
    packed: &mut [f32],
) {
    assert!(
        Avx512Bf16::of(isa).is_some(),
        "a processor with dot products of bf16"
    );
    let rows = PackedLayout::Bf16Dot.words(depth);
    for block in columns(isa, Source::new(source, strides), (rows, n), packed) {
        // SAFETY: the source is guaranteed by the caller; the columns lie inside `packed`; the token stands for the features.
        unsafe { pack_columns(&block, depth) };
    }
}

/// The nearest bf16 of `low` and of `high`, pair by pair.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn paired(low: __m512, high: __m512) -> __m512 {
    // SAFETY: the caller has the features.
    let (low, high) = unsafe { (Avx512::round_bf16(low), Avx512::round_bf16(high)) };
    let low = _mm512_srli_epi32::<16>(_mm512_castps_si512(low));
    _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_castps_si512(high)))
}

spark_simd::features! { compile Avx512
    unsafe fn pack_columns(columns: &Columns, depth: usize) {
        let Columns { source, valid, to, stride, .. } = *columns;
        // SAFETY: the caller of `pack_pairs` vouches for the source; rows of the result take a vector.
        unsafe {
            let row = |k: usize| {
                if k >= depth {
                    return _mm512_setzero_ps();
                }
                if source.column_stride == 1 {
                    return Avx512::load_first(source.at(k, 0), valid);
                }
                let mut values = [0.0_f32; LANES];
                for (j, value) in values[..valid].iter_mut().enumerate() {
                    *value = *source.at(k, j);
                }
                Avx512::load(values.as_ptr())
            };
            let transposed = match source.row_stride == 1 && valid == LANES {
                true => depth / 4 * 4,
                false => 0,
            };
            for k in (0..transposed).step_by(4) {
                let [a, b, c, d] = Avx512::load_columns(source.at(k, 0), source.column_stride);
                let to = to.add(k / 2 * stride);
                Avx512::store(to, paired(a, b));
                Avx512::store(to.add(stride), paired(c, d));
            }
            for k in (transposed..depth).step_by(2) {
                Avx512::store(to.add(k / 2 * stride), paired(row(k), row(k + 1)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::pack::tests::in_every_order;
    use crate::panel::{panel_offset, panels};

    #[test]
    fn every_order_and_shape_lands_where_the_kernel_reads() {
        let isa = Isa::detect();
        if Avx512Bf16::of(isa).is_none() {
            eprintln!("skipped: no dot products of bf16");
            return;
        }
        for (depth, n) in [
            (1, 1),
            (4, 16),
            (7, 37),
            (64, 5),
            (3, 197),
            (10, 80),
            (0, 4),
        ] {
            let matrix: Vec<f32> = (0..depth * n).map(|i| (i as f32 + 1.0) / 3.0).collect();
            for (source, strides) in in_every_order(&matrix, depth, n) {
                let layout = PackedLayout::Bf16Dot;
                let mut packed = vec![f32::NAN; layout.packed_len(isa, 1, depth, n)];
                // SAFETY: the strides reach every element of the source and none beyond.
                unsafe { pack_pairs(isa, source.as_ptr(), strides, (depth, n), &mut packed) };
                for panel in panels(isa, n) {
                    let width = panel.vectors * LANES;
                    let start = panel_offset(panel, layout.words(depth));
                    for (k, j) in
                        (0..depth.next_multiple_of(2)).flat_map(|k| (0..width).map(move |j| (k, j)))
                    {
                        let word = packed[start + k / 2 * width + j].to_bits();
                        let got = (word >> (k % 2 * 16)) as u16;
                        let column = panel.column + j;
                        let want = match column < n && k < depth {
                            true => bf16::from_f32(matrix[k * n + column]).to_bits(),
                            false => 0,
                        };
                        assert_eq!(got, want, "{depth}x{n} {strides:?} {k} {column}");
                    }
                }
            }
        }
    }
}
