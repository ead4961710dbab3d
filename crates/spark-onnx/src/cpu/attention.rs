//! Attention, a few rows of scores at a time.
//!
//! ```text
//! M queries   N keys   D width of both   E width of the values
//!
//! for batch and head:                                once per task
//!     keys   = pack(k')       [D][N to whole vectors]
//!     values = pack(v)        [N][E to whole vectors]
//!     for ROWS queries:                              scores stay in the L1 and L2 caches
//!         scores = q keys                            the micro-kernel of `gemm`
//!         scores = mask(scores)
//!         scores = e^(scale (scores - greatest)), and their sums
//!         y      = scores values / sums              one division a row, E products rather than N
//! ```
//!
//! Tasks are runs of such tiles, so that few heads still occupy many threads. Every row is
//! computed alone and in the same order whoever does it.
//!
//! In bf16 on both sides the powers are rounded before the second GEMM, their sum is not. Where the processor has dot products
//! of bf16 by AVX-512, both GEMM are made of them: keys and values are packed in pairs, queries and powers narrowed.
//!
//! Deliberately absent: cutting the keys. A row of scores is whole; models that drive have hundreds
//! of tokens, not tens of thousands.

#[cfg(target_arch = "x86_64")]
use spark_gemm::pack_pairs;
use spark_gemm::{
    FloatFormat, Gemm, PackedLayout, TileEpilogue, gemm_panel, narrow_rows, pack, panels,
    round_rows,
};
use spark_quant::QuantError;

use super::math;
use super::matmul::format::MatmulFormat;
use super::matmul::gemm::TASKS_PER_THREAD;
use super::matmul::gemm::operands_of_computed;
use super::memory::Memory;
use super::normalization::rows::{LANES, load_or, partial_vectors};
use super::normalization::softmax::{all_hidden, exp_row, row_max};
use super::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use super::simd::{Isa, Simd, dispatch};
use super::workspace::WorkspaceSize;
use crate::plan::{AttentionStep, Mask, View};

/// Rows of a tile: a multiple of the rows of every tile of the micro-kernel.
const ROWS: usize = 24;
/// Rows of the last tile, which takes what is left.
const MOST_ROWS: usize = 2 * ROWS - 1;

/// Tiles of `m` rows.
fn tiles(m: usize) -> usize {
    (m / ROWS).max(1)
}

/// f32 elements of scratch one task needs: packed keys, packed values, scores, and queries where they are narrowed.
fn scratch_lens(isa: Isa, step: &AttentionStep, layout: PackedLayout) -> [usize; 4] {
    let [m, n, d, e] = step.extents();
    let rows = m.min(MOST_ROWS);
    [
        layout.packed_len(isa, 1, d, n),
        layout.packed_len(isa, 1, n, e),
        rows * n.next_multiple_of(isa.lanes()),
        match layout {
            PackedLayout::Bf16Dot => rows * layout.words(d),
            _ => 0,
        },
    ]
}

/// Runs the step.
fn run(step: &AttentionStep, format: MatmulFormat, c: &Context<'_>) {
    let pool = c.pool;
    let [m, _, _, e] = step.extents();
    let (per_head, heads) = (tiles(m), step.batches());
    if m * e == 0 {
        return;
    }
    let total = per_head * heads;
    // Whole heads where there are enough of them: each task packs its own.
    let shares = TASKS_PER_THREAD * pool.threads();
    let tasks = match heads >= shares || pool.threads() == 1 {
        true => heads.min(shares),
        false => total.min(shares),
    };
    pool.run_in_slots(tasks, |slot, task| {
        let mut head = Head::new(step, format, c, c.scratch.part(slot));
        for tile in total * task / tasks..total * (task + 1) / tasks {
            // SAFETY: views were checked at load and slots are as long as planned; tiles have
            // rows of their own.
            unsafe { head.tile(tile / per_head, tile % per_head) };
        }
    });
}

/// One thread's work on one head after the other.
struct Head<'a> {
    isa: Isa,
    step: &'a AttentionStep,
    memory: &'a Memory,
    format: MatmulFormat,
    /// As [`scratch_lens`] has them.
    parts: [*mut f32; 4],
    packed: Option<usize>,
}

impl<'a> Head<'a> {
    fn new(
        step: &'a AttentionStep,
        format: MatmulFormat,
        &Context { isa, memory, .. }: &Context<'a>,
        scratch: *mut f32,
    ) -> Self {
        let mut start = scratch;
        let parts = scratch_lens(isa, step, format.layout).map(|len| {
            let part = start;
            start = start.wrapping_add(len);
            part
        });
        Self {
            isa,
            step,
            memory,
            format,
            parts,
            packed: None,
        }
    }

