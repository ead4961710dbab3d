//! Rounding to bf16: what the left operand of a matmul of bf16 goes through.
//!
//! ```text
//! round_rows    v -> the nearest f32 whose low 16 bits are zero, ties to even; NaN stays NaN
//! narrow_row    v -> its high half alone
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

/// Writes the nearest bf16 of each of `columns` elements at `from` to `to`, which may begin at the same address.
///
/// # Safety
///
/// `from` must be readable and `to` writable for so many elements, of f32 and of bf16; the two may overlap only if they begin
/// at the same address. `isa` must be a set that this processor has.
pub unsafe fn narrow_row(isa: Isa, from: *const f32, to: *mut u16, columns: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        dispatch!(isa, narrow_kernel(from: *const f32, to: *mut u16, columns: usize) => (from, to, columns));
    }
}

#[inline(always)]
unsafe fn narrow_kernel<S: Simd>(from: *const f32, to: *mut u16, columns: usize) {
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
                    narrow_row(isa, values.as_ptr(), narrow.as_mut_ptr(), columns);
                    narrow_row(isa, start, start.cast(), columns);
                }
                for (i, &got) in narrow.iter().enumerate() {
                    let want = match i < columns {
                        true => bf16::from_f32(values[i]).to_bits(),
                        false => 7,
                    };
                    assert_eq!(got, want, "{columns} columns on {isa:?}, {i}");
                }
                for (i, pair) in in_place[..columns / 2].iter().enumerate() {
                    let want = u32::from(narrow[2 * i]) | u32::from(narrow[2 * i + 1]) << 16;
                    assert_eq!(
                        pair.to_bits(),
                        want,
                        "{columns} columns on {isa:?}, pair {i}"
                    );
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
