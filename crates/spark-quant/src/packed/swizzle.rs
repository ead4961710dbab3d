//! The 128x4 layout in which tensor cores read block scales.
//!
//! ```text
//! scales [rows, columns], rows padded to 128, columns to 4, padding 0
//! tile   128 x 4 = 512 bytes, tiles of one row band next to each other
//! offset(r, c) = ((r / 128) * (padded columns / 4) + c / 4) * 512
//!              + (r % 32) * 16 + ((r % 128) / 32) * 4 + c % 4
//! ```
//!
//! The same for VEC16_UE4M3 (NVFP4) and VEC32_UE8M0 (MX).
//! Source: cuBLAS documentation, "1D block scaling factors layout".

use crate::error::QuantError;

/// Rows of a tile.
pub const TILE_ROWS: usize = 128;
/// Scale columns of a tile.
pub const TILE_COLUMNS: usize = 4;

/// Where the scale of row `r`, column `c` of a matrix of `columns` scales per row lies.
pub const fn offset(r: usize, c: usize, columns: usize) -> usize {
    let tile = r / TILE_ROWS * columns.div_ceil(TILE_COLUMNS) + c / TILE_COLUMNS;
    tile * TILE_ROWS * TILE_COLUMNS
        + r % 32 * 16
        + r % TILE_ROWS / 32 * TILE_COLUMNS
        + c % TILE_COLUMNS
}

/// Bytes of the swizzled form.
///
/// # Errors
///
/// [`QuantError::ShapeOverflow`] if they do not fit the address space.
pub fn size_bytes(rows: usize, columns: usize) -> Result<usize, QuantError> {
    rows.checked_next_multiple_of(TILE_ROWS)
        .zip(columns.checked_next_multiple_of(TILE_COLUMNS))
        .and_then(|(rows, columns)| rows.checked_mul(columns))
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or_else(|| QuantError::ShapeOverflow {
            shape: vec![rows, columns],
        })
}

/// Row-major scales `[rows, columns]` to the swizzled layout, padding zero.
///
/// # Errors
///
/// [`QuantError::LengthMismatch`] unless `scales` holds `rows * columns` bytes;
/// [`QuantError::ShapeOverflow`] if the result does not fit the address space.
pub fn swizzle(scales: &[u8], rows: usize, columns: usize) -> Result<Vec<u8>, QuantError> {
    let size = size_bytes(rows, columns)?;
    QuantError::check_length("scales", scales.len(), rows * columns)?;
    let mut swizzled = vec![0; size];
    for (r, row) in scales.chunks_exact(columns.max(1)).enumerate() {
        for (quad, chunk) in row.chunks(TILE_COLUMNS).enumerate() {
            let start = offset(r, quad * TILE_COLUMNS, columns);
            swizzled[start..start + chunk.len()].copy_from_slice(chunk);
        }
    }
    Ok(swizzled)
}

/// Inverse of [`swizzle`]; the padding is ignored.
///
/// # Errors
///
/// [`QuantError::LengthMismatch`] unless `swizzled` has the padded size of `[rows, columns]`;
/// [`QuantError::ShapeOverflow`] if that does not fit the address space.
pub fn unswizzle(swizzled: &[u8], rows: usize, columns: usize) -> Result<Vec<u8>, QuantError> {
    QuantError::check_length("swizzled", swizzled.len(), size_bytes(rows, columns)?)?;
    let mut scales = vec![0; rows * columns];
    for (r, row) in scales.chunks_exact_mut(columns.max(1)).enumerate() {
        for (quad, chunk) in row.chunks_mut(TILE_COLUMNS).enumerate() {
            let start = offset(r, quad * TILE_COLUMNS, columns);
            chunk.copy_from_slice(&swizzled[start..start + chunk.len()]);
        }
    }
    Ok(scales)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scale_has_its_own_place_and_comes_back() {
        for (rows, columns) in [(1, 1), (128, 4), (129, 5), (300, 13), (0, 3), (3, 0)] {
            let scales: Vec<u8> = (0..rows * columns).map(|i| (i % 251 + 1) as u8).collect();
            let swizzled = swizzle(&scales, rows, columns).expect("consistent sizes");
            assert_eq!(
                swizzled.iter().filter(|&&byte| byte != 0).count(),
                scales.len()
            );
            assert_eq!(
                unswizzle(&swizzled, rows, columns).expect("consistent sizes"),
                scales
            );
        }
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(matches!(
            swizzle(&[], usize::MAX, 2),
            Err(QuantError::ShapeOverflow { .. })
        ));
        assert!(matches!(
            unswizzle(&[0; 511], 1, 1),
            Err(QuantError::LengthMismatch { want: 512, .. })
        ));
    }
}
