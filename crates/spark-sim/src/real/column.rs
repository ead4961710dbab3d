//! One quantity of every lane, aligned to cache lines.
//!
//! A register of sixteen f32 is one cache line; loads and stores that straddle two cost
//! about twice as much, and ordinary vectors are aligned to 16 bytes only. The length is
//! fixed: a batch's columns cannot get out of step.

use super::number::{LANE_PADDING, padded_len};
use std::ops::{Deref, DerefMut};

/// Two of the widest registers' worth of elements. No padding: 32 f32 are 128 bytes, 32 f64 are 256.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub struct Tile<E>(pub(crate) [E; LANE_PADDING]);

impl<E: Copy> Tile<E> {
    /// The same in every lane.
    pub(crate) fn filled(value: E) -> Self {
        Self([value; LANE_PADDING])
    }
}

/// A fixed number of elements, aligned to 64 bytes; reads and writes as a slice.
#[derive(Clone, PartialEq)]
pub struct Column<E> {
    tiles: Vec<Tile<E>>,
    /// Elements. Kept, because a length computed from that of `tiles` makes the compiler
    /// spend minutes on proving bounds in the kernels, in vain.
    len: usize,
}

impl<E: Copy> Column<E> {
    /// `value` for `n_lanes` lanes and for the padding up to a whole register.
    pub fn filled(n_lanes: usize, value: E) -> Self {
        let n_tiles = padded_len(n_lanes) / LANE_PADDING;
        Self {
            tiles: vec![Tile([value; LANE_PADDING]); n_tiles],
            len: n_tiles * LANE_PADDING,
        }
    }
}

impl<E> Deref for Column<E> {
    type Target = [E];

    #[inline(always)]
    fn deref(&self) -> &[E] {
        const { assert!(size_of::<Tile<E>>() == LANE_PADDING * size_of::<E>()) };
        // SAFETY: a `Tile` is `LANE_PADDING` initialised elements without padding (checked above),
        // and `len` is `LANE_PADDING` times the number of tiles since `filled`, the only place that
        // sets either; so the tiles are one run of `len` elements, borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts(self.tiles.as_ptr().cast::<E>(), self.len) }
    }
}

impl<E> DerefMut for Column<E> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [E] {
        const { assert!(size_of::<Tile<E>>() == LANE_PADDING * size_of::<E>()) };
        // SAFETY: as in `deref`; the borrow is unique because `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.tiles.as_mut_ptr().cast::<E>(), self.len) }
    }
}

impl<E: std::fmt::Debug> std::fmt::Debug for Column<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_padded_aligned_and_whole() {
        for n in [0, 1, 16, 17, 100] {
            let mut column = Column::filled(n, 1.5_f32);
            assert_eq!(column.len(), padded_len(n));
            assert_eq!(column.as_ptr() as usize % 64, 0);
            for (i, value) in column.iter_mut().enumerate() {
                *value = i as f32;
            }
            assert!(column.iter().enumerate().all(|(i, &v)| v == i as f32));
            assert_eq!(Column::filled(n, 2.0_f64).len(), padded_len(n));
        }
    }
}
