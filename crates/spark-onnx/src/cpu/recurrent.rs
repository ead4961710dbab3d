//! RNN, GRU and LSTM cells, one time step after the other.
//!
//! ```text
//! for t:  gates = x W + wb              needs no state
//! for t:  recurrent = h R + rb;  gates, recurrent -> new h (and c)
//! ```
//!
//! Gate order and formulas: ONNX operator specification, GRU-14 (z, r, h), LSTM-14
//! (i, o, f, c), RNN-14.

use spark_gemm::{FloatFormat, Gemm, TileEpilogue};
use spark_quant::QuantError;

use super::math;
use super::matmul::format::{MatmulFormat, bias_packing_bytes};
use super::matmul::gemm::{PackedWeights, run_gemm};
use super::memory::{AlignedF32, Memory};
use super::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use crate::graph::{Cell, Direction, Unary};
use crate::plan::LoweredStep;
use crate::plan::{Axis, RecurrentStep, View};

/// States are fed back, so errors would add up: GEMM are f32.
const F32: MatmulFormat = MatmulFormat::F32;

/// A recurrent step with its weights packed.
struct PreparedRecurrent {
    w: PackedWeights,
    /// All gates; of a GRU that resets before the GEMM, the first two.
    r: PackedWeights,
    /// The third gate of such a GRU.
    r_hidden: Option<PackedWeights>,
    w_bias: AlignedF32,
    r_bias: AlignedF32,
}

impl PreparedRecurrent {
    /// Packs the weights of `step`.
    fn new(problem: &Problem<'_, RecurrentStep>) -> Result<Self, QuantError> {
        let (isa, step) = (problem.cpu.isa, problem.step);
        let width = step.w.out_per_group;
        let hidden = step.h.axes[1].extent;
        let padded = |values: &[f32]| {
            let mut v = AlignedF32::zeros(values.len().next_multiple_of(isa.lanes()));
            v.as_mut_slice()[..values.len()].copy_from_slice(values);
            v
        };
        let resets_first = matches!(
            step.cell,
            Cell::Gru {
                linear_before_reset: false
            }
        );
        let split = if resets_first { 2 * hidden } else { width };
        let of_r = |columns| PackedWeights::columns(problem, &step.r, columns, F32);
        Ok(Self {
            w: PackedWeights::new(problem, &step.w, F32)?,
            r: of_r(0..split)?,
            r_hidden: resets_first
                .then(|| of_r(split..split + hidden))
                .transpose()?,
            w_bias: padded(&step.w_bias),
            r_bias: padded(&step.r_bias),
        })
    }

    /// Bytes of packed weights.
    fn weight_bytes(&self) -> usize {
        let r_hidden = self.r_hidden.as_ref().map_or(0, |r| r.data.len());
        let biases = self.w_bias.len() + self.r_bias.len();
        4 * (self.w.data.len() + self.r.data.len() + r_hidden + biases)
    }

    /// Runs the step.
    fn run(&self, step: &RecurrentStep, context: &Context<'_>) {
        let (cpu, memory) = (context.cpu(), context.memory);
        let (time, batch) = (step.x.axes[0].extent, step.x.axes[1].extent);
        let hidden = step.h.axes[1].extent;
        let width = step.w.out_per_group;
        let gates = memory.f32(&step.gates);
        let recurrent = memory.f32(&step.recurrent);
        let h = memory.f32(&step.h);
        let bias = |b: &AlignedF32| b.as_slice().as_ptr();
        // SAFETY: views were checked at load; gates, recurrent, h and c are dense by the step's contract.
        unsafe {
            initialise(&step.h0, &step.h, memory);
            if let Some(c) = &step.c {
                initialise(&step.c0, c, memory);
            }
            for t in 0..time {
                let x = memory
                    .f32(&step.x)
                    .wrapping_offset(t as isize * step.x.axes[0].stride);
                let rows = (x.cast_const(), step.x.axes[1].stride);
                let to = gates.add(t * batch * width);
                gemm(cpu, rows, (to, width), (batch, &self.w, bias(&self.w_bias)));
            }
            for t in 0..time {
                let t = match step.direction {
                    Direction::Reverse => time - 1 - t,
                    _ => t,
                };
                let rows = (h.cast_const(), hidden as isize);
                let to = (recurrent, width);
                gemm(cpu, rows, to, (batch, &self.r, bias(&self.r_bias)));
                let gates = gates.add(t * batch * width);
                for b in 0..batch {
                    let row = Row {
                        gates: std::slice::from_raw_parts_mut(gates.add(b * width), width),
                        recurrent: std::slice::from_raw_parts_mut(recurrent.add(b * width), width),
                        h: std::slice::from_raw_parts_mut(h.add(b * hidden), hidden),
                        c: step.c.as_ref().map(|c| {
                            let c = memory.f32(c).add(b * hidden);
                            std::slice::from_raw_parts_mut(c, hidden)
                        }),
                    };
                    self.advance(cpu, step, row);
                }
                if let Some(y) = &step.y {
                    let to = memory.f32(y).offset(t as isize * y.axes[0].stride);
                    copy_rows(h, to, (batch, hidden), [y.axes[1], y.axes[2]]);
                }
            }
        }
    }

