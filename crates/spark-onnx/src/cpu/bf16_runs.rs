//! Elements from f32 to bf16 and back: side by side, or turned from planes to pixels.
//!
//! ```text
//! widen, narrow   runs of elements, a vector at a time
//! narrow_tile     columns of f32 -> rows of bf16: two columns are rounded and joined as words of 32 bits, and
//!                 blocks of 4 x 4 words transposed; in registers by AVX-512, which alone has networks of dot
//!                 products that hold bf16, else by way of memory
//! ```
//!
//! Values round to nearest, ties to even; NaN stays NaN.

use half::bf16;

#[cfg(target_arch = "x86_64")]
use spark_simd::Proof;

use crate::cpu::simd::{Isa, Simd, dispatch};

/// bf16 as f32; both have as many elements.
pub(crate) fn widen(isa: Isa, from: &[bf16], to: &mut [f32]) {
    debug_assert_eq!(from.len(), to.len(), "an element for each");
    // SAFETY: `isa` names a set that this processor has.
    unsafe { dispatch!(isa, widen_kernel(from: &[bf16], to: &mut [f32]) => (from, to)) }
}

/// The nearest bf16; both have as many elements.
pub(crate) fn narrow(isa: Isa, from: &[f32], to: &mut [bf16]) {
    debug_assert_eq!(from.len(), to.len(), "an element for each");
    // SAFETY: `isa` names a set that this processor has.
    unsafe { dispatch!(isa, narrow_kernel(from: &[f32], to: &mut [bf16]) => (from, to)) }
}

#[inline(always)]
unsafe fn widen_kernel<S: Simd>(from: &[bf16], to: &mut [f32]) {
    let (from_blocks, mut to_blocks) = (from.chunks_exact(S::LANES), to.chunks_exact_mut(S::LANES));
    let rest = from_blocks.remainder();
    // SAFETY: blocks have `LANES` elements, and what is left fewer.
    unsafe {
        for (from, to) in from_blocks.zip(&mut to_blocks) {
            S::store(to.as_mut_ptr(), S::load_bf16(from.as_ptr().cast()));
        }
        let to = to_blocks.into_remainder();
        if !to.is_empty() && rest.len() == to.len() {
            let last = S::load_first_bf16(rest.as_ptr().cast(), rest.len());
            S::store_first(to.as_mut_ptr(), last, rest.len());
        }
    }
}

#[inline(always)]
unsafe fn narrow_kernel<S: Simd>(from: &[f32], to: &mut [bf16]) {
    let (from_blocks, mut to_blocks) = (from.chunks_exact(S::LANES), to.chunks_exact_mut(S::LANES));
    let rest = from_blocks.remainder();
    // SAFETY: blocks have `LANES` elements, and what is left fewer.
    unsafe {
        for (from, to) in from_blocks.zip(&mut to_blocks) {
            S::store_bf16(to.as_mut_ptr().cast(), S::load(from.as_ptr()));
        }
        let to = to_blocks.into_remainder();
        if !to.is_empty() && rest.len() == to.len() {
            let last = S::load_first(rest.as_ptr(), rest.len());
            S::store_first_bf16(to.as_mut_ptr().cast(), last, rest.len());
        }
    }
}

/// Side of a transposing tile: one cache line of f32.
pub(crate) const TILE: usize = 16;

/// A tile of at most [`TILE`] rows and columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NarrowTile {
    /// The first element; rows lie side by side.
    pub(crate) from: *const f32,
    /// Elements from one column to the next.
    pub(crate) from_column: isize,
    /// Where it goes; columns lie side by side.
    pub(crate) to: *mut bf16,
    /// Elements from one row to the next.
    pub(crate) to_row: isize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// The nearest bf16 of a tile, transposed.
///
/// # Safety
///
/// All elements of the tile must be readable and writable.
pub(crate) unsafe fn narrow_tile(isa: Isa, tile: &NarrowTile) {
    debug_assert!(tile.rows <= TILE && tile.columns <= TILE, "a tile");
    #[cfg(target_arch = "x86_64")]
    if let Proof::Avx512(_) = isa.proof()
        && tile.columns.is_multiple_of(2)
    {
        // SAFETY: guaranteed by the caller; the token proves the instruction set.
        return unsafe { tile_avx512(tile) };
    }
    // SAFETY: guaranteed by the caller; `isa` names a set that this processor has.
    unsafe { dispatch!(isa, tile_kernel(tile: &NarrowTile) => (tile)) }
}

/// Words of a column of a tile, each a rounded f32 of `rows` at `from`.
#[inline(always)]
unsafe fn rounded<S: Simd>(from: *const f32, rows: usize) -> [u32; TILE] {
    let mut to = [0.0f32; TILE];
    // SAFETY: the caller vouches for `rows` elements, and vectors of the tile's side are whole.
    unsafe {
        let mut row = 0;
        while row < rows {
            let left = rows - row;
            let v = match left >= S::LANES {
                true => S::load(from.add(row)),
                false => S::load_first(from.add(row), left),
            };
            S::store(to.as_mut_ptr().add(row), S::round_bf16(v));
            row += S::LANES;
        }
    }
    to.map(f32::to_bits)
}

