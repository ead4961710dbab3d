//! Softmax, normalisations, reductions and pooling, as `kernels/plan_rows.cu` computes them.

use super::products::check_reach;
use super::{Launch, Launching, WARPS, Work, check};
use crate::cuda::refused::Refused;
use crate::cuda::structures::{self, Strided};
use crate::cuda::walk::{Walk, count, product};
use crate::graph::{PoolKind, ReduceKind};
use crate::plan::{GroupNormStep, NormKind, NormStep, PoolStep, ReduceStep, SoftmaxStep, View};

impl Launching<'_> {
    pub(super) fn softmax(&mut self, step: &SoftmaxStep) -> Result<Option<Launch>, Refused> {
        let [rows, width] = rows_of(&step.x, &step.y)?;
        let work = structures::Softmax {
            x: self.blocks.view(&step.x)?,
            y: self.blocks.view(&step.y)?,
            rows,
            width,
            log: u32::from(step.log),
            masked: u32::from(step.masked),
        };
        let blocks = if width == 0 { 0 } else { rows };
        Ok(Launch::of_blocks(blocks, Work::Softmax(work)))
    }

    /// A vector of so many elements, if there is one.
    fn vector(&self, view: Option<&View>, len: usize) -> Result<Strided, Refused> {
        let Some(view) = view else {
            return Ok(Strided::NONE);
        };
        check(view.shape() == [len], "a scale or bias that does not fit")?;
        self.blocks.view(view)
    }

    pub(super) fn norm(&mut self, step: &NormStep) -> Result<Option<Launch>, Refused> {
        let [rows, width] = rows_of(&step.x, &step.y)?;
        let work = structures::Norm {
            x: self.blocks.view(&step.x)?,
            y: self.blocks.view(&step.y)?,
            scale: self.vector(step.scale.as_ref(), width as usize)?,
            bias: self.vector(step.bias.as_ref(), width as usize)?,
            rows,
            width,
            of_squares: u32::from(step.kind == NormKind::MeanSquare),
            has_scale: u32::from(step.scale.is_some()),
            has_bias: u32::from(step.bias.is_some()),
            epsilon: step.epsilon,
        };
        let blocks = if width == 0 { 0 } else { rows };
        Ok(Launch::of_blocks(blocks, Work::Norm(work)))
    }

    pub(super) fn group_norm(&mut self, step: &GroupNormStep) -> Result<Option<Launch>, Refused> {
        let (x, y, groups) = (&step.x, &step.y, step.groups);
        check(
            x.rank() == 3 && x.shape() == y.shape(),
            "channels that do not fit",
        )?;
        let [samples, channels, positions] = [0, 1, 2].map(|axis| x.axes[axis].extent);
        let divides = groups > 0 && channels.is_multiple_of(groups);
        check(divides, "channels that groups do not divide")?;
        let n = product(x.shape())?;
        let work = structures::GroupNorm {
            x: self.blocks.view(x)?,
            y: self.blocks.view(y)?,
            scale: self.vector(Some(&step.scale), channels)?,
            bias: self.vector(Some(&step.bias), channels)?,
            samples: count(samples)?,
            groups: count(groups)?,
            per_group: count(channels / groups)?,
            positions: count(positions)?,
            epsilon: step.epsilon,
            unused: 0,
        };
        let blocks = if n == 0 {
            0
        } else {
            product([samples, groups])?
        };
        Ok(Launch::of_blocks(blocks, Work::GroupNorm(work)))
    }

    pub(super) fn reduce(&mut self, step: &ReduceStep) -> Result<Option<Launch>, Refused> {
        let (x, y) = (&step.x, &step.y);
        check(x.rank() == y.rank(), "a result of other axes")?;
        if self.blocks.is_wide(x)? || self.blocks.is_wide(y)? {
            return Refused::because("no reduction of integers of 64 bits");
        }
        // Their exact sum would be held in 16 bits where networks are.
        if self.blocks.is_of_bytes(x)? {
            return Refused::because("no reduction of integers of 8 bits");
        }
        let is_reduced = |axis: usize| y.axes[axis].extent == 1 && x.axes[axis].extent != 1;
        let kept = Walk::along(&[y, x], |axis| !is_reduced(axis))?;
        let over = Walk::along(&[x], is_reduced)?;
        let n = kept.shape.n;
        let work = structures::Reduce {
            x: self.blocks.strided(x, kept.strides[1])?,
            y: self.blocks.strided(y, kept.strides[0])?,
            kept: kept.shape,
            over: over.shape,
            over_strides: over.strides[0],
            kind: match step.kind {
                ReduceKind::Sum => 0,
                ReduceKind::Mean => 1,
                ReduceKind::Max => 2,
                ReduceKind::Min => 3,
                ReduceKind::Prod => 4,
                ReduceKind::L1 => 5,
                ReduceKind::L2 => 6,
                ReduceKind::SumSquare => 7,
                ReduceKind::LogSum => 8,
                ReduceKind::LogSumExp => 9,
            },
            unused: 0,
        };
        Ok(Launch::of_blocks(n.div_ceil(WARPS), Work::Reduce(work)))
    }

    pub(super) fn pool(&mut self, step: &PoolStep) -> Result<Option<Launch>, Refused> {
        let (x, y, window) = (&step.x, &step.y, &step.window);
        let is_whole = x.rank() == 4
            && y.rank() == 4
            && (0..2).all(|axis| x.axes[axis].extent == y.axes[axis].extent)
            && window.stride.iter().chain(&window.dilation).all(|&n| n > 0);
        check(is_whole, "samples or channels that do not fit")?;
        // A window of padding alone has the least byte, not minus infinity.
        if self.blocks.is_of_bytes(x)? || self.blocks.is_of_bytes(y)? {
            return Refused::because("no pooling of integers of 8 bits");
        }
        for axis in 0..2 {
            check_reach(
                window,
                axis,
                x.axes[2 + axis].extent,
                y.axes[2 + axis].extent,
            )?;
            count(step.pad_end[axis])?;
        }
        let n = product(y.shape())?;
        let pair = |pair: [usize; 2]| pair.map(|value| value as u32);
        let work = structures::Pool {
            x: self.blocks.view(x)?,
            y: self.blocks.view(y)?,
            count: n,
            // Factors of `count`, or checked above.
            channels: y.axes[1].extent as u32,
            height: y.axes[2].extent as u32,
            width: y.axes[3].extent as u32,
            in_height: x.axes[2].extent as u32,
            in_width: x.axes[3].extent as u32,
            kernel: pair(window.kernel),
            stride: pair(window.stride),
            dilation: pair(window.dilation),
            pad: pair(window.pad),
            pad_end: pair(step.pad_end),
            averages: u32::from(step.kind == PoolKind::Average),
            counts_pads: u32::from(step.count_include_pad),
            unused: [0; 2],
        };
        Ok(Launch::of_elements(n, Work::Pool(work)))
    }
}

/// Rows and width of two matrices that are alike.
fn rows_of(x: &View, y: &View) -> Result<[u32; 2], Refused> {
    check(
        x.rank() == 2 && x.shape() == y.shape(),
        "rows that do not fit",
    )?;
    product(x.shape())?;
    Ok([count(x.axes[0].extent)?, count(x.axes[1].extent)?])
}
