//! Programs, copies, fills, gathers and resampling, as `kernels/plan_elements.cu` computes them.

use super::{Launch, Launching, Work, check};
use crate::cuda::blocks::{Shared, Stored};
use crate::cuda::codes::{self, MOST_REGISTERS};
use crate::cuda::refused::Refused;
use crate::cuda::structures::{self, Strided};
use crate::cuda::walk::{Walk, count, product, strides};
use crate::plan::{FillStep, GatherStep, PointwiseStep, ResampleStep, View};

impl Launching<'_> {
    pub(super) fn program(
        &mut self,
        index: usize,
        step: &PointwiseStep,
    ) -> Result<Option<Launch>, Refused> {
        let program = &step.program;
        let n_registers = program.n_registers;
        if n_registers > MOST_REGISTERS {
            let words = format!("a program of {n_registers} registers, at most {MOST_REGISTERS}");
            return Refused::because(words);
        }
        check(
            usize::from(program.result) < n_registers,
            "a program without a result",
        )?;
        let views: Vec<&View> = std::iter::once(&step.y).chain(&step.inputs).collect();
        check(
            views.iter().all(|view| view.rank() == step.y.rank()),
            "operands of other axes",
        )?;
        let walk = Walk::of(&views)?;
        let operands = step.inputs.iter().zip(&walk.strides[1..]);
        let operands = operands.map(|(view, strides)| self.blocks.strided(view, *strides));
        let operands: Vec<_> = operands.collect::<Result<_, _>>()?;
        let instructions = program.instructions.iter();
        let instructions = instructions
            .map(|instruction| codes::instruction(instruction, n_registers, step.inputs.len()));
        let instructions: Vec<_> = instructions.collect::<Result<_, _>>()?;
        let n = walk.shape.n;
        let work = structures::Program {
            shape: walk.shape,
            y: self.blocks.strided(&step.y, walk.strides[0])?,
            operands: self.constants.add_table(self.blocks, &operands)?.offset as u64,
            instructions: self.constants.add_table(self.blocks, &instructions)?.offset as u64,
            n_instructions: count(instructions.len())?,
            result: u32::from(program.result),
            step: count(index)?,
            unused: 0,
        };
        Ok(Launch::of_elements(n, Work::Program(work)))
    }

    /// Element by element from `x` to `y`.
    pub(super) fn copy(&mut self, x: &View, y: &View) -> Result<Option<Launch>, Refused> {
        check(x.rank() == y.rank(), "a copy of other axes")?;
        self.check_alike(x, y)?;
        let walk = Walk::of(&[y, x])?;
        let work = structures::Copy {
            shape: walk.shape,
            x: self.blocks.strided(x, walk.strides[1])?,
            y: self.blocks.strided(y, walk.strides[0])?,
        };
        Ok(Launch::of_elements(walk.shape.n, Work::Copy(work)))
    }

    /// From where input `number` is given to where steps read it; nothing if that is the same.
    pub(in crate::cuda) fn copy_in(&self, number: usize) -> Result<Option<Launch>, Refused> {
        let (view, shared) = (&self.plan.inputs[number].view, &self.blocks.inputs[number]);
        self.transfer(view, shared, |held, given| (given, held))
    }

    /// From where steps leave output `number` to where it is handed out; nothing if that is the same.
    pub(in crate::cuda) fn copy_out(&self, number: usize) -> Result<Option<Launch>, Refused> {
        let (view, shared) = (
            &self.plan.outputs[number].view,
            &self.blocks.outputs[number],
        );
        self.transfer(view, shared, |held, given| (held, given))
    }

    /// A copy between what steps hold and the row-major elements that the host shares; `way` says from which to which.
    fn transfer(
        &self,
        view: &View,
        shared: &Shared,
        way: impl Fn(Strided, Strided) -> (Strided, Strided),
    ) -> Result<Option<Launch>, Refused> {
        if shared.is_direct {
            return Ok(None);
        }
        let is_alike = self.blocks.is_wide(view)? == (shared.held.stored == Stored::I64);
        check(
            is_alike,
            "integers where floats are, or floats where integers are",
        )?;
        check(view.len() == shared.len, "a port of another shape")?;
        let order: Vec<usize> = (0..view.rank()).collect();
        let row_major = View::dense(view.buffer, &view.shape(), &order);
        let walk = Walk::of(&[view, &row_major])?;
        let given = Strided {
            place: shared.held.place(),
            strides: walk.strides[1],
        };
        let (x, y) = way(self.blocks.strided(view, walk.strides[0])?, given);
        let shape = walk.shape;
        Ok(Launch::of_elements(
            shape.n,
            Work::Copy(structures::Copy { shape, x, y }),
        ))
    }

    /// Refuses to move integers of 64 bits to floats, or back.
    fn check_alike(&self, x: &View, y: &View) -> Result<(), Refused> {
        let is_alike = self.blocks.is_wide(x)? == self.blocks.is_wide(y)?;
        check(
            is_alike,
            "integers where floats are, or floats where integers are",
        )
    }

    pub(super) fn fill(&mut self, step: &FillStep) -> Result<Option<Launch>, Refused> {
        let walk = Walk::of(&[&step.y])?;
        let work = structures::Fill {
            shape: walk.shape,
            y: self.blocks.strided(&step.y, walk.strides[0])?,
            integer: step.value as i64,
            value: step.value as f32,
            unused: 0,
        };
        Ok(Launch::of_elements(walk.shape.n, Work::Fill(work)))
    }

    pub(super) fn gather(
        &mut self,
        index: usize,
        step: &GatherStep,
    ) -> Result<Option<Launch>, Refused> {
        let (x, y) = (&step.x, &step.y);
        let is_whole = x.rank() == 3
            && y.rank() == 3
            && step.index.shape() == [y.axes[1].extent]
            && [0, 2]
                .iter()
                .all(|&axis| x.axes[axis].extent == y.axes[axis].extent);
        check(is_whole, "positions that do not fit")?;
        check(
            self.blocks.is_wide(&step.index)?,
            "positions that are no integers",
        )?;
        self.check_alike(x, y)?;
        let n = product(y.shape())?;
        // Every position would be outside, and none could be read instead.
        check(
            n == 0 || x.axes[1].extent > 0,
            "positions of an axis that has none",
        )?;
        let work = structures::Gather {
            x: self.blocks.view(x)?,
            index: self.blocks.view(&step.index)?,
            y: self.blocks.view(y)?,
            count: n,
            positions: count(y.axes[1].extent)?,
            inner: count(y.axes[2].extent)?,
            extent: count(x.axes[1].extent)?,
            step: count(index)?,
            unused: 0,
        };
        Ok(Launch::of_elements(n, Work::Gather(work)))
    }

    pub(super) fn resample(&mut self, step: &ResampleStep) -> Result<Option<Launch>, Refused> {
        let (x, y, axis, taps) = (&step.x, &step.y, step.axis, step.taps);
        check(
            x.rank() == y.rank() && axis < y.rank(),
            "an axis that is not there",
        )?;
        // A table of the result's positions; where `x` is along the axis, the table says.
        let mut flat = x.clone();
        flat.axes[axis].extent = y.axes[axis].extent;
        flat.axes[axis].stride = 0;
        let entries = y.axes[axis].extent.checked_mul(taps);
        let weights = step.weight.as_ref();
        let mut index = step.index.iter();
        let is_whole = Some(step.index.len()) == entries
            && weights.is_none_or(|weights| Some(weights.len()) == entries)
            && (weights.is_some() || taps == 1)
            && index.all(|&from| (from as usize) < x.axes[axis].extent);
        check(is_whole, "a table that points outside")?;
        self.check_alike(x, y)?;
        if weights.is_some() && self.blocks.is_wide(x)? {
            return Refused::because("no sums of integers of 64 bits");
        }
        let walk = Walk::axis_by_axis(&[y, &flat])?;
        let Some(place) = walk.axes.iter().position(|&own| own == axis) else {
            return Refused::because("an axis that is not there");
        };
        let no_weights = 0;
        let work = structures::Resample {
            shape: walk.shape,
            x: self.blocks.strided(x, walk.strides[1])?,
            y: self.blocks.strided(y, walk.strides[0])?,
            x_stride: strides(x)[axis],
            index: self.constants.add_u32(self.blocks, &step.index)?.offset as u64,
            weights: match weights {
                Some(weights) => self.constants.add_f32(self.blocks, weights)?.offset as u64,
                None => no_weights,
            },
            axis: place as u32,
            taps: count(taps)?,
            has_weights: u32::from(weights.is_some()),
            unused: 0,
        };
        Ok(Launch::of_elements(walk.shape.n, Work::Resample(work)))
    }
}