    /// One sample, one time step.
    ///
    /// # Safety
    ///
    /// The slices must be as long as the step's widths.
    unsafe fn advance(&self, cpu: Cpu<'_>, step: &RecurrentStep, row: Row<'_>) {
        let n = row.h.len();
        let [f, g, out] = step.activations;
        let apply = |op: Unary, x: &mut [f32]| math::apply(cpu.isa, op, x);
        match step.cell {
            Cell::Rnn => {
                add(row.gates, row.recurrent);
                apply(f, row.gates);
                row.h.copy_from_slice(row.gates);
            }
            Cell::Gru {
                linear_before_reset,
            } => {
                let (zr, candidate) = row.gates.split_at_mut(2 * n);
                add(zr, &row.recurrent[..2 * n]);
                apply(f, zr);
                let (z, r) = zr.split_at_mut(n);
                if linear_before_reset {
                    for ((c, &r), &rec) in
                        candidate.iter_mut().zip(&*r).zip(&row.recurrent[2 * n..])
                    {
                        *c += r * rec;
                    }
                } else if let Some(weights) = &self.r_hidden {
                    r.iter_mut().zip(&*row.h).for_each(|(r, &h)| *r *= h);
                    let bias = self.r_bias.as_slice()[2 * n..].as_ptr();
                    // The bias is not padded to a vector from here; add it by hand.
                    let to = (row.recurrent[2 * n..].as_mut_ptr(), n);
                    let from = (r.as_ptr(), n as isize);
                    // SAFETY: `r` and the third part of `recurrent` hold `n` elements.
                    unsafe { gemm(cpu, from, to, (1, weights, std::ptr::null())) };
                    for (i, c) in candidate.iter_mut().enumerate() {
                        // SAFETY: the recurrent bias holds 3 n elements.
                        *c += row.recurrent[2 * n + i] + unsafe { *bias.add(i) };
                    }
                }
                apply(g, candidate);
                for ((h, &z), &c) in row.h.iter_mut().zip(&*z).zip(&*candidate) {
                    *h = (1.0 - z) * c + z * *h;
                }
            }
            Cell::Lstm => {
                let Some(c) = row.c else {
                    return;
                };
                add(row.gates, row.recurrent);
                let (io, fc) = row.gates.split_at_mut(2 * n);
                let (i, o) = io.split_at_mut(n);
                let (forget, candidate) = fc.split_at_mut(n);
                let peephole = step.peephole.as_ref().map(|p| p.chunks_exact(n));
                let [pi, po, pf] = match peephole {
                    Some(mut p) => [p.next(), p.next(), p.next()],
                    None => [None; 3],
                };
                peep(i, pi, c);
                peep(forget, pf, c);
                apply(f, i);
                apply(f, forget);
                apply(g, candidate);
                for k in 0..n {
                    c[k] = forget[k] * c[k] + i[k] * candidate[k];
                }
                peep(o, po, c);
                apply(f, o);
                row.h.copy_from_slice(c);
                apply(out, row.h);
                row.h.iter_mut().zip(&*o).for_each(|(h, &o)| *h *= o);
            }
        }
    }
}

