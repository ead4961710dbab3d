//! Convolution and GEMM of bytes as a prepared step.
//!
//! ```text
//! known weights, known numbers    packed and listed at load
//! computed weights                packed at every run, once per picture that has its own
//! computed numbers                lists made at every run
//! then                            tile after tile, rows and panels shared out between threads
//! ```
//!
//! What is computed goes into the scratch that all threads share: running takes no memory.

#![allow(
    unsafe_code,
    reason = "moves pointers through views that the plan has checked"
)]

use spark_gemm::int8::{Int8Instructions, Int8Layout, Int8Weights as Packed8};
use spark_gemm::{TileEpilogue, WeightMemory, WeightShape, panels, panels_of_part};
use spark_quant::QuantError;

use super::image::{Job, Picture, Results};
use super::lists::{ListLens, ListMemory, Lists, OwnLists, Values, byte_kind};
use crate::DType;
use crate::cpu::math;
use crate::cpu::matmul::format::MatmulFormat;
use crate::cpu::memory::Memory;
use crate::cpu::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::Isa;
use crate::cpu::weight_store::{Packed, PackedBytes};
use crate::cpu::workspace::WorkspaceSize;
use crate::plan::{
    Activation, ComputedQuantisation, Int8Step, Int8Weights, LoweredStep, Quantisation, View,
    Weights,
};

/// Rows of one thread's share: small enough that its part of the picture stays in the L2 cache.
const ROWS_PER_TASK: usize = 192;
/// Tasks per thread where panels are shared out.
const TASKS_PER_THREAD: usize = 4;
/// Least rows of a share: fewer are not worth handing over.
const LEAST_ROWS: usize = 32;

impl PackedBytes for Packed8<'static> {
    fn packed_bytes(&self) -> usize {
        self.size_bytes()
    }
}

/// The kernel of a product of bytes.
pub(crate) struct Int8Product {
    /// Without its weights.
    step: Int8Step,
    layout: Int8Layout,
    lens: ListLens,
    weights: Option<Packed<Packed8<'static>>>,
    lists: Option<OwnLists>,
    /// Bytes from a pixel's first tap to each tap.
    tap_offsets: Vec<isize>,
}

/// The layout of a step's weights; lowering refuses those that are too deep.
fn layout_of(isa: Isa, step: &Int8Step) -> Int8Layout {
    let shape = WeightShape {
        groups: step.groups(),
        taps: step.taps(),
        depth: step.in_per_group(),
    };
    let instructions = Int8Instructions::best(isa);
    let columns = step.out_per_group();
    match Int8Layout::new(instructions, shape, columns, byte_kind(step.w_type)) {
        Ok(layout) => layout,
        Err(error) => unreachable!("refused when the step was made: {error}"),
    }
}

/// A float that holds a byte of either kind, as the byte.
fn byte(value: f32) -> u8 {
    value as i32 as u8
}

/// Packs weights that are known at load into `memory`.
fn packed(
    layout: Int8Layout,
    weights: &Weights,
    memory: &WeightMemory,
    cpu: Cpu<'_>,
) -> Packed8<'static> {
    let rows = weights.taps * weights.in_per_group;
    let write = |group, columns, to: &mut [u8], width: usize| {
        let mut floats = vec![0.0; rows * width];
        weights.write(group, columns, &mut floats, width);
        for (to, &value) in to.iter_mut().zip(&floats) {
            *to = byte(value);
        }
    };
    layout.pack(write, memory, cpu.pool)
}

impl Kernel<Int8Step> for Int8Product {
    fn packing_bytes(problem: &Problem<'_, Int8Step>) -> usize {
        let (step, cpu) = (problem.step, problem.cpu);
        let layout = layout_of(cpu.isa, step);
        let lens = ListLens::of(step, cpu.isa.lanes());
        let threads = cpu.pool.threads();
        // Rows of a panel are made as floats before they are bytes.
        let rows = step.taps().saturating_mul(step.in_per_group());
        let panel = spark_gemm::max_panel(cpu.isa) * cpu.isa.lanes();
        let floats = rows.saturating_mul(panel * size_of::<f32>());
        match step.weights {
            Int8Weights::Known(_) => layout
                .packing_bytes(threads)
                .and_then(|bytes| bytes.checked_add(floats.checked_mul(threads)?))
                .and_then(|bytes| bytes.checked_add(lens.words().checked_mul(8)?))
                .unwrap_or(usize::MAX),
            Int8Weights::Computed { .. } => 0,
        }
    }

