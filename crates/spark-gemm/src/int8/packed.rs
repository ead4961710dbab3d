//! Packed weights of one byte: a matrix in the order its kernel reads, and the sums of its columns.
//!
//! ```text
//! a panel of L = vectors * LANES columns is a run of words of 32 bits, tap after tap
//!   fours    [k / 4][L] words      bytes k to k + 3 of one column, then of the next
//!   eights   [k / 8][L] 2 words    bytes k to k + 7 of one column, then of the next
//! rows beyond the depth are zeros, so what an activation is there does not matter
//! ```
//!
//! Weights are held as i8. A weight of u8 is held as itself minus 128, and so is its zero point. What is
//! wanted follows from what is summed by the sums of rows and columns, in integers that wrap:
//!
//! ```text
//! sum (x - zx)(w - zw)  =  sum x w  -  zx sum w  -  zw sum x  +  K zx zw
//!                                      column       row
//! ```
//!
//! (The identity is that of B. Jacob et al., "Quantization and Training of Neural Networks for Efficient
//! Integer-Arithmetic-Only Inference", 2018, section 2.3.)

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use spark_parallel::Pool;
use zerocopy::{FromBytes, IntoBytes};

use super::instructions::{ByteKind, Int8Instructions};
use crate::memory::{AlignedF32, WeightMemory};
use crate::pages::take_pages;
use crate::panel::{Panel, max_panel, panel_offset, panels};
use crate::weights::WeightShape;

/// Most products of one sum, taps times depth: 255 * 255 * 33025 is just below 2^31.
pub const MAX_DEPTH: usize = (i32::MAX / (255 * 255)) as usize;

/// Weights whose sums may not fit 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sums of {depth} products of bytes may not fit 32 bits; at most {MAX_DEPTH} do")]
pub struct DepthError {
    /// Products of one sum.
    pub depth: usize,
}

/// How weights of one byte are packed: for which instructions, and their extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int8Layout {
    instructions: Int8Instructions,
    shape: WeightShape,
    columns: usize,
    kind: ByteKind,
}

impl Int8Layout {
    /// For weights of `kind` with `columns` columns in every group.
    ///
    /// # Errors
    ///
    /// [`DepthError`] if there are more than [`MAX_DEPTH`] rows.
    pub fn new(
        instructions: Int8Instructions,
        shape: WeightShape,
        columns: usize,
        kind: ByteKind,
    ) -> Result<Self, DepthError> {
        let depth = shape.taps.saturating_mul(shape.depth);
        match depth <= MAX_DEPTH {
            true => Ok(Self {
                instructions,
                shape,
                columns,
                kind,
            }),
            false => Err(DepthError { depth }),
        }
    }

    /// What will multiply the weights.
    pub fn instructions(&self) -> Int8Instructions {
        self.instructions
    }

    /// Rows of one group.
    fn rows(&self) -> usize {
        self.shape.taps * self.shape.depth
    }

    /// Words of one tap and one column.
    fn words(&self) -> usize {
        let step = self.instructions.depth_step();
        self.shape.depth.div_ceil(step) * (step / 4)
    }

    /// Words of one group.
    fn group_len(&self) -> Option<usize> {
        let isa = self.instructions.isa();
        let columns = self.columns.checked_next_multiple_of(isa.lanes())?;
        columns.checked_mul(self.shape.taps * self.words())
    }

    /// Words of packed weights and the sums of their columns; nothing if that is no `usize`.
    fn packed_len(&self) -> Option<usize> {
        let sums = self.columns.checked_mul(self.shape.groups)?;
        let packed = self.group_len()?.checked_mul(self.shape.groups)?;
        packed.checked_add(sums)
    }

    /// Bytes of the rows of one panel, as they are before they are packed.
    fn panel_bytes(&self) -> Option<usize> {
        let isa = self.instructions.isa();
        self.rows().checked_mul(max_panel(isa) * isa.lanes())
    }