    /// Puts keys and values of head `head` in order for the micro-kernel.
    ///
    /// # Safety
    ///
    /// Scratch must be as long as [`scratch_lens`] says.
    unsafe fn pack(&mut self, head: usize) {
        if self.packed.replace(head) == Some(head) {
            return;
        }
        let [_, n, d, e] = self.step.extents();
        let (k, v) = (&self.step.k, &self.step.v);
        let start = |view: &View| {
            let offset = view.batch_offset(head);
            self.memory.f32(view).wrapping_offset(offset).cast_const()
        };
        let (key_stride, inner_stride) = k.matrix_strides();
        let [keys, values, ..] = self.parts;
        let [keys_len, values_len, ..] = scratch_lens(self.isa, self.step, self.format.layout);
        // SAFETY: the views have these extents; the parts of scratch are disjoint and long enough.
        unsafe {
            let keys = std::slice::from_raw_parts_mut(keys, keys_len);
            self.pack_matrix(start(k), (inner_stride, key_stride), (d, n), keys);
            let values = std::slice::from_raw_parts_mut(values, values_len);
            self.pack_matrix(start(v), v.matrix_strides(), (n, e), values);
        }
    }

    /// Packs a matrix of some depth and columns, whose elements lie these strides apart.
    ///
    /// # Safety
    ///
    /// `source` must be readable at all those positions.
    unsafe fn pack_matrix(
        &self,
        source: *const f32,
        strides: (isize, isize),
        extents: (usize, usize),
        packed: &mut [f32],
    ) {
        // SAFETY: forwarded.
        unsafe {
            match self.format.layout {
                #[cfg(target_arch = "x86_64")]
                PackedLayout::Bf16Dot => pack_pairs(self.isa, source, strides, extents, packed),
                _ => pack(self.isa, source, strides, extents, packed),
            }
        }
    }

    /// Computes tile `tile` of the rows of head `head`.
    ///
    /// # Safety
    ///
    /// As [`Head::pack`], and nobody else writes these rows.
    unsafe fn tile(&mut self, head: usize, tile: usize) {
        let (isa, step) = (self.isa, self.step);
        let [m, n, d, e] = step.extents();
        let first = tile * ROWS;
        let rows = match tile + 1 == tiles(m) {
            true => m - first,
            false => ROWS,
        };
        let row_of = |view: &View| {
            let (row_stride, _) = view.matrix_strides();
            let offset = view.batch_offset(head) + first as isize * row_stride;
            self.memory.f32(view).wrapping_offset(offset)
        };
        let (q, y) = (row_of(&step.q), row_of(&step.y));
        let mask = match step.mask.view() {
            Some(view) => (row_of(view).cast_const(), view.matrix_strides().0),
            None => (std::ptr::null(), 0),
        };
        // SAFETY: forwarded; the views have these extents.
        unsafe { self.pack(head) };
        let [keys, values, scores, queries] = self.parts;
        let stride = n.next_multiple_of(isa.lanes()) as isize;
        let (q_stride, y_stride) = (step.q.matrix_strides().0, step.y.matrix_strides().0);
        let mut sums = [0.0f32; MOST_ROWS];
        let sums = &mut sums[..rows];
        let tile = &Scores {
            first: scores,
            stride,
            n,
            scale: step.scale,
            masked: step.masked,
            mask,
            hidden: match step.mask {
                Mask::Seen { hidden, .. } => Some(hidden),
                Mask::None | Mask::Added(_) => None,
            },
        };
        // SAFETY: the scores are this task's; the views have these extents and unit stride along
        // their last axes by the step's contract.
        unsafe {
            let q = match self.format.layout {
                PackedLayout::Bf16Dot => {
                    let row = 2 * self.format.layout.words(d) as isize;
                    narrow_rows(isa, (q, q_stride), (queries.cast(), row), (rows, d));
                    Rows::narrow(queries, row)
                }
                _ => Rows::wide(q, q_stride),
            };
            self.gemm(q, keys, (scores, stride), [rows, d, n]);
            dispatch!(isa, powers(tile: &Scores, sums: &mut [f32]) => (tile, sums));
            let starts = |first: *mut f32, stride: isize| {
                let starts: [*mut f32; MOST_ROWS] =
                    std::array::from_fn(|row| first.wrapping_offset(row as isize * stride));
                starts
            };
            let powers = match self.format.layout {
                PackedLayout::Bf16Dot => {
                    let narrow = (scores.cast(), 2 * stride);
                    narrow_rows(isa, (scores, stride), narrow, (rows, n));
                    Rows::narrow(scores, 2 * stride)
                }
                _ => {
                    if self.format.rounded_left {
                        round_rows(isa, &starts(scores, stride)[..rows], n);
                    }
                    Rows::wide(scores, stride)
                }
            };
            self.gemm(powers, values, (y, y_stride), [rows, n, e]);
            let result = (y, y_stride, e);
            dispatch!(isa, divide(result: (*mut f32, isize, usize), sums: &[f32]) => (result, sums));
            if self.format.rounds_result {
                round_rows(isa, &starts(y, y_stride)[..rows], e);
            }
        }
    }