    fn prepare(problem: &Problem<'_, Int8Step>) -> Result<Self, QuantError> {
        let (step, cpu) = (problem.step, problem.cpu);
        let layout = layout_of(cpu.isa, step);
        let lens = ListLens::of(step, cpu.isa.lanes());
        let weights = match &step.weights {
            Int8Weights::Computed { .. } => None,
            Int8Weights::Known(weights) => {
                let key = (MatmulFormat::F32, 0..weights.out_per_group);
                let pack = |memory: &WeightMemory| Ok(packed(layout, weights, memory, cpu));
                Some(problem.packing.packed("int8", weights, key, pack)?)
            }
        };
        let lists = match (&weights, &step.quantisation) {
            (Some(weights), Quantisation::Known(known)) => {
                let x_kind = byte_kind(step.x_type);
                Some(OwnLists::new(lens, weights, x_kind, &Values::known(known)))
            }
            _ => None,
        };
        let Int8Step { window, x, .. } = step;
        let tap_offsets = (0..step.taps()).map(|tap| {
            let (ky, kx) = (tap / window.kernel[1], tap % window.kernel[1]);
            (ky * window.dilation[0]) as isize * x.axes[2].stride
                + (kx * window.dilation[1]) as isize * x.axes[3].stride
        });
        let tap_offsets = tap_offsets.collect();
        let mut step = step.clone();
        step.forget_weights();
        Ok(Self {
            step,
            layout,
            lens,
            weights,
            lists,
            tap_offsets,
        })
    }
}

impl PreparedStep for Int8Product {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        let step = &self.step;
        let pictures = step.y.axes[0].extent;
        let known = self.weights.as_deref();
        let shared = c.scratch.shared;
        // The lists come behind the packed weights.
        let of_lists = shared.wrapping_add(self.weights_len());
        if let (Some(weights), Some(lists)) = (known, &self.lists) {
            self.multiply(c, weights, lists.lists(), 0..pictures);
            return Ok(());
        }
        if let Some(weights) = known {
            let lists = self.computed_lists(c, weights, of_lists);
            self.multiply(c, weights, lists, 0..pictures);
            return Ok(());
        }
        let Int8Weights::Computed { view, .. } = &step.weights else {
            unreachable!("weights that are known are packed")
        };
        let alike = view.axes[0].extent == 1 || view.axes[0].stride == 0;
        let runs = if alike { 1 } else { pictures };
        for run in 0..runs {
            // SAFETY: the scratch has as many elements for all threads, of which this one alone uses these; it
            // was set when it was taken.
            let memory = unsafe { std::slice::from_raw_parts_mut(shared, self.weights_len()) };
            let weights = self.pack_computed(c.memory, view, run, memory);
            let lists = self.computed_lists(c, &weights, of_lists);
            let which = if alike { 0..pictures } else { run..run + 1 };
            self.multiply(c, &weights, lists, which);
        }
        Ok(())
    }

    fn operands(&self) -> &'static str {
        super::operands_of(&self.step)
    }

    fn variant(&self) -> &'static str {
        match self.layout.instructions().name() {
            "avx-vnni" | "avx512-vnni" => "vnni",
            "neon-dot" => "dot",
            "neon-i8mm" => "mmla",
            _ => "",
        }
    }

    fn weight_bytes(&self) -> usize {
        let weights = self.weights.as_ref().map_or(0, |w| w.packed_bytes());
        weights + self.lists.as_ref().map_or(0, OwnLists::size_bytes)
    }

    fn workspace_size(&self, _: Cpu<'_>) -> WorkspaceSize {
        let lists = match self.lists {
            Some(_) => 0,
            None => self.lens.words() + self.value_words(),
        };
        WorkspaceSize {
            scratch: 0,
            shared: self.weights_len() + lists,
        }
    }
}

impl Int8Product {
    /// Words of scratch that computed weights are packed into.
    fn weights_len(&self) -> usize {
        match self.weights {
            Some(_) => 0,
            None => self.layout.memory_len().unwrap_or(usize::MAX),
        }
    }

    /// Words of scratch for computed numbers before they are lists: zero points, biases and multipliers.
    fn value_words(&self) -> usize {
        3 * self.step.y.axes[1].extent
    }