    /// Bytes that [`Int8Layout::pack`] takes at most on so many threads, the packed weights included; nothing if
    /// that is no `usize`.
    pub fn packing_bytes(&self, threads: usize) -> Option<usize> {
        let buffers = self.panel_bytes()?.checked_mul(threads)?;
        self.packed_len()?.checked_mul(4)?.checked_add(buffers)
    }

    /// f32 elements of the memory that [`Int8Layout::pack_into`] takes; nothing if that is no `usize`.
    pub fn memory_len(&self) -> Option<usize> {
        self.packed_len()?
            .checked_add(self.panel_bytes()?.div_ceil(4))
    }

    /// Packs weights into new memory of `memory`, the panels shared out between threads.
    ///
    /// `write(group, columns, to, width)` gives the weights of some columns: it fills the rows
    /// `[taps * depth][width]` of bytes at `to`, and leaves what is beyond the columns.
    ///
    /// # Panics
    ///
    /// If memory runs out, or the sizes overflow.
    pub fn pack(
        self,
        write: impl Fn(usize, Range<usize>, &mut [u8], usize) + Sync,
        memory: &WeightMemory,
        pool: &Pool,
    ) -> Int8Weights<'static> {
        let len = self.packed_len().expect("the size of packed weights");
        let mut memory = memory.zeros(len);
        let panels = self.panels_in(memory.as_mut_slice());
        let jobs: Vec<Mutex<PanelToPack<'_>>> = panels.into_iter().map(Mutex::new).collect();
        let buffers = (0..pool.threads()).map(|_| Mutex::default());
        let buffers: Vec<Mutex<Vec<u8>>> = buffers.collect();
        pool.run_in_slots(jobs.len(), |slot, index| {
            let mut job = jobs[index].lock().unwrap_or_else(PoisonError::into_inner);
            let mut buffer = buffers[slot].lock().unwrap_or_else(PoisonError::into_inner);
            take_pages(job.words);
            buffer.resize(self.rows() * job.width, 0);
            self.pack_panel(&mut job, &write, &mut buffer);
        });
        drop(jobs);
        Int8Weights {
            layout: self,
            memory: Memory::Owned(memory),
        }
    }

    /// Packs weights into `memory`, on the calling thread, without taking any.
    ///
    /// # Panics
    ///
    /// If `memory` is shorter than [`Int8Layout::memory_len`].
    pub fn pack_into<'m>(
        self,
        write: impl Fn(usize, Range<usize>, &mut [u8], usize),
        memory: &'m mut [f32],
    ) -> Int8Weights<'m> {
        let len = self.packed_len().expect("the size of packed weights");
        let (packed, buffer) = memory.split_at_mut(len);
        let buffer = buffer.as_mut_bytes();
        packed.fill(0.0);
        let (mut rest, mut sums) = self.parts(packed);
        for group in 0..self.shape.groups {
            for panel in panels(self.instructions.isa(), self.columns) {
                let mut job;
                (job, rest, sums) = self.panel_to_pack(group, panel, rest, sums);
                let bytes = self.rows() * job.width;
                self.pack_panel(&mut job, &write, &mut buffer[..bytes]);
            }
        }
        Int8Weights {
            layout: self,
            memory: Memory::Lent(packed),
        }
    }

    /// The panels of all groups, each with its part of `memory`.
    fn panels_in<'m>(&self, memory: &'m mut [f32]) -> Vec<PanelToPack<'m>> {
        let (mut rest, mut sums) = self.parts(memory);
        let mut all = Vec::new();
        for group in 0..self.shape.groups {
            for panel in panels(self.instructions.isa(), self.columns) {
                let job;
                (job, rest, sums) = self.panel_to_pack(group, panel, rest, sums);
                all.push(job);
            }
        }
        all
    }

    /// Packed weights, and the sums of their columns.
    fn parts<'m>(&self, memory: &'m mut [f32]) -> (&'m mut [f32], &'m mut [i32]) {
        let sums = self.columns * self.shape.groups;
        let (words, sums) = memory.split_at_mut(memory.len() - sums);
        (words, i32s_mut(sums))
    }

    /// A panel with the first words and sums of what is left of both, and what is left then.
    fn panel_to_pack<'m>(
        &self,
        group: usize,
        panel: Panel,
        words: &'m mut [f32],
        sums: &'m mut [i32],
    ) -> (PanelToPack<'m>, &'m mut [f32], &'m mut [i32]) {
        let width = panel.vectors * self.instructions.isa().lanes();
        let columns = panel.column..self.columns.min(panel.column + width);
        let (words, words_left) = words.split_at_mut(self.shape.taps * self.words() * width);
        let (sums, sums_left) = sums.split_at_mut(columns.len());
        let job = PanelToPack {
            group,
            columns,
            width,
            words,
            sums,
        };
        (job, words_left, sums_left)
    }

    /// Packs one panel by way of `buffer`, which has its rows.
    fn pack_panel(
        &self,
        job: &mut PanelToPack<'_>,
        write: &impl Fn(usize, Range<usize>, &mut [u8], usize),
        buffer: &mut [u8],
    ) {
        if job.columns.is_empty() {
            return;
        }
        write(job.group, job.columns.clone(), buffer, job.width);
        let matrix = Matrix {
            bytes: buffer,
            taps: self.shape.taps,
            depth: self.shape.depth,
            width: job.width,
            flip: match self.kind {
                ByteKind::Signed => 0,
                ByteKind::Unsigned => 0x80,
            },
        };
        let step = self.instructions.depth_step();
        matrix.arrange(job.columns.len(), step, job.words.as_mut_bytes());
        job.sums.fill(0);
        matrix.add_up(job.sums);
    }
}

