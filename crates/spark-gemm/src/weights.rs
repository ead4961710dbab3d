//! Packing weights: matrices that are known before they are used.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use spark_parallel::Pool;
use spark_simd::Isa;

use crate::layout::PackedLayout;
use crate::memory::{AlignedF32, WeightMemory};
use crate::pages::take_pages;
use crate::panel::{packed_len, panels};

/// The extents of weights, but for their columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightShape {
    /// Matrices, packed one after the other.
    pub groups: usize,
    /// Window positions; 1 for a plain matrix.
    pub taps: usize,
    /// Rows of the matrix per tap.
    pub depth: usize,
}

impl PackedLayout {
    /// Packs columns `range` of every group into new memory of `memory`, one packed matrix after the other, the panels shared
    /// out between threads. Values are rounded to nearest, ties to even, where the layout has 16 bits.
    ///
    /// `write(group, columns, to, width)` gives the weights of some columns: it fills the rows
    /// `[taps * depth][width]` at `to`, which are zeros, and leaves what is beyond the columns.
    ///
    /// # Panics
    ///
    /// If memory runs out, or the sizes overflow.
    pub fn pack(
        self,
        isa: Isa,
        shape: WeightShape,
        range: Range<usize>,
        write: impl Fn(usize, Range<usize>, &mut [f32], usize) + Sync,
        memory: &WeightMemory,
        pool: &Pool,
    ) -> AlignedF32 {
        let WeightShape {
            groups,
            taps,
            depth,
        } = shape;
        let n = range.len();
        let group_len = self.packed_len(isa, taps, depth, n);
        // What `write` fills before it is rounded takes no more columns, but whole values.
        let fits = packed_len(isa, depth, n).checked_mul(taps).is_some();
        let ends = range.end.checked_next_multiple_of(isa.lanes()).is_some();
        let len = group_len.checked_mul(groups).filter(|_| fits && ends);
        let mut packed = memory.zeros(len.expect("the size of packed weights"));
        let mut jobs = Vec::new();
        let mut rest = packed.as_mut_slice();
        for group in 0..groups {
            for panel in panels(isa, n) {
                let len = taps * self.words(depth) * panel.vectors * isa.lanes();
                let (to, after) = rest.split_at_mut(len);
                let first = range.start + panel.column;
                let last = range.end.min(first + panel.vectors * isa.lanes());
                jobs.push(Mutex::new((group, first..last, to)));
                rest = after;
            }
        }
        // Of every thread: new memory for each panel would cost more than its values.
        let buffers = (0..pool.threads()).map(|_| Mutex::default());
        let buffers: Vec<Mutex<(Vec<f32>, Vec<u16>)>> = buffers.collect();
        pool.run_in_slots(jobs.len(), |slot, index| {
            let mut job = jobs[index].lock().unwrap_or_else(PoisonError::into_inner);
            let (group, columns, to) = &mut *job;
            take_pages(to);
            let width = columns.len().next_multiple_of(isa.lanes());
            if self == Self::F32 {
                write(*group, columns.clone(), to, width);
                return;
            }
            let mut buffer = buffers[slot].lock().unwrap_or_else(PoisonError::into_inner);
            let (plain, halves) = &mut *buffer;
            plain.clear();
            plain.resize(taps * depth * width, 0.0);
            halves.resize(plain.len(), 0);
            write(*group, columns.clone(), plain, width);
            self.convert(plain, halves, [taps, depth, width], to);
        });
        drop(jobs);
        packed
    }

    /// Rows `[taps][depth][width]` of f32 as words of 16 bits; `halves` is as long as they are.
    fn convert(
        self,
        plain: &[f32],
        halves: &mut [u16],
        [taps, depth, width]: [usize; 3],
        packed: &mut [f32],
    ) {
        match self {
            Self::F16 | Self::F16Fmlal => {
                let halves: &mut [f16] = halves.reinterpret_cast_mut();
                halves.convert_from_f32_slice(plain);
            }
            _ => {
                let halves: &mut [bf16] = halves.reinterpret_cast_mut();
                halves.convert_from_f32_slice(plain);
            }
        }
        let words = self.words(depth) * width;
        let taps_of_halves = halves.chunks_exact((depth * width).max(1));
        let taps_of_words = packed[..taps * words].chunks_exact_mut(words.max(1));
        for (halves, packed) in taps_of_halves.zip(taps_of_words) {
            self.arrange(halves, [depth, width], packed);
        }
    }

    /// The rows `[depth][width]` of one tap in the order that the module draws.
    fn arrange(self, halves: &[u16], [depth, width]: [usize; 2], packed: &mut [f32]) {
        let half = |k: usize, j: usize| match k < depth {
            true => halves[k * width + j],
            false => 0,
        };
        let word = |low: u16, high: u16| f32::from_bits(u32::from(low) | u32::from(high) << 16);
        match self {
            // As they are; rows are whole vectors, so no pair is halved.
            Self::F16 | Self::F16Fmlal => {
                for (to, pair) in packed.iter_mut().zip(halves.chunks_exact(2)) {
                    *to = word(pair[0], pair[1]);
                }
            }
            Self::Bf16Mmla => {
                for (index, to) in packed.iter_mut().enumerate() {
                    let (block, index) = (index / (2 * width), index % (2 * width));
                    let (k, column) = (4 * block + 2 * (index % 2), index / 2);
                    *to = word(half(k, column), half(k + 1, column));
                }
            }
            _ => {
                for (pair, row) in packed.chunks_exact_mut(width.max(1)).enumerate() {
                    for (j, to) in row.iter_mut().enumerate() {
                        *to = word(half(2 * pair, j), half(2 * pair + 1, j));
                    }
                }
            }
        }
    }
}
