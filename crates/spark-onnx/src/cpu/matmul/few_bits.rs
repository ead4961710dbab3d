//! GEMM of eight and four bits as a prepared step, for linear steps and convolutions alike.

use spark_quant::QuantError;

use super::format::MatmulFormat;
use super::quantised::PreparedQuantised;
use crate::Precision;
use crate::cpu::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::workspace::WorkspaceSize;
use crate::plan::Step;

/// A linear step or convolution with weights of eight or four bits.
pub(crate) struct Quantised {
    /// Without its weights.
    step: Step,
    prepared: PreparedQuantised,
}

impl<S> Kernel<S> for Quantised {
    fn can_implement(problem: &Problem<'_, S>) -> bool {
        let MatmulFormat { precision, .. } = problem.format;
        matches!(precision, Precision::Fp8 | Precision::Fp4)
            && matches!(problem.whole, Step::Conv(_) | Step::Linear(_))
    }

    fn packing_bytes(problem: &Problem<'_, S>) -> usize {
        let weights = match problem.whole {
            Step::Conv(step) => &step.weights,
            Step::Linear(step) => &step.weights,
            _ => return 0,
        };
        problem.format.packing_bytes(problem.cpu, weights)
    }

    fn prepare(problem: &Problem<'_, S>) -> Result<Self, QuantError> {
        let prepared = PreparedQuantised::new(problem);
        let mut step = problem.whole.clone();
        step.forget_weights();
        match prepared {
            Some(prepared) => Ok(Self {
                step,
                prepared: prepared?,
            }),
            None => unreachable!("what `can_implement` lets through"),
        }
    }
}

impl PreparedStep for Quantised {
    fn run(&self, context: &Context<'_>) -> Result<(), StepError> {
        let done = self.prepared.run(&self.step, context);
        done.map_err(StepError::Quantise)
    }

    fn operands(&self) -> &'static str {
        self.prepared.operands()
    }

    fn weight_bytes(&self) -> usize {
        self.prepared.weight_bytes()
    }

    fn workspace_size(&self, cpu: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize {
            scratch: self.prepared.scratch_len(cpu.isa),
            shared: self.prepared.activations_len(),
        }
    }

    fn rounds_results(&self) -> bool {
        true
    }
}