/// A panel that is about to be packed.
struct PanelToPack<'m> {
    group: usize,
    columns: Range<usize>,
    /// Columns padded to whole vectors.
    width: usize,
    words: &'m mut [f32],
    sums: &'m mut [i32],
}

/// Words of 32 bits as the integers that they hold.
fn i32s(words: &[f32]) -> &[i32] {
    <[i32]>::ref_from_bytes(words.as_bytes()).unwrap_or_default()
}

/// The same, to be written.
fn i32s_mut(words: &mut [f32]) -> &mut [i32] {
    <[i32]>::mut_from_bytes(words.as_mut_bytes()).unwrap_or_default()
}

/// Weights of one byte, packed for the instructions that will multiply them.
#[derive(Debug)]
pub struct Int8Weights<'m> {
    layout: Int8Layout,
    /// Packed matrices of all groups, in words that hold bytes; then, of each group and column, the sum of its
    /// weights as i8.
    memory: Memory<'m>,
}

/// Whose memory packed weights are in.
#[derive(Debug)]
enum Memory<'m> {
    Owned(AlignedF32),
    Lent(&'m [f32]),
}

impl Int8Weights<'_> {
    fn memory(&self) -> &[f32] {
        match &self.memory {
            Memory::Owned(memory) => memory.as_slice(),
            Memory::Lent(memory) => memory,
        }
    }

    /// The sums of the columns of a group.
    fn sums(&self, group: usize) -> &[i32] {
        let Int8Layout { shape, columns, .. } = self.layout;
        let memory = self.memory();
        let sums = i32s(&memory[memory.len() - columns * shape.groups..]);
        &sums[group * columns..][..columns]
    }

    /// What multiplies them.
    pub fn instructions(&self) -> Int8Instructions {
        self.layout.instructions
    }

    /// Groups, taps and depth.
    pub fn shape(&self) -> WeightShape {
        self.layout.shape
    }

    /// Columns of every group.
    pub fn columns(&self) -> usize {
        self.layout.columns
    }

    /// Whether the weights that were packed were i8 or u8.
    pub fn kind(&self) -> ByteKind {
        self.layout.kind
    }

    /// Bytes of memory that they take.
    pub fn size_bytes(&self) -> usize {
        4 * self.memory().len()
    }

    /// Elements of what is given per column, of one group: columns padded to whole vectors.
    pub fn padded_columns(&self) -> usize {
        self.columns()
            .next_multiple_of(self.instructions().isa().lanes())
    }

    /// Words of `panel` of `group`.
    pub(super) fn panel(&self, group: usize, panel: Panel) -> &[f32] {
        let depth = self.layout.shape.taps * self.layout.words();
        let lanes = self.instructions().isa().lanes();
        let group_len = depth * self.padded_columns();
        let start = group * group_len + panel_offset(panel, depth);
        &self.memory()[start..][..depth * panel.vectors * lanes]
    }

    /// What the accumulators of `group` begin with, by column, so that zero points and bias are accounted
    /// for: `bias - zx sum w + K zx zw`, in what is multiplied. Writes [`Int8Weights::padded_columns`]
    /// values.
    ///
    /// `zero_points` are the weights' own, one for all or one per column; none is zero.
    ///
    /// # Panics
    ///
    /// If a list is neither empty, nor one value where that is allowed, nor as long as there are columns;
    /// if `to` is shorter than what is written.
    pub fn write_initial(
        &self,
        group: usize,
        (kind, zero_point): (ByteKind, i32),
        zero_points: &[i32],
        bias: &[i32],
        to: &mut [i32],
    ) {
        assert!(
            bias.is_empty() || bias.len() == self.columns(),
            "a bias per column"
        );
        let used = self.instructions().multiplied_as(kind);
        let zero_x = zero_point.wrapping_add(kind.shift_to(used));
        let depth = self.layout.rows() as i32;
        let to = &mut to[..self.padded_columns()];
        to.fill(0);
        for (column, (to, sum)) in to.iter_mut().zip(self.sums(group)).enumerate() {
            let zero_w = self.zero_point(zero_points, column);
            let corrected = depth.wrapping_mul(zero_w).wrapping_sub(*sum);
            let bias = bias.get(column).copied().unwrap_or(0);
            *to = zero_x.wrapping_mul(corrected).wrapping_add(bias);
        }
    }

    /// Writes the zero points of the weights of a group as they are held, padded as
    /// [`Int8Weights::write_initial`] does, and says whether any is not zero: then sums of rows are needed.
    ///
    /// # Panics
    ///
    /// As there.
    pub fn write_held_zero_points(&self, zero_points: &[i32], to: &mut [i32]) -> bool {
        let to = &mut to[..self.padded_columns()];
        to.fill(0);
        let columns = to[..self.columns()].iter_mut().enumerate();
        columns.for_each(|(column, to)| *to = self.zero_point(zero_points, column));
        to.iter().any(|&zero| zero != 0)
    }

    /// The zero point of a column as its weights are held.
    fn zero_point(&self, zero_points: &[i32], column: usize) -> i32 {
        let own = match zero_points {
            [] => 0,
            [one] => *one,
            all => {
                assert_eq!(all.len(), self.columns(), "a zero point per column");
                all[column]
            }
        };
        own.wrapping_add(self.kind().shift_to(ByteKind::Signed))
    }
}

