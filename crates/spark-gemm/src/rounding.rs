//! Rounding to bf16 in place: what the left operand of a matmul of bf16 goes through.
//!
//! ```text
//! v -> the nearest f32 whose low 16 bits are zero, ties to even; NaN stays NaN
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
            let mut nan = [f32::NAN, f32::from_bits(0x7f80_0001), -f32::NAN];
            // SAFETY: as above.
            unsafe { round_rows(isa, &[nan.as_mut_ptr()], nan.len()) };
            let high_halves = nan.map(|v| f32::from_bits(v.to_bits() & 0xffff_0000));
            assert!(high_halves.iter().all(|v| v.is_nan()), "{isa:?}");
        }
    }
}