    /// `y[rows, columns] = x[rows, depth] packed[depth, columns]`.
    ///
    /// # Safety
    ///
    /// The pointers must be valid for these shapes, `y` writable, and `packed` packed for this
    /// instruction set.
    unsafe fn gemm(
        &self,
        x: Rows,
        packed: *mut f32,
        (y, y_stride): (*mut f32, isize),
        [rows, depth, columns]: [usize; 3],
    ) {
        let product = Gemm {
            x: x.first,
            x_format: x.format,
            x_stride: x.stride,
            y,
            y_stride,
            residual: std::ptr::null(),
            residual_stride: 0,
            m: rows,
            k: depth,
            n: columns,
            layout: self.format.layout,
            epilogue: TileEpilogue::none(self.isa),
        };
        for panel in panels(self.isa, columns) {
            // SAFETY: guaranteed by the caller.
            unsafe { gemm_panel(self.isa, &product, packed, panel, (0, rows)) };
        }
    }
}

/// The left operand of a product.
struct Rows {
    first: *const f32,
    format: FloatFormat,
    /// Elements from one row to the next.
    stride: isize,
}

impl Rows {
    /// Rows of f32.
    fn wide(first: *const f32, stride: isize) -> Self {
        let format = FloatFormat::F32;
        Self {
            first,
            format,
            stride,
        }
    }

    /// Rows of bf16.
    fn narrow(first: *const f32, stride: isize) -> Self {
        let format = FloatFormat::Bf16;
        Self {
            first,
            format,
            stride,
        }
    }
}

/// A tile of scores.
struct Scores {
    first: *mut f32,
    /// Elements from one row to the next.
    stride: isize,
    /// Columns.
    n: usize,
    scale: f32,
    /// Rows of nothing but minus infinity have no weights.
    masked: bool,
    /// First row, if any, and elements from one row to the next.
    mask: (*const f32, isize),
    /// What scores become where the mask is zero; without it the mask is added.
    hidden: Option<f32>,
}

/// Powers of the scores after scale and mask, and the sum of every row.
#[inline(always)]
unsafe fn powers<S: Simd>(tile: &Scores, sums: &mut [f32]) {
    for (row, sum) in sums.iter_mut().enumerate() {
        let start = tile.first.wrapping_offset(row as isize * tile.stride);
        let (mask, mask_stride) = tile.mask;
        // SAFETY: the caller vouches for `n` elements of every row and for the instruction set.
        unsafe {
            let values = std::slice::from_raw_parts_mut(start, tile.n);
            let mut scale = tile.scale;
            if !mask.is_null() {
                let mask = mask.wrapping_offset(row as isize * mask_stride);
                mask_row::<S>(values, mask, scale, tile.hidden);
                scale = 1.0;
            }
            let greatest = row_max::<S>(values);
            if tile.masked && all_hidden(values, greatest) {
                values.fill(0.0);
                *sum = 1.0;
                continue;
            }
            *sum = exp_row::<S>(values, greatest, scale);
        }
    }
}

/// Scales a row of scores and adds its mask, or hides what the mask says.
#[inline(always)]
unsafe fn mask_row<S: Simd>(values: &mut [f32], mask: *const f32, scale: f32, hidden: Option<f32>) {
    let (row, len) = (values.as_mut_ptr(), values.len());
    // SAFETY: the caller vouches for as many elements of the mask and for the instruction set.
    unsafe {
        let scale = S::splat(scale);
        partial_vectors!(S, len, (at, _p, n) => {
            let v = load_or::<S>(row.add(at), n, 0.0);
            let m = load_or::<S>(mask.add(at), n, 0.0);
            let v = match hidden {
                None => S::fma(v, scale, m),
                Some(hidden) => {
                    S::select_less(S::splat(0.0), m, S::mul(v, scale), S::splat(hidden))
                }
            };
            match n == S::LANES {
                true => S::store(row.add(at), v),
                false => S::store_first(row.add(at), v, n),
            }
        });
    }
}

/// Divides rows of `y`, a start, a stride and a width, by their sums.
#[inline(always)]
unsafe fn divide<S: Simd>((y, stride, width): (*mut f32, isize, usize), sums: &[f32]) {
    for (row, sum) in sums.iter().enumerate() {
        let start = y.wrapping_offset(row as isize * stride);
        // SAFETY: the caller vouches for `width` elements of every row and for the instruction
        // set.
        unsafe {
            let values = std::slice::from_raw_parts_mut(start, width);
            math::scale::<S>(values, 1.0 / sum);
        }
    }
}

/// Attention, some rows of scores at a time.
pub(crate) struct Attention {
    step: AttentionStep,
    format: MatmulFormat,
}

impl Kernel<AttentionStep> for Attention {
    fn prepare(problem: &Problem<'_, AttentionStep>) -> Result<Self, QuantError> {
        Ok(Self {
            step: problem.step.clone(),
            format: problem.format,
        })
    }
}

impl PreparedStep for Attention {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run(&self.step, self.format, c);
        Ok(())
    }

    fn operands(&self) -> &'static str {
        operands_of_computed(self.format)
    }

    fn variant(&self) -> &'static str {
        match self.format.layout {
            PackedLayout::Bf16Dot => "dot",
            _ => "",
        }
    }

    fn workspace_size(&self, cpu: Cpu<'_>) -> WorkspaceSize {
        let lens = scratch_lens(cpu.isa, &self.step, self.format.layout);
        WorkspaceSize::scratch(lens.iter().sum())
    }

    fn rounds_results(&self) -> bool {
        true
    }
}