    /// Packs the weights of picture `run`.
    fn pack_computed<'m>(
        &self,
        memory: &Memory,
        view: &View,
        run: usize,
        to: &'m mut [f32],
    ) -> Packed8<'m> {
        let step = &self.step;
        let stride = |axis: usize| view.axes[axis].stride;
        let depth = step.in_per_group();
        let columns_of_group = step.out_per_group();
        let kernel = step.window.kernel;
        // Where a weight is, counted from the first of the view.
        let place = |group: usize, row: usize, column: usize| {
            let (tap, channel) = (row / depth, row % depth);
            let (ky, kx) = (tap / kernel[1], tap % kernel[1]);
            let filter = group * columns_of_group + column;
            run as isize * stride(0)
                + filter as isize * stride(1)
                + channel as isize * stride(2)
                + ky as isize * stride(3)
                + kx as isize * stride(4)
        };
        let is_bytes = memory.storage(view).is_byte();
        let (bytes, floats) = (memory.bytes(view).cast_const(), memory.f32(view));
        let write = |group: usize, columns: std::ops::Range<usize>, to: &mut [u8], width: usize| {
            for (row, to) in to.chunks_exact_mut(width.max(1)).enumerate() {
                let to = &mut to[..columns.len()];
                let first = place(group, row, columns.start);
                // SAFETY: the view was checked at load, and has all weights.
                unsafe {
                    match (is_bytes, stride(1)) {
                        (true, 1) => {
                            let from = bytes.wrapping_offset(first);
                            to.copy_from_slice(std::slice::from_raw_parts(from, to.len()));
                        }
                        (true, apart) => {
                            for (column, to) in to.iter_mut().enumerate() {
                                *to = *bytes.wrapping_offset(first + column as isize * apart);
                            }
                        }
                        (false, apart) => {
                            for (column, to) in to.iter_mut().enumerate() {
                                let at = first + column as isize * apart;
                                *to = byte(*floats.wrapping_offset(at));
                            }
                        }
                    }
                }
            }
        };
        self.layout.pack_into(write, to)
    }

    /// The lists of numbers that are computed, or of computed weights, in the words from `to` on.
    fn computed_lists<'c>(
        &self,
        c: &Context<'c>,
        weights: &Packed8<'_>,
        to: *mut f32,
    ) -> Lists<'c> {
        let x_kind = byte_kind(self.step.x_type);
        // SAFETY: the scratch has as many words for all threads, set when they were taken, of which this thread
        // alone uses these.
        let memory = unsafe { ListMemory::in_words(to, self.lens) };
        let values = match &self.step.quantisation {
            Quantisation::Known(known) => Values::known(known),
            Quantisation::Computed(computed) => {
                let words = to.wrapping_add(self.lens.words());
                self.computed_values(c.memory, computed, words)
            }
        };
        self.lens.write(weights, x_kind, &values, memory)
    }

    /// Numbers that are computed, in the words from `to` on.
    fn computed_values<'c>(
        &self,
        memory: &'c Memory,
        computed: &ComputedQuantisation,
        to: *mut f32,
    ) -> Values<'c> {
        let most = self.step.y.axes[1].extent;
        // SAFETY: as for the lists, behind them.
        let (w_zero, bias, multipliers) = unsafe {
            (
                std::slice::from_raw_parts_mut(to.cast::<i32>(), most),
                std::slice::from_raw_parts_mut(to.wrapping_add(most).cast::<i32>(), most),
                std::slice::from_raw_parts_mut(to.wrapping_add(2 * most), most),
            )
        };
        let float = |view: &View, index: usize| {
            let stride = view.axes.last().map_or(0, |axis| axis.stride);
            // SAFETY: the view was checked at load; a list has one value or one per channel.
            unsafe { *memory.f32(view).wrapping_offset(index as isize * stride) }
        };
        let x_zero = computed.x_zero.as_ref().map_or(0.0, |view| float(view, 0)) as i32;
        let w_zero_len = computed.w_zero.as_ref().map_or(0, View::len);
        for (index, to) in w_zero[..w_zero_len].iter_mut().enumerate() {
            *to = computed
                .w_zero
                .as_ref()
                .map_or(0.0, |view| float(view, index)) as i32;
        }
        let bias_len = computed.bias.as_ref().map_or(0, View::len);
        for (index, to) in bias[..bias_len].iter_mut().enumerate() {
            *to = computed.bias.as_ref().map_or(0, |view| {
                let stride = view.axes.last().map_or(0, |axis| axis.stride);
                // SAFETY: the view was checked at load; it has one value per channel.
                unsafe { *memory.i64(view).wrapping_offset(index as isize * stride) as i32 }
            });
        }
        let multipliers_len = match &computed.scales[..] {
            [x, w, y] => {
                for (index, to) in multipliers[..w.len()].iter_mut().enumerate() {
                    *to = float(x, 0) * float(w, index) / float(y, 0);
                }
                w.len()
            }
            _ => 0,
        };
        Values {
            x_zero,
            w_zero: &w_zero[..w_zero_len],
            bias: &bias[..bias_len],
            multipliers: &multipliers[..multipliers_len],
            float_bias: &[],
        }
    }

    /// What results are, from the first one on.
    fn results(&self, memory: &Memory) -> Results {
        let step = &self.step;
        let (least, greatest) = match step.y_type {
            DType::I8 => (-128, 127),
            _ => (0, 255),
        };
        match step.y_type {
            DType::I8 | DType::U8 => {
                let (zero, bounds) = match &step.quantisation {
                    Quantisation::Known(known) => (known.y_zero, known.bounds),
                    Quantisation::Computed(computed) => {
                        // SAFETY: the view was checked at load, and has one value.
                        let zero = computed
                            .y_zero
                            .as_ref()
                            .map_or(0.0, |view| unsafe { *memory.f32(view) });
                        (zero as i32, (least, greatest))
                    }
                };
                Results::Bytes(memory.bytes(&step.y), zero, bounds)
            }
            DType::F32 => Results::Floats(memory.f32(&step.y)),
            _ => Results::Sums(memory.i64(&step.y)),
        }
    }

    /// Multiplies the pictures `which` by `weights`.
    fn multiply(
        &self,
        c: &Context<'_>,
        weights: &Packed8<'_>,
        lists: Lists<'_>,
        which: std::ops::Range<usize>,
    ) {
        let Context {
            isa, memory, pool, ..
        } = *c;
        let step = &self.step;
        let (groups, columns) = (step.groups(), step.out_per_group());
        let [_, _, height, width] = std::array::from_fn(|a| step.y.axes[a].extent);
        let pixels = height * width;
        let n = which.len();
        if n * groups * pixels * columns == 0 {
            return;
        }
        // Many pixels are shared out by rows, few by panels of channels.
        let by_rows = pixels.div_ceil(ROWS_PER_TASK);
        let n_panels = panels(isa, columns).count();
        let split_panels = by_rows * n * groups < pool.threads() && n_panels > 1;
        let panel_parts = match split_panels {
            true => n_panels.min(TASKS_PER_THREAD * pool.threads()),
            false => 1,
        };
        let row_parts = match split_panels {
            true => by_rows,
            false => by_rows.max((2 * pool.threads()).min(pixels.div_ceil(LEAST_ROWS))),
        };
        let stride = |view: &View, axis: usize| view.axes[axis].stride;
        let whole = &Picture {
            x: memory.bytes(&step.x),
            x_kind: byte_kind(step.x_type),
            x_strides: [stride(&step.x, 2), stride(&step.x, 3)],
            results: self.results(memory),
            y_strides: [stride(&step.y, 2), stride(&step.y, 3)],
            extent: [
                step.x.axes[2].extent as isize,
                step.x.axes[3].extent as isize,
            ],
            width,
            window: step.window,
            outside: lists.outside(),
        };
        let apart = whole.apart(height);
        let activation = match &step.quantisation {
            Quantisation::Known(known) => known.activation,
            Quantisation::Computed(_) => Activation::None,
        };
        let activation = math::activation(activation);
        pool.run(n * groups * row_parts * panel_parts, |task| {
            let (rest, panel_part) = (task / panel_parts, task % panel_parts);
            let (rest, row_part) = (rest / row_parts, rest % row_parts);
            let (picture, group) = (which.start + rest / groups, rest % groups);
            let first = pixels * row_part / row_parts;
            let last = pixels * (row_part + 1) / row_parts;
            let x_offset = picture as isize * stride(&step.x, 0);
            let y_offset = picture as isize * stride(&step.y, 0) + (group * columns) as isize;
            let part = Picture {
                x: whole
                    .x
                    .wrapping_offset(x_offset)
                    .wrapping_add(group * step.in_per_group()),
                results: match whole.results {
                    Results::Sums(y) => Results::Sums(y.wrapping_offset(y_offset)),
                    Results::Bytes(y, zero, bounds) => {
                        Results::Bytes(y.wrapping_offset(y_offset), zero, bounds)
                    }
                    Results::Floats(y) => Results::Floats(y.wrapping_offset(y_offset)),
                },
                ..*whole
            };
            for panel in panels_of_part(isa, columns, (panel_part, panel_parts)) {
                let job = Job {
                    picture: &part,
                    apart,
                    tap_offsets: &self.tap_offsets,
                    panel: weights.panel_of(group, panel),
                    column: panel.column,
                    group,
                    lists,
                    epilogue: TileEpilogue {
                        activation,
                        ..TileEpilogue::none(isa)
                    },
                };
                // SAFETY: views were checked at load and channel strides are 1 by the step's
                // contract; every task writes its own pixels and channels.
                unsafe { job.run(first, last) };
            }
        });
    }
}
