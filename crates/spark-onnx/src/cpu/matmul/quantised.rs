//! GEMM whose weights have eight or four bits.
//!
//! ```text
//! weights      [out][tap][channels]  -> E4M3, one scale per output channel, or NVFP4     at load
//! activations  [pixel][channels]     -> quantised and back (or left alone)               per run
//! task         some rows: patches [row][tap][channels], unless rows lie as they are needed
//!              for panel: codes -> f32 panel (`panels`), rows times panel (`gemm`)
//! ```
//!
//! Both sides hold exactly the values a tensor core would be given: E4M3 activations share one
//! scale per tensor, NVFP4 ones have a scale per 16 channels of a pixel and one per tensor, which follows
//! the largest magnitude unless a calibration has fixed it; both sides are `spark-quant`'s, to the last bit. Products and sums are f32 in the order of the
//! micro-kernel, where a tensor core has an order of its own.
//!
//! A panel is converted to f32 once for all rows of a task, so that weights take few bytes and the
//! GEMM the time of f32. Deliberately absent: groups and transposed convolutions.

mod panels;

use std::num::NonZeroUsize;
use std::ops::Range;

use spark_gemm::{
    FloatFormat, Gemm, PackedLayout, Panel, TileEpilogue, gemm_panel, panels, panels_of_part,
};
use spark_quant::{ExecutionPolicy, QuantError, Quantizer, Recipe};

use super::gemm::TASKS_PER_THREAD;
use super::geometry::{Geometry, Place, even_stride, index_of};
use super::rounded_operand::RoundedOperand;
use crate::cpu::math;
use crate::cpu::memory::AlignedF32;
use crate::cpu::prepared::{Context, Cpu, Problem};
use crate::cpu::simd::Isa;
use crate::cpu::weight_store::Packed;
use crate::plan::{Epilogue, Step, View, Weights};
use crate::precision::recipes::GemmRecipes;
use panels::CodedPanels;

/// Elements of a task's rows: a part of an L2 cache.
const ROW_ELEMENTS: usize = 96 << 10;
/// Fewest rows of a task: a panel converted for fewer would cost as much as its products.
const LEAST_ROWS: usize = 64;
/// Most rows of a task.
const MOST_ROWS: usize = 512;

/// A linear or convolution step with packed weights.
pub(crate) struct PreparedQuantised {
    weights: Packed<CodedPanels>,
    /// Padded to whole vectors.
    bias: Option<AlignedF32>,
    /// What activations go through.
    activations: Option<RoundedOperand>,
    rounds_result: bool,
    geometry: Geometry,
    /// Whether patches are gathered, or rows are used where they lie.
    gathers: bool,
}

