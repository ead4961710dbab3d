//! Rounding to bf16: what the left operand of a matmul of bf16 goes through.
//!
//! ```text
//! round_rows     v -> the nearest f32 whose low 16 bits are zero, ties to even; NaN stays NaN
//! narrow_rows    v -> its high half alone
//! ```

#![allow(
    unsafe_code,
    reason = "reads and writes rows that the caller vouches for"
)]

use spark_simd::{Isa, Simd, dispatch};

/// Rounds `columns` elements of every row.
///
/// # Safety
///
/// Every row must be readable and writable for `columns` elements, and `isa` a set this
/// processor has.
pub unsafe fn round_rows(isa: Isa, rows: &[*mut f32], columns: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { dispatch!(isa, rows_kernel(rows: &[*mut f32], columns: usize) => (rows, columns)) }
}

/// Writes the nearest bf16 of every element of some rows of f32, a first one and elements from one to the next, to rows of bf16,
/// each of which may begin at the address of its own.
///
/// # Safety
///
/// `rows` rows at `from` must be readable and at `to` writable for `columns` elements, of f32 and of bf16; a row may overlap with
/// what is written only if both begin at the same address. `isa` must be a set that this processor has.
pub unsafe fn narrow_rows(
    isa: Isa,
    from: (*const f32, isize),
    to: (*mut u16, isize),
    (rows, columns): (usize, usize),
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        dispatch!(isa, narrow_kernel(from: (*const f32, isize), to: (*mut u16, isize), extents: (usize, usize)) => (from, to, (rows, columns)));
    }
}

#[inline(always)]
unsafe fn narrow_kernel<S: Simd>(
    (from, from_stride): (*const f32, isize),
    (to, to_stride): (*mut u16, isize),
    (rows, columns): (usize, usize),
) {
    for row in 0..rows.cast_signed() {
        let (from, to) = (
            from.wrapping_offset(row * from_stride),
            to.wrapping_offset(row * to_stride),
        );
        // SAFETY: guaranteed by the caller. Where both begin at one address, what is written lies before what is read next.
        unsafe {
            let mut i = 0;
            while i + S::LANES <= columns {
                S::store_bf16(to.add(i), S::load(from.add(i)));
                i += S::LANES;
            }
            let rest = columns - i;
            if rest > 0 {
                S::store_first_bf16(to.add(i), S::load_first(from.add(i), rest), rest);
            }
        }
    }
}

#[inline(always)]
unsafe fn rows_kernel<S: Simd>(rows: &[*mut f32], columns: usize) {
    for &row in rows {
        // SAFETY: the caller vouches for `columns` elements of every row.
        unsafe {
            let mut i = 0;
            while i + S::LANES <= columns {
                S::store(row.add(i), S::round_bf16(S::load(row.add(i))));
                i += S::LANES;
            }
            let rest = columns - i;
            if rest > 0 {
                let v = S::round_bf16(S::load_first(row.add(i), rest));
                S::store_first(row.add(i), v, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn values_round_as_half_rounds_them() {
        let mut values: Vec<f32> = (0..4096u32)
            .map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9)))
            .filter(|v| !v.is_nan())
            .collect();
        values.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-45]);
        // Ties: one goes down, one up.
        values.extend([1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0]);
        for isa in Isa::available() {
            let mut got = values.clone();
            // SAFETY: one row of exactly that many elements.
            unsafe { round_rows(isa, &[got.as_mut_ptr()], values.len()) };
            for (&value, &got) in values.iter().zip(&got) {
                let want = bf16::from_f32(value).to_f32();
                assert_eq!(got.to_bits(), want.to_bits(), "{value:e} on {isa:?}");
            }
            for columns in [0, 1, 7, 15, 16, 33, values.len()] {
                let mut narrow = vec![7_u16; values.len()];
                let mut in_place = values.clone();
                let start = in_place.as_mut_ptr();
                // SAFETY: both have that many elements and more; the second pair begins at one address.
                unsafe {
                    let to = narrow.as_mut_ptr();
                    narrow_rows(isa, (values.as_ptr(), 0), (to, 0), (1, columns));
                    let half = columns / 2;
                    let strides = (half as isize, 2 * half as isize);
                    // Two rows, each where it lies, and what is left.
                    narrow_rows(
                        isa,
                        (start, strides.0),
                        (start.cast(), strides.1),
                        (2, half),
                    );
                    let rest = start.add(2 * half);
                    narrow_rows(isa, (rest, 0), (rest.cast(), 0), (1, columns % 2));
                }
                for (i, &got) in narrow.iter().enumerate() {
                    let want = match i < columns {
                        true => bf16::from_f32(values[i]).to_bits(),
                        false => 7,
                    };
                    assert_eq!(got, want, "{columns} columns on {isa:?}, {i}");
                }
                let half = columns / 2;
                for (i, narrow) in narrow[..columns].iter().enumerate() {
                    // Element `i` is a half of a word of its row.
                    let row = (i / half.max(1)).min(2);
                    let at = i - row * half;
                    let word = in_place[row * half + at / 2].to_bits();
                    let got = (word >> (at % 2 * 16)) as u16;
                    assert_eq!(got, *narrow, "{columns} columns on {isa:?}, {i}");
                }
            }
            let mut nan = [f32::NAN, f32::from_bits(0x7f80_0001), -f32::NAN];
            // SAFETY: as above.
            unsafe { round_rows(isa, &[nan.as_mut_ptr()], nan.len()) };
            let high_halves = nan.map(|v| f32::from_bits(v.to_bits() & 0xffff_0000));
            assert!(high_halves.iter().all(|v| v.is_nan()), "{isa:?}");
        }
    }
}