/// What one sample works on.
struct Row<'a> {
    gates: &'a mut [f32],
    recurrent: &'a mut [f32],
    h: &'a mut [f32],
    c: Option<&'a mut [f32]>,
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, &v)| *to += v);
}

fn peep(gate: &mut [f32], weights: Option<&[f32]>, cell: &[f32]) {
    if let Some(weights) = weights {
        for ((g, &w), &c) in gate.iter_mut().zip(weights).zip(cell) {
            *g += w * c;
        }
    }
}

/// Copies the first state, or clears it.
///
/// # Safety
///
/// Views must have been checked; `state` is dense.
unsafe fn initialise(first: &Option<View>, state: &View, memory: &Memory) {
    let (rows, width) = (state.axes[0].extent, state.axes[1].extent);
    // SAFETY: guaranteed by the caller.
    unsafe {
        match first {
            Some(x) => {
                for r in 0..rows {
                    for i in 0..width {
                        let from = r as isize * x.axes[0].stride + i as isize * x.axes[1].stride;
                        *memory.f32(state).add(r * width + i) = *memory.f32(x).offset(from);
                    }
                }
            }
            None => std::slice::from_raw_parts_mut(memory.f32(state), state.len()).fill(0.0),
        }
    }
}

/// Copies dense rows to a view of two axes.
///
/// # Safety
///
/// Both must be valid for `rows * width` elements and not overlap.
unsafe fn copy_rows(x: *const f32, y: *mut f32, (rows, width): (usize, usize), axes: [Axis; 2]) {
    for r in 0..rows {
        for i in 0..width {
            let to = r as isize * axes[0].stride + i as isize * axes[1].stride;
            // SAFETY: guaranteed by the caller.
            unsafe { *y.offset(to) = *x.add(r * width + i) };
        }
    }
}

/// `to = x * weights + bias` for `m` rows.
///
/// # Safety
///
/// Pointers must be valid for the shapes; `bias` null or padded to whole vectors.
unsafe fn gemm(
    cpu: Cpu<'_>,
    (x, x_stride): (*const f32, isize),
    (y, y_stride): (*mut f32, usize),
    (m, weights, bias): (usize, &PackedWeights, *const f32),
) {
    let product = Gemm {
        x,
        x_format: FloatFormat::F32,
        x_stride,
        y,
        y_stride: y_stride as isize,
        residual: std::ptr::null(),
        residual_stride: 0,
        m,
        k: weights.k,
        n: weights.n,
        layout: weights.layout,
        epilogue: TileEpilogue {
            bias,
            ..TileEpilogue::none(cpu.isa)
        },
    };
    // SAFETY: guaranteed by the caller.
    unsafe { run_gemm(cpu, &product, weights.data.as_slice()) }
}

/// A recurrent network, one time step after the other.
pub(crate) struct Recurrent {
    /// Without its weights.
    step: RecurrentStep,
    prepared: PreparedRecurrent,
}

impl Kernel<RecurrentStep> for Recurrent {
    fn packing_bytes(problem: &Problem<'_, RecurrentStep>) -> usize {
        let (cpu, step) = (problem.cpu, problem.step);
        F32.weights_packing_bytes(cpu, &step.w)
            .saturating_add(F32.weights_packing_bytes(cpu, &step.r))
            .saturating_add(bias_packing_bytes(
                cpu.isa,
                step.w_bias.len() + step.r_bias.len(),
            ))
    }

    fn prepare(problem: &Problem<'_, RecurrentStep>) -> Result<Self, QuantError> {
        let prepared = PreparedRecurrent::new(problem)?;
        let mut step = problem.step.clone();
        step.forget_weights();
        Ok(Self { step, prepared })
    }
}

impl PreparedStep for Recurrent {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        self.prepared.run(&self.step, c);
        Ok(())
    }

    fn weight_bytes(&self) -> usize {
        self.prepared.weight_bytes()
    }
}
