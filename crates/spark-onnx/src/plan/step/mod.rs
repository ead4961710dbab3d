//! What one step of a plan does, one family of steps per file.
//!
//! ```text
//! struct XStep { views, parameters }     what it computes, in its documentation
//! impl LoweredStep for XStep             its name, its views, what it costs
//! X(XStep)                               its line in `Step`
//! ```
//!
//! Every step reads and writes whole views, none of which overlap unless said. A new step is its struct,
//! the `impl`, and the line: nothing else lists steps but lowering, which makes them, and an executor's
//! choice of kernels.

mod attention;
mod control;
mod conv;
mod custom;
mod data_movement;
mod elementwise;
mod epilogue;
mod indexing;
mod int8;
mod lowered_step;
mod matmul;
mod normalization;
mod pool;
mod recurrent;
mod reduction;
mod resampling;
mod rounded_activations;

use std::ops::{Deref, DerefMut};

use super::view::View;

pub(crate) use attention::{AttentionStep, Mask};
pub(crate) use control::{Action, ControlStep, Iteration};
pub(crate) use conv::{ConvStep, Window};
pub(crate) use custom::{CustomStep, TypedView};
pub(crate) use data_movement::{CopyStep, FillStep};
pub(crate) use elementwise::{DropoutStep, PointwiseStep};
pub(crate) use epilogue::{Activation, Epilogue};
pub(crate) use indexing::{
    GatherElementsStep, GatherNdStep, GatherStep, ScatterElementsStep, ScatterNdStep,
};
pub(crate) use int8::{
    ComputedQuantisation, Int8Step, Int8Weights, KnownQuantisation, Quantisation, int8_storage,
};
pub(crate) use lowered_step::LoweredStep;
pub(crate) use matmul::{LinearStep, MatMulStep};
pub(crate) use normalization::{GroupNormStep, NormKind, NormStep, SoftmaxStep};
pub(crate) use pool::PoolStep;
pub(crate) use recurrent::RecurrentStep;
pub(crate) use reduction::{ArgReduceStep, CumSumStep, ReduceStep, TopKStep};
pub(crate) use resampling::{GridSampleStep, ResampleStep, RoiAlignStep};
pub(crate) use rounded_activations::RoundedActivationsStep;

/// Declares [`Step`] and sends what is asked of a step to the struct that its variant holds.
macro_rules! steps {
    ($($variant:ident($step:ty),)*) => {
        /// One step; whatever a [`LoweredStep`] tells can be asked of it.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each variant is described at the struct it holds")]
        pub(crate) enum Step {
            $($variant($step),)*
        }

        impl Deref for Step {
            type Target = dyn LoweredStep;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$variant(step) => step.as_lowered(),)*
                }
            }
        }

        impl DerefMut for Step {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self {
                    $(Self::$variant(step) => step.as_lowered_mut(),)*
                }
            }
        }
    };
}

steps! {
    Conv(ConvStep),
    Linear(LinearStep),
    MatMul(MatMulStep),
    Attention(AttentionStep),
    Int8(Box<Int8Step>),
    Pool(PoolStep),
    Pointwise(PointwiseStep),
    Dropout(DropoutStep),
    RoundedActivations(RoundedActivationsStep),
    Reduce(ReduceStep),
    ArgReduce(ArgReduceStep),
    Softmax(SoftmaxStep),
    Norm(NormStep),
    GroupNorm(GroupNormStep),
    Copy(CopyStep),
    Fill(FillStep),
    Gather(GatherStep),
    GatherElements(GatherElementsStep),
    GatherNd(GatherNdStep),
    ScatterElements(ScatterElementsStep),
    ScatterNd(ScatterNdStep),
    Resample(ResampleStep),
    GridSample(GridSampleStep),
    RoiAlign(RoiAlignStep),
    CumSum(CumSumStep),
    TopK(TopKStep),
    Recurrent(Box<RecurrentStep>),
    Control(ControlStep),
    Custom(CustomStep),
}

impl Step {
    /// Calls `f` with every view of the step.
    pub(crate) fn for_each_view_mut(&mut self, f: impl FnMut(&mut View)) {
        self.views_mut().into_iter().for_each(f);
    }
}

#[cfg(test)]
mod tests;