impl PreparedQuantised {
    /// Packs the weights of `step`, if it is one that can be computed here.
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`].
    pub(crate) fn new<S>(problem: &Problem<'_, S>) -> Option<Result<Self, QuantError>> {
        let (cpu, format) = (problem.cpu, problem.format);
        let isa = cpu.isa;
        let recipes = GemmRecipes::of(format.precision, problem.arithmetic.activations)?;
        let (geometry, weights, epilogue) = match problem.whole {
            Step::Conv(s) => (Geometry::of_conv(s), &s.weights, &s.epilogue),
            Step::Linear(s) => (Geometry::of_linear(s), &s.weights, &s.epilogue),
            _ => return None,
        };
        let form = (format, 0..weights.out_per_group);
        let calibrated = weights.calibrated();
        let coded = problem
            .packing
            .packed("panels", weights, form, |_| match calibrated {
                Some(chosen) => CodedPanels::new(isa, &chosen.packed, extents_of(weights)),
                None => coded(cpu, weights, recipes.weights, format.precision.bits()),
            });
        let coded = match coded {
            Ok(coded) => coded,
            Err(error) => return Some(Err(error)),
        };
        let scale = calibrated.and_then(|chosen| chosen.input_scale);
        // Weights that were chosen for exact inputs get them.
        let is_exact = calibrated.is_some() && scale.is_none();
        let activations = recipes.activations.filter(|_| !is_exact);
        let activations = activations.map(|recipe| RoundedOperand::new(recipe, scale));
        let activations = match activations.transpose() {
            Ok(activations) => activations,
            Err(error) => return Some(Err(error)),
        };
        let columns = weights.out_per_group.next_multiple_of(isa.lanes());
        let bias = epilogue.bias.as_ref();
        Some(Ok(Self {
            weights: coded,
            bias: bias.map(|bias| AlignedF32::padded(bias, columns)),
            activations,
            rounds_result: format.rounds_result,
            gathers: !geometry.is_rows_as_they_are(recipes.activations.is_some()),
            geometry,
        }))
    }

    /// Bytes of codes, scales and bias.
    pub(crate) fn weight_bytes(&self) -> usize {
        self.weights.size_bytes() + 4 * self.bias.as_ref().map_or(0, AlignedF32::len)
    }

    /// Types of the operands, for the kernel's name: NVFP4 is `fp4`, E4M3 is `fp8`.
    pub(crate) fn operands(&self) -> &'static str {
        match (&self.activations, self.weights.is_nvfp4()) {
            (Some(_), true) => "fp4",
            (Some(_), false) => "fp8",
            (None, true) => "f32xfp4",
            (None, false) => "f32xfp8",
        }
    }

    /// Elements of scratch a thread needs: a panel, and patches where they are gathered.
    pub(crate) fn scratch_len(&self, isa: Isa) -> usize {
        let patches = match self.gathers {
            true => self.rows_per_task().min(self.geometry.rows()) * self.weights.k(),
            false => 0,
        };
        self.weights.max_panel_len(isa) + patches
    }

    /// Elements of the workspace that all threads share: the whole operand, where it is quantised.
    pub(crate) fn activations_len(&self) -> usize {
        match &self.activations {
            Some(_) => self.geometry.pixels() * self.geometry.channels,
            None => 0,
        }
    }

    /// Rows of a task; the last ones may have fewer.
    fn rows_per_task(&self) -> usize {
        (ROW_ELEMENTS / self.weights.k().max(1)).clamp(LEAST_ROWS, MOST_ROWS)
    }

    /// Runs the step it was prepared for.
    ///
    /// # Errors
    ///
    /// [`QuantError::NotFinite`] if an activation to be quantised is not.
    pub(crate) fn run(&self, step: &Step, context: &Context<'_>) -> Result<(), QuantError> {
        let memory = context.memory;
        let (x, y, epilogue, strides): (_, _, _, fn(&View) -> [isize; 3]) = match step {
            Step::Conv(s) => (&s.x, &s.y, &s.epilogue, |v| {
                [0, 2, 3].map(|a| v.axes[a].stride)
            }),
            Step::Linear(s) => (&s.x, &s.y, &s.epilogue, |v| [0, v.axes[0].stride, 0]),
            _ => return Ok(()),
        };
        let x = Place {
            start: memory.f32(x),
            strides: strides(x),
        };
        let x = match &self.activations {
            Some(rounding) => self.quantise(rounding, &x, context)?,
            None => x,
        };
        let job = Job {
            isa: context.isa,
            prepared: self,
            x,
            y: Place {
                start: memory.f32(y),
                strides: strides(y),
            },
            residual: epilogue.residual.as_ref().map(|view| Place {
                start: memory.f32(view),
                strides: strides(view),
            }),
            epilogue,
        };
        job.run(context);
        Ok(())
    }

    /// The left side as it enters the GEMM, `[pixel][channels]` in the workspace that all
    /// threads share.
    fn quantise(
        &self,
        rounding: &RoundedOperand,
        x: &Place,
        context: &Context<'_>,
    ) -> Result<Place, QuantError> {
        let to = context.scratch.shared;
        let (pixels, channels) = (self.geometry.pixels(), self.geometry.channels);
        let [_, height, width] = self.geometry.input.map(|extent| extent as isize);
        let row = channels as isize;
        // SAFETY: pixels lie inside a view checked at load, whose channels have unit stride by the step's contract; the workspace is
        // as long as all pixels.
        unsafe {
            rounding.round(context.pool, to, [pixels, channels], |pixel| {
                x.at(index_of(pixel, self.geometry.input)).cast_const()
            })?;
        }
        Ok(Place {
            start: to,
            strides: [height * width * row, width * row, row],
        })
    }
}

/// Taps, and inputs of a tap.
fn extents_of(weights: &Weights) -> [usize; 2] {
    [weights.taps, weights.in_per_group]
}

/// Quantises `weights`, which have one group, along the input channels of a tap.
fn coded(
    cpu: Cpu<'_>,
    weights: &Weights,
    recipe: Recipe,
    bits: u32,
) -> Result<CodedPanels, QuantError> {
    let (taps, depth, n) = (weights.taps, weights.in_per_group, weights.out_per_group);
    let padded = CodedPanels::padded(bits, depth);
    let mut rows = vec![0.0; n * taps * padded];
    let values = weights.values();
    for (out, row) in rows.chunks_exact_mut((taps * padded).max(1)).enumerate() {
        for tap in 0..taps {
            for k in 0..depth {
                row[tap * padded + k] = values[(tap * depth + k) * n + out];
            }
        }
    }
    drop(values);
    let threads = cpu.pool.threads();
    let quant_cpu = ExecutionPolicy::detect()
        .with_threads(NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN));
    let packed = Quantizer::new(recipe).quantize(quant_cpu, &rows, &[n, taps * padded], 1)?;
    CodedPanels::new(cpu.isa, &packed, extents_of(weights))
}

/// One run of a step.
struct Job<'a> {
    isa: Isa,
    prepared: &'a PreparedQuantised,
    x: Place,
    y: Place,
    residual: Option<Place>,
    epilogue: &'a Epilogue,
}

impl Job<'_> {
    fn run(&self, context: &Context<'_>) {
        let (pool, scratch) = (context.pool, context.scratch);
        let (isa, prepared) = (self.isa, self.prepared);
        let m = prepared.geometry.rows();
        let n_panels = panels(isa, prepared.weights.n()).count();
        let row_parts = m.div_ceil(prepared.rows_per_task());
        // Few rows are shared out by panels.
        let panel_parts = match row_parts < pool.threads() {
            true => n_panels.min(TASKS_PER_THREAD * pool.threads()).max(1),
            false => 1,
        };
        pool.run_in_slots(row_parts * panel_parts, |slot, task| {
            let (row_part, panel_part) = (task / panel_parts, task % panel_parts);
            let rows = m * row_part / row_parts..m * (row_part + 1) / row_parts;
            let part = scratch.part(slot);
            // SAFETY: slots have scratch of their own, of the length asked for; tasks have rows or
            // panels of their own.
            unsafe { self.part(rows, (panel_part, panel_parts), part) };
        });
    }

    /// Some rows of part `share.0` of `share.1` of the panels.
    ///
    /// # Safety
    ///
    /// `scratch` must have [`PreparedQuantised::scratch_len`] elements; rows and panels must not be
    /// computed elsewhere meanwhile.
    unsafe fn part(&self, rows: Range<usize>, share: (usize, usize), scratch: *mut f32) {
        let PreparedQuantised {
            weights, geometry, ..
        } = self.prepared;
        let (k, panel_len) = (weights.k(), weights.max_panel_len(self.isa));
        // SAFETY: as long as the caller says.
        let converted = unsafe { std::slice::from_raw_parts_mut(scratch, panel_len) };
        let patches = scratch.wrapping_add(panel_len);
        if self.prepared.gathers {
            for (i, row) in rows.clone().enumerate() {
                // SAFETY: as above; `x` is where the operand is.
                unsafe {
                    let patch = std::slice::from_raw_parts_mut(patches.add(i * k), k);
                    geometry.gather(&self.x, row, patch);
                }
            }
        }
        for panel in panels_of_part(self.isa, weights.n(), share) {
            weights.convert(self.isa, panel, converted);
            let mut first = rows.start;
            while first < rows.end {
                let last = self.run_end(first, rows.end);
                let x = match self.prepared.gathers {
                    true => (patches.wrapping_add((first - rows.start) * k), k as isize),
                    false => self.evenly(&self.x, first),
                };
                // SAFETY: rows exist in views checked at load, or were just gathered; results
                // have unit channel stride by the step's contract.
                unsafe { self.gemm(x, first..last, panel, converted) };
                first = last;
            }
        }
    }

    /// Where a run of rows that begins at `first` ends: all that is evenly spaced.
    fn run_end(&self, first: usize, last: usize) -> usize {
        let output = self.prepared.geometry.output;
        let is_even = |place: &Place| even_stride(output, place.strides).is_some();
        match is_even(&self.y) && self.residual.as_ref().is_none_or(is_even) {
            true => last,
            false => last.min((first / output[2] + 1) * output[2]),
        }
    }

    /// Row `first` of `place`, and how far apart rows of a run are.
    fn evenly(&self, place: &Place, first: usize) -> (*mut f32, isize) {
        let output = self.prepared.geometry.output;
        let stride = even_stride(output, place.strides).unwrap_or(place.strides[2]);
        (place.at(index_of(first, output)), stride)
    }

    /// A run of rows times one panel converted to f32.
    ///
    /// # Safety
    ///
    /// The rows must exist in operand and result, and not be written elsewhere meanwhile.
    unsafe fn gemm(
        &self,
        (x, x_stride): (*mut f32, isize),
        rows: Range<usize>,
        panel: Panel,
        converted: &[f32],
    ) {
        let prepared = self.prepared;
        let from = |(start, stride): (*mut f32, isize)| (start.wrapping_add(panel.column), stride);
        let (y, y_stride) = from(self.evenly(&self.y, rows.start));
        let (residual, residual_stride) = match &self.residual {
            Some(place) => from(self.evenly(place, rows.start)),
            None => (std::ptr::null_mut(), 0),
        };
        let product = Gemm {
            x: x.cast_const(),
            x_format: FloatFormat::F32,
            x_stride,
            y,
            y_stride,
            residual: residual.cast_const(),
            residual_stride,
            m: rows.len(),
            k: prepared.weights.k(),
            n: prepared.weights.n() - panel.column,
            layout: PackedLayout::F32,
            epilogue: TileEpilogue {
                bias: prepared.bias.as_ref().map_or(std::ptr::null(), |bias| {
                    bias.as_slice()[panel.column..].as_ptr()
                }),
                activation: math::activation(self.epilogue.activation),
                residual_first: self.epilogue.residual_first,
                rounds_to_bf16: prepared.rounds_result,
                ..TileEpilogue::none(self.isa)
            },
        };
        let alone = Panel { column: 0, ..panel };
        // SAFETY: guaranteed by the caller; the panel was converted for this instruction set.
        unsafe {
            gemm_panel(
                self.isa,
                &product,
                converted.as_ptr(),
                alone,
                (0, rows.len()),
            )
        };
    }
}
