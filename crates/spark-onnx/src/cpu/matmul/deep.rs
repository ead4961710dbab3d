//! GEMM of two computed operands to a small result over many terms: gradients of weights, whose terms are pixels.
//!
//! ```text
//! for part of the depth, shared out between threads:          as many as the shape says, whoever computes them
//!     for block of its rows:  pack b's rows;  partial[part] += a's columns times them
//! y = scale * (partial[0] + partial[1] + ..)
//! ```
//!
//! One thread per column panel would read both operands from memory again and again; here each is read once, a block
//! of rows of `b` stays in the L2 cache, and threads have a share even where the result is one tile. The order of sums follows
//! from the shape alone, so that bits are the same for any number of threads.
//!
//! Deliberately absent: a result that is large itself, which the other kernel shares out by rows and columns, and many products at once.

use spark_gemm::{
    FloatFormat, Gemm, PackedLayout, TileEpilogue, gemm_panel, pack, packed_len, panel_offset,
    panels,
};
use spark_quant::QuantError;

use super::format::MatmulFormat;
use super::gemm::{TASKS_PER_THREAD, operands_of_computed};
use crate::cpu::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::workspace::WorkspaceSize;
use crate::plan::{MatMulStep, View};

/// Terms below which sharing them out gains nothing.
const MIN_DEPTH: usize = 4096;
/// Elements of a result that is still small beside its operands.
const MOST_RESULTS: usize = 32 * 1024;
/// Parts of the depth, more than a machine of this kind has cores, and the terms that one has at least.
const MOST_PARTS: usize = 24;
const PART_DEPTH: usize = 512;
/// Products that come one after the other; of more, the other kernel gives each thread some.
const MOST_BATCHES: usize = 4;
/// Elements of `b` in a block: half of a small L2 cache.
const BLOCK_LEN: usize = 64 * 1024;

/// Extents of one product, and how it is cut.
#[derive(Clone, Copy)]
struct Shape {
    m: usize,
    k: usize,
    n: usize,
    batches: usize,
}

impl Shape {
    fn of(step: &MatMulStep) -> Self {
        let rank = step.y.rank();
        let extent = |view: &View, axis: usize| view.axes[axis].extent;
        Self {
            m: extent(&step.y, rank - 2),
            k: extent(&step.a, rank - 1),
            n: extent(&step.y, rank - 1),
            batches: step.y.axes[..rank - 2].iter().map(|a| a.extent).product(),
        }
    }

    fn parts(self) -> usize {
        (self.k / PART_DEPTH).clamp(1, MOST_PARTS)
    }

    /// Rows of `b` in a block.
    fn block(self) -> usize {
        (BLOCK_LEN / self.n.max(1)).clamp(16, 2048)
    }
}

/// The kernel of such a GEMM.
pub(crate) struct DeepMatMul {
    step: MatMulStep,
    shape: Shape,
    format: MatmulFormat,
}

impl Kernel<MatMulStep> for DeepMatMul {
    fn is_profitable(problem: &Problem<'_, MatMulStep>) -> bool {
        let Shape { m, k, n, batches } = Shape::of(problem.step);
        k >= MIN_DEPTH
            && (1..=MOST_RESULTS).contains(&(m * n))
            && (1..=MOST_BATCHES).contains(&batches)
    }

    fn prepare(problem: &Problem<'_, MatMulStep>) -> Result<Self, QuantError> {
        Ok(Self {
            shape: Shape::of(problem.step),
            step: problem.step.clone(),
            format: problem.format,
        })
    }
}

impl PreparedStep for DeepMatMul {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        for batch in 0..self.shape.batches {
            let [a, b, y] = [&self.step.a, &self.step.b, &self.step.y];
            let [a, b, y] =
                [a, b, y].map(|view| c.memory.f32(view).wrapping_offset(view.batch_offset(batch)));
            self.partial_sums(c, &Shared(a), &Shared(b));
            self.sum(c, &Shared(y));
        }
        Ok(())
    }

    fn operands(&self) -> &'static str {
        operands_of_computed(self.format)
    }

    fn workspace_size(&self, cpu: Cpu<'_>) -> WorkspaceSize {
        let Shape { m, n, .. } = self.shape;
        WorkspaceSize {
            scratch: packed_len(cpu.isa, self.shape.block(), n),
            shared: self.shape.parts() * m * n,
        }
    }

    fn rounds_results(&self) -> bool {
        true
    }
}

