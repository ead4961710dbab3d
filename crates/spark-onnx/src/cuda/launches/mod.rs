//! From a step of the plan to a launch: which kernel, how many blocks, what it is told.
//!
//! ```text
//! Step ── launch_of ──> Launch { work, blocks of threads }     or why there is no kernel for it
//!            │ constants it needs are given their places
//! ```
//!
//! What a kernel's memory safety stands on is checked here, step by step, and not taken from lowering: extents of the
//! views that one index walks through are the same, tables point inside, products of extents fit the kernel's numbers.
//! That views lie inside their buffers is the plan's check ([`Plan::check_views`](crate::plan::Plan::check_views)).
//!
//! Absent in this first slice, and refused by name: steps on bytes, recurrent cells, control flow, scatters, gathers of single
//! elements and of tuples, sorting, running sums, positions of extremes, grids and regions, operators of an embedder's own.

mod depthwise;
mod elements;
mod products;
mod rows;
mod tiles;
mod tiles_matmul;

use super::blocks::Blocks;
use super::constants::Constants;
use super::refused::Refused;
use super::structures;
use super::variants::{DepthwiseKernel, TilesKernel, TilesMatMulKernel};
use crate::plan::{Plan, Step};

/// Threads of a block of every kernel.
pub(super) const THREADS: u32 = 128;
const WARPS: u32 = THREADS / 32;

/// Which kernel, and what it is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Work {
    Conv(structures::Conv),
    MatMul(structures::MatMul),
    Tiles(TilesKernel, structures::Tiles),
    TilesMatMul(TilesMatMulKernel, structures::MatMul),
    Depthwise(DepthwiseKernel, structures::Depthwise),
    Attention(structures::Attention),
    Softmax(structures::Softmax),
    Norm(structures::Norm),
    GroupNorm(structures::GroupNorm),
    Reduce(structures::Reduce),
    Pool(structures::Pool),
    Program(structures::Program),
    Copy(structures::Copy),
    Fill(structures::Fill),
    Gather(structures::Gather),
    Resample(structures::Resample),
}

impl Work {
    /// The kernel's name.
    pub(super) fn kernel(&self) -> &'static str {
        match self {
            Self::Conv(_) => "plan_conv",
            Self::MatMul(_) => "plan_matmul",
            Self::Tiles(kernel, _) => kernel.name(),
            Self::TilesMatMul(kernel, _) => kernel.name(),
            Self::Depthwise(kernel, _) => kernel.name(),
            Self::Attention(_) => "plan_attention",
            Self::Softmax(_) => "plan_softmax",
            Self::Norm(_) => "plan_norm",
            Self::GroupNorm(_) => "plan_group_norm",
            Self::Reduce(_) => "plan_reduce",
            Self::Pool(_) => "plan_pool",
            Self::Program(_) => "plan_program",
            Self::Copy(_) => "plan_copy",
            Self::Fill(_) => "plan_fill",
            Self::Gather(_) => "plan_gather",
            Self::Resample(_) => "plan_resample",
        }
    }
}

/// One launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Launch {
    pub(super) work: Work,
    /// Blocks of [`THREADS`] threads; at least one.
    pub(super) blocks: u32,
    /// Dynamic shared memory of a block.
    pub(super) shared_bytes: u32,
}

impl Launch {
    /// A thread for each of `n` elements; nothing where there are none.
    fn of_elements(n: u32, work: Work) -> Option<Self> {
        Self::of_blocks(n.div_ceil(THREADS), work)
    }

    fn of_blocks(blocks: u32, work: Work) -> Option<Self> {
        (blocks > 0).then_some(Self {
            work,
            blocks,
            shared_bytes: 0,
        })
    }
}

/// A plan whose steps become launches, and what they need among the constants.
pub(super) struct Launching<'p> {
    pub(super) plan: &'p Plan,
    pub(super) blocks: &'p mut Blocks,
    pub(super) constants: &'p mut Constants,
    /// What weights are stored as.
    pub(super) weights: super::blocks::Stored,
}

impl Launching<'_> {
    /// The launch of step `index`; nothing where it computes no element.
    pub(super) fn launch_of(&mut self, index: usize) -> Result<Option<Launch>, Refused> {
        let plan = self.plan;
        match &plan.steps[index].step {
            Step::Conv(step) => self.conv(index, step),
            Step::Linear(step) => self.linear(index, step),
            Step::MatMul(step) => self.matmul(step),
            Step::Attention(step) => self.attention(step),
            Step::Softmax(step) => self.softmax(step),
            Step::Norm(step) => self.norm(step),
            Step::GroupNorm(step) => self.group_norm(step),
            Step::Reduce(step) => self.reduce(step),
            Step::Pool(step) => self.pool(step),
            Step::Pointwise(step) => self.program(index, step),
            Step::Copy(step) => self.copy(&step.x, &step.y),
            Step::Fill(step) => self.fill(step),
            Step::Gather(step) => self.gather(index, step),
            Step::Resample(step) => self.resample(step),
            Step::Int8(_)
            | Step::Dropout(_)
            | Step::RoundedActivations(_)
            | Step::ArgReduce(_)
            | Step::GatherElements(_)
            | Step::GatherNd(_)
            | Step::ScatterElements(_)
            | Step::ScatterNd(_)
            | Step::GridSample(_)
            | Step::RoiAlign(_)
            | Step::CumSum(_)
            | Step::TopK(_)
            | Step::Recurrent(_)
            | Step::Control(_)
            | Step::Custom(_) => Refused::because("there is no kernel for such steps yet"),
        }
    }
}

/// Refuses what lowering never makes.
fn check(holds: bool, what: &'static str) -> Result<(), Refused> {
    match holds {
        true => Ok(()),
        false => Refused::because(what),
    }
}
