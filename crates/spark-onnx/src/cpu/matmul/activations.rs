//! Rounded activations as a step of their own, for training: what a GEMM or convolution of few bits does with its operand.
//!
//! ```text
//! x        [first axis][pixel][channels]       a part: some positions of the first axis
//! y        each part rounded as an operand is  one after the other, each on all threads
//! ```

use spark_quant::QuantError;

use super::rounded_operand::{RoundedOperand, behind};
use crate::Precision;
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::graph::ActivationFormat;
use crate::plan::{RoundedActivationsStep, View};
use crate::precision::Activations;
use crate::precision::recipes::GemmRecipes;

/// The kernel of rounded activations.
pub(crate) struct RoundedActivations {
    step: RoundedActivationsStep,
    /// Nothing where an operand is not rounded at all.
    rounding: Option<RoundedOperand>,
    /// Pixels that share a scale.
    together: usize,
    pixels: usize,
    channels: usize,
}

impl Kernel<RoundedActivationsStep> for RoundedActivations {
    fn prepare(problem: &Problem<'_, RoundedActivationsStep>) -> Result<Self, QuantError> {
        let step = problem.step.clone();
        let precision = match step.op.format {
            ActivationFormat::E4m3 => Precision::Fp8,
            ActivationFormat::Nvfp4 => Precision::Fp4,
        };
        let recipes = GemmRecipes::of(precision, Activations::Quantised);
        let recipe = recipes.and_then(|recipes| recipes.activations);
        let rounding = recipe.map(|recipe| RoundedOperand::new(recipe, step.op.scale));
        let channels = step.x.axes[step.axis].extent;
        let pixels = step.x.len() / channels.max(1);
        let positions = match step.axis {
            0 => 1,
            _ => step.x.axes[0].extent,
        };
        Ok(Self {
            rounding: rounding.transpose()?,
            together: (pixels / positions.max(1)).saturating_mul(step.op.together),
            pixels,
            channels,
            step,
        })
    }
}

/// The error of an element that is known by its place in memory, with its place in the tensor.
fn in_order(error: QuantError, y: &View) -> QuantError {
    let QuantError::NotFinite { index, value } = error else {
        return error;
    };
    let index = y.axes.iter().fold(0, |before, axis| {
        let extent = axis.extent.max(1);
        before * extent + index / axis.stride.unsigned_abs().max(1) % extent
    });
    QuantError::NotFinite { index, value }
}

impl PreparedStep for RoundedActivations {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        let (Some(rounding), channels) = (&self.rounding, self.channels) else {
            return Err(StepError::Refused("activations of this format".to_owned()));
        };
        let x = Start(c.memory.f32(&self.step.x).cast_const());
        let y = c.memory.f32(&self.step.y);
        let mut first = 0;
        while first < self.pixels {
            let part = self.together.clamp(1, self.pixels - first);
            let x = &x;
            // SAFETY: both views are dense with channels innermost and the first axis outermost, as lowering makes them, and were checked
            // at load; the result is in a buffer of its own.
            let rounded = unsafe {
                let to = y.add(first * channels);
                rounding.round(c.pool, to, [part, channels], |pixel| {
                    x.0.wrapping_add((first + pixel) * channels)
                })
            };
            rounded.map_err(|error| {
                let error = behind(error, first * channels);
                StepError::Quantise(in_order(error, &self.step.y))
            })?;
            first += part;
        }
        Ok(())
    }
}

/// Where the operand begins.
struct Start(*const f32);

// SAFETY: the pointer goes into a buffer that outlives the run and is only read.
unsafe impl Sync for Start {}