/// Columns of one panel as they are written: `[taps * depth][width]`.
struct Matrix<'a> {
    bytes: &'a [u8],
    taps: usize,
    depth: usize,
    width: usize,
    /// What makes an i8 of a byte.
    flip: u8,
}

impl Matrix<'_> {
    /// Puts the first `columns` columns in the order of the kernel, `step` bytes of each at a time.
    fn arrange(&self, columns: usize, step: usize, to: &mut [u8]) {
        let steps = self.depth.div_ceil(step);
        for tap in 0..self.taps {
            for k in (0..self.depth).step_by(step) {
                let block = (tap * steps + k / step) * self.width * step;
                let block = &mut to[block..][..self.width * step];
                for byte in 0..step.min(self.depth - k) {
                    let row = (tap * self.depth + k + byte) * self.width;
                    let row = &self.bytes[row..][..columns];
                    let to = block[byte..].iter_mut().step_by(step);
                    to.zip(row).for_each(|(to, &w)| *to = w ^ self.flip);
                }
            }
        }
    }

    /// Adds up the columns there are.
    fn add_up(&self, sums: &mut [i32]) {
        for row in self.bytes.chunks_exact(self.width.max(1)) {
            for (sum, &w) in sums.iter_mut().zip(row) {
                *sum += i32::from((w ^ self.flip).cast_signed());
            }
        }
    }
}