/// The first element of an operand or of the result.
struct Shared(*mut f32);

// SAFETY: operands are only read, and tasks write disjoint rows of the result.
unsafe impl Sync for Shared {}

impl DeepMatMul {
    /// Fills the shared memory with the sums of every part.
    fn partial_sums(&self, c: &Context<'_>, a: &Shared, b: &Shared) {
        let (isa, scratch) = (c.isa, c.scratch);
        let Shape { m, k, n, .. } = self.shape;
        let (parts, block) = (self.shape.parts(), self.shape.block());
        let (a_stride, _) = self.step.a.matrix_strides();
        let b_strides = self.step.b.matrix_strides();
        c.pool.run_in_slots(parts, |slot, part| {
            let (first, last) = (k * part / parts, k * (part + 1) / parts);
            let partial = scratch.shared.wrapping_add(part * m * n);
            for start in (first..last).step_by(block) {
                let depth = block.min(last - start);
                let packed = scratch.part(slot);
                let rows = b.0.wrapping_offset(start as isize * b_strides.0);
                let product = Gemm {
                    x: a.0.wrapping_add(start),
                    x_format: FloatFormat::F32,
                    x_stride: a_stride,
                    y: partial,
                    y_stride: n as isize,
                    residual: match start == first {
                        true => std::ptr::null(),
                        false => partial,
                    },
                    residual_stride: n as isize,
                    m,
                    k: depth,
                    n,
                    layout: PackedLayout::F32,
                    epilogue: TileEpilogue::none(isa),
                };
                // SAFETY: views were checked at load, and `a` has unit stride along the depth by the step's contract; the
                // slot's scratch and the part's sums are as long as planned, and nobody else's.
                unsafe {
                    let len = packed_len(isa, depth, n);
                    let to = std::slice::from_raw_parts_mut(packed, len);
                    pack(isa, rows, b_strides, (depth, n), to);
                    for panel in panels(isa, n) {
                        debug_assert!(panel_offset(panel, depth) < len);
                        gemm_panel(isa, &product, packed, panel, (0, m));
                    }
                }
            }
        });
    }

    /// Adds the parts up, in order.
    fn sum(&self, c: &Context<'_>, y: &Shared) {
        let Shape { m, n, .. } = self.shape;
        let parts = self.shape.parts();
        let (stride, _) = self.step.y.matrix_strides();
        let (scale, rounds) = (self.step.scale, self.format.rounds_result);
        let partial = Shared(c.scratch.shared);
        let tasks = m.min(TASKS_PER_THREAD * c.pool.threads());
        c.pool.run(tasks, |task| {
            let partial = &partial;
            for row in m * task / tasks..m * (task + 1) / tasks {
                // SAFETY: a row of the result, which has unit stride by the step's contract and is this task's alone, and
                // rows of sums that nobody writes any more.
                unsafe {
                    let start = y.0.wrapping_offset(row as isize * stride);
                    let to = std::slice::from_raw_parts_mut(start, n);
                    let of_part = |part: usize| {
                        std::slice::from_raw_parts(partial.0.wrapping_add((part * m + row) * n), n)
                    };
                    to.copy_from_slice(of_part(0));
                    for part in 1..parts {
                        to.iter_mut()
                            .zip(of_part(part))
                            .for_each(|(to, v)| *to += v);
                    }
                    if scale != 1.0 {
                        to.iter_mut().for_each(|v| *v *= scale);
                    }
                    if rounds {
                        to.iter_mut()
                            .for_each(|v| *v = half::bf16::from_f32(*v).to_f32());
                    }
                }
            }
        });
    }
}
