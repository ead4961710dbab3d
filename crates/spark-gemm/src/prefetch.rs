//! What a tile prefetches while it computes.
//!
//! With few rows the weights come from memory as fast as they are used. While the tiles of one panel
//! run, they prefetch the lines of the next, one at every step of the depth. Prefetching is a hint: no
//! address need be readable.

use spark_simd::Simd;

/// What a tile prefetches while it runs: weights of the next panel, rows of the next tile.
#[derive(Debug, Clone, Copy)]
pub struct Prefetch {
    pub(crate) start: [*const f32; 2],
    /// Elements further on at the next step; 0 repeats one line, which costs nothing.
    step: [usize; 2],
}

/// f32 in one cache line of 64 bytes.
const LINE: usize = 16;
/// Prefetch distance of a tile of one row, in elements.
const STREAM_AHEAD: usize = 2048;

impl Prefetch {
    /// Nothing: `near` is a line in use anyway.
    #[inline]
    pub fn none(near: *const f32) -> Self {
        Self {
            start: [near; 2],
            step: [0; 2],
        }
    }

    /// Tile `index`'s share of the `len` elements at `next`, if a tile prefetches `steps` lines.
    #[inline]
    pub fn share(next: *const f32, len: usize, steps: usize, index: usize) -> Self {
        let mut ahead = Self::none(next);
        if index * steps * LINE < len {
            ahead.start[0] = next.wrapping_add(index * steps * LINE);
            ahead.step[0] = LINE;
        }
        ahead
    }

    /// Besides, `rows` rows that lie at `next` without gaps, as deep as the tile takes steps.
    #[inline]
    pub fn and_rows(self, next: *const f32, rows: usize) -> Self {
        Self {
            start: [self.start[0], next],
            step: [self.step[0], rows],
        }
    }

    /// Prefetches what is needed soon: the weights after `w` themselves where a tile has one row, else
    /// the next panel, and the next tile's rows, from `ahead` on, which moves. A tile of one vector and
    /// several rows prefetches nothing: it needs every load that a core can do.
    #[inline(always)]
    pub(crate) fn issue<S: Simd, const NV: usize, const MR: usize>(
        &self,
        w: *const f32,
        ahead: &mut [*const f32; 2],
    ) {
        if MR == 1 {
            for v in 0..NV {
                S::prefetch(w.wrapping_add(STREAM_AHEAD + v * S::LANES));
            }
        } else if NV > 1 {
            S::prefetch(ahead[0]);
            S::prefetch(ahead[1]);
            ahead[0] = ahead[0].wrapping_add(self.step[0]);
            ahead[1] = ahead[1].wrapping_add(self.step[1]);
        }
    }
}