#[inline(always)]
unsafe fn tile_kernel<S: Simd>(tile: &NarrowTile) {
    const SIDE: usize = 4;
    let (rows, pairs) = (tile.rows, tile.columns / 2);
    let column = |column: usize| {
        tile.from
            .wrapping_offset(column as isize * tile.from_column)
    };
    let place = |row: usize, column: usize| {
        let row = tile.to.wrapping_offset(row as isize * tile.to_row);
        row.wrapping_add(column)
    };
    let mut words = [[0u32; TILE]; TILE / 2];
    // SAFETY: rows and columns are the tile's, which the caller vouches for.
    unsafe {
        for (pair, words) in words[..pairs].iter_mut().enumerate() {
            let low = rounded::<S>(column(2 * pair), rows);
            let high = rounded::<S>(column(2 * pair + 1), rows);
            for (word, (low, high)) in words.iter_mut().zip(low.into_iter().zip(high)) {
                *word = low >> 16 | high & 0xffff_0000;
            }
        }
        let whole = pairs / SIDE * SIDE;
        for pair in (0..whole).step_by(SIDE) {
            for row in (0..rows).step_by(SIDE) {
                let turned: [[u32; SIDE]; SIDE] = std::array::from_fn(|r| {
                    std::array::from_fn(|p| words[pair + p][row + r].to_le())
                });
                for (r, turned) in turned.into_iter().enumerate().take(rows - row) {
                    let to = place(row + r, 2 * pair).cast::<[u32; SIDE]>();
                    to.write_unaligned(turned);
                }
            }
        }
        for row in 0..rows {
            for (pair, words) in words[..pairs].iter().enumerate().skip(whole) {
                let to = place(row, 2 * pair).cast::<u32>();
                to.write_unaligned(words[row].to_le());
            }
        }
        if tile.columns % 2 == 1 {
            let last = rounded::<S>(column(tile.columns - 1), rows);
            for (row, value) in last[..rows].iter().enumerate() {
                *place(row, tile.columns - 1) = bf16::from_bits((value >> 16) as u16);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
spark_simd::features! { compile Avx512
    /// A tile of an even number of columns: every vector holds a word of sixteen rows, and four of them are transposed.
    unsafe fn tile_avx512(tile: &NarrowTile) {
        use std::arch::x86_64::*;
        use spark_simd::Avx512;

        let (rows, columns) = (tile.rows, tile.columns);
        // SAFETY: rows and columns are the tile's, which the caller vouches for; this function has the features.
        unsafe {
            let rounded = |column: usize| {
                let from = tile.from.wrapping_offset(column as isize * tile.from_column);
                let v = match rows >= Avx512::LANES {
                    true => Avx512::load(from),
                    false => Avx512::load_first(from, rows),
                };
                _mm512_castps_si512(Avx512::round_bf16(v))
            };
            for first in (0..columns).step_by(8) {
                let words = (columns - first).min(8) / 2;
                let word = |i: usize| {
                    if i >= words {
                        return _mm512_setzero_si512();
                    }
                    let low = _mm512_srli_epi32::<16>(rounded(first + 2 * i));
                    _mm512_or_si512(low, rounded(first + 2 * i + 1))
                };
                let [a, b, c, d] = [word(0), word(1), word(2), word(3)];
                let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
                let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
                // Of every four rows the first, the second and so on.
                let turned = [
                    _mm512_unpacklo_epi64(ab, cd),
                    _mm512_unpackhi_epi64(ab, cd),
                    _mm512_unpacklo_epi64(ab_high, cd_high),
                    _mm512_unpackhi_epi64(ab_high, cd_high),
                ];
                let present = (1u8 << words) - 1;
                let store = |row: usize, words: __m128i| {
                    if row < rows {
                        let to = tile.to.wrapping_offset(row as isize * tile.to_row);
                        _mm_mask_storeu_epi32(to.wrapping_add(first).cast(), present, words);
                    }
                };
                for (row, v) in turned.into_iter().enumerate() {
                    store(row, _mm512_extracti32x4_epi32::<0>(v));
                    store(row + 4, _mm512_extracti32x4_epi32::<1>(v));
                    store(row + 8, _mm512_extracti32x4_epi32::<2>(v));
                    store(row + 12, _mm512_extracti32x4_epi32::<3>(v));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize) -> Vec<f32> {
        let bits = (0..n as u32).map(|i| i.wrapping_mul(0x9e37_79b9).wrapping_add(77));
        let finite = bits.map(|bits| f32::from_bits(bits & 0xbfff_ffff));
        finite.collect()
    }

    #[test]
    fn runs_of_every_length_are_rounded_and_widened() {
        for isa in Isa::available() {
            for n in 0..70 {
                let from = values(n);
                let mut to = vec![bf16::ONE; n];
                narrow(isa, &from, &mut to);
                let want: Vec<bf16> = from.iter().map(|&v| bf16::from_f32(v)).collect();
                assert_eq!(to, want, "{n} on {isa:?}");
                let mut back = vec![1.0; n];
                widen(isa, &to, &mut back);
                let want: Vec<f32> = to.iter().map(|v| v.to_f32()).collect();
                assert_eq!(back, want, "{n} on {isa:?}");
            }
        }
    }

    #[test]
    fn tiles_of_every_size_are_transposed() {
        for isa in Isa::available() {
            for (rows, columns) in (1..=TILE).flat_map(|r| (1..=TILE).map(move |c| (r, c))) {
                let (from_column, to_row) = (rows + 3, columns + 5);
                let from = values(columns * from_column);
                let mut to = vec![bf16::ONE; rows * to_row];
                let tile = NarrowTile {
                    from: from.as_ptr(),
                    from_column: from_column as isize,
                    to: to.as_mut_ptr(),
                    to_row: to_row as isize,
                    rows,
                    columns,
                };
                // SAFETY: both hold every element of the tile.
                unsafe { narrow_tile(isa, &tile) };
                for (at, &got) in to.iter().enumerate() {
                    let (row, column) = (at / to_row, at % to_row);
                    let want = match column < columns {
                        true => bf16::from_f32(from[column * from_column + row]),
                        false => bf16::ONE,
                    };
                    assert_eq!(got, want, "{rows} x {columns}: {row}, {column} on {isa:?}");
                }
            }
        }
    }
}
